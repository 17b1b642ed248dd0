"""Gates of the built site: links and anchors lead somewhere inside it, and nothing is loaded from outside."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes from which a browser loads something by itself.
_LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}
_STYLE = re.compile(r"""(?:url\(|@import\s+(?!url))\s*["']?([^"')\s]+)""")


@dataclass
class Page(HTMLParser):
    """What a page loads, where it links to, and the anchors that it has."""

    loaded: list[str] = field(default_factory=list)
    linked: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "style":
            self.loaded += _STYLE.findall(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.loaded += _STYLE.findall(given.get("style", ""))
        for name, value in given.items():
            if (tag, name) in _LOADED and given.get("rel") not in (
                "canonical",
                "author",
                "search",
                "next",
                "prev",
                "index",
            ):
                self.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.linked.append(value)


def read(path: Path) -> Page:
    """A page, parsed."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def faults(folder: Path) -> list[str]:
    """One line for each link that leads nowhere and each thing loaded from outside, over all pages and styles."""
    pages = {str(path): read(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}
    found = [
        f"{os.path.relpath(path, folder)}: {text}" for path, page in pages.items() for text in _of(path, page, pages)
    ]
    for style in sorted(folder.rglob("*.css")):
        text = style.read_text(encoding="utf-8")
        found += [f"{style.relative_to(folder)}: loads {url}" for url in _STYLE.findall(text) if _outside(url)]
    return found if pages else [f"{folder} has no pages"]


def _outside(url: str) -> bool:
    return bool(urlsplit(url).netloc) or urlsplit(url).scheme in ("http", "https")


def _of(path: str, page: Page, pages: dict[str, Page]) -> Iterator[str]:
    for url in page.loaded:
        if _outside(url):
            yield f"loads {url}"
        elif urlsplit(url).scheme != "data" and not os.path.exists(_target(path, url)):
            yield f"loads {url}, which is not there"
    for url in dict.fromkeys(page.linked):
        parts, target = urlsplit(url), _target(path, url)
        if parts.scheme or parts.netloc:
            continue
        if target not in pages and not os.path.exists(target):
            yield f"links to {url}, which is not there"
        elif target in pages and unquote(parts.fragment) not in {"", *pages[target].anchors}:
            yield f"links to {url}: that page has no such anchor"


def _target(path: str, url: str) -> str:
    place = unquote(urlsplit(url).path)
    return os.path.normpath(os.path.join(os.path.dirname(path), place)) if place else path
