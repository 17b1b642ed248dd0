"""Gates of the built site: links and anchors lead somewhere inside it, and nothing is loaded from outside."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes from which a browser loads something by itself.
_LOADED = {
    *((tag, "src") for tag in ("script", "img", "iframe", "source", "video", "audio", "embed", "input", "track")),
    *((tag, "href") for tag in ("link", "image", "use")),
    *((tag, "xlink:href") for tag in ("image", "use")),
    *(("object", "data"), ("video", "poster")),
}
#: What a reader gets to from the first page: address (a pattern) → clicks, at the most. Each is there at least once.
REACHED = {
    r"reference/claims/\w+\.html#claim-.+": 2,
    r"docs/own_activation\.html#its-figure": 4,
    r"docs/explorer\.html": 2,
}
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
        self.loaded += [one.split()[0] for one in given.get("srcset", "").split(",") if one.strip()]
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


def read_all(folder: Path) -> dict[str, Page]:
    """Path → page, of all that were built."""
    return {str(path): read(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}


def faults(folder: Path, pages: dict[str, Page]) -> list[str]:
    """One line for each link that leads nowhere and each thing loaded from outside, over all pages and styles."""
    found = [
        f"{os.path.relpath(path, folder)}: {text}"
        for path, page in pages.items()
        for text in _of(path, page, pages, os.path.join(os.path.abspath(folder), ""))
    ]
    for style in sorted(folder.rglob("*.css")):
        text = style.read_text(encoding="utf-8")
        found += [f"{style.relative_to(folder)}: loads {url}" for url in _STYLE.findall(text) if _outside(url)]
    return found if pages else [f"{folder} has no pages"]


def far(folder: Path, pages: Mapping[str, Page], reached: Mapping[str, int] = REACHED) -> list[str]:
    """One line for each of the addresses that is not reached, or takes more clicks than it may."""
    clicks = _clicks(str(folder / "index.html"), pages)
    addresses = {
        os.path.relpath(path, folder) + (f"#{anchor}" if anchor else ""): clicks.get((path, anchor))
        for path, page in pages.items()
        for anchor in ("", *page.anchors)
    }
    found = []
    for pattern, most in reached.items():
        meant = {address: count for address, count in addresses.items() if re.fullmatch(pattern, address)}
        found += [] if meant else [f"no page is {pattern}"]
        found += [
            f"{address} is {'not reached' if count is None else f'{count} clicks away'}, and should be within {most}"
            for address, count in meant.items()
            if count is None or count > most
        ]
    return found


def _clicks(start: str, pages: Mapping[str, Page]) -> dict[tuple[str, str], int]:
    """(page, anchor) → the fewest links from the start that lead to it; "" is the page, by whichever of its anchors."""
    known, left = {(start, ""): 0}, [start]
    for path in left:  # it grows
        for url in pages[path].linked:
            parts, target = urlsplit(url), _target(path, url)
            if parts.scheme or parts.netloc or target not in pages:
                continue
            count = known[path, ""] + 1
            known.setdefault((target, unquote(parts.fragment)), count)
            if target not in left:
                known.setdefault((target, ""), count)
                left.append(target)
    return known


def _outside(url: str) -> bool:
    return bool(urlsplit(url).netloc) or urlsplit(url).scheme in ("http", "https")


def _of(path: str, page: Page, pages: dict[str, Page], folder: str) -> Iterator[str]:
    def there(target: str) -> bool:
        """Whether a file is in the site: what lies beside it is not where the site goes."""
        return os.path.exists(target) and os.path.join(os.path.abspath(target), "").startswith(folder)

    for url in page.loaded:
        if _outside(url):
            yield f"loads {url}"
        elif urlsplit(url).scheme != "data" and not there(_target(path, url)):
            yield f"loads {url}, which is not there"
    for url in dict.fromkeys(page.linked):
        parts, target = urlsplit(url), _target(path, url)
        if parts.scheme or parts.netloc:
            continue
        if target not in pages and not there(target):
            yield f"links to {url}, which is not there"
        elif target in pages and unquote(parts.fragment) not in {"", *pages[target].anchors}:
            yield f"links to {url}: that page has no such anchor"


def _target(path: str, url: str) -> str:
    place = unquote(urlsplit(url).path)
    return os.path.normpath(os.path.join(os.path.dirname(path), place)) if place else path
