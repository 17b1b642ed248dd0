"""Settings of Sphinx for the site. `build.py` lays the sources out, and calls it."""

import sys
from importlib.metadata import distribution
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

import docstrings  # beside this file

from emergence import __version__
from validation.report.page import styles

#: One file that needs no other: fonts are paths inside it.
_MATHJAX = distribution("sphinx-mathjax-offline").locate_file("sphinx-mathjax-offline/static/mathjax/tex-svg-full.js")

project = "emergence"
author = "the authors of emergence"
copyright = f"{author}, MIT licence"
version = release = __version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
include_patterns = [
    "index.md",
    "*.md",
    "docs/*.md",
    "examples/README.md",
    "notebooks/*.ipynb",
    "reference/**",
    "gallery/**",
]
nitpicky = True
#: Types of other libraries, and names that are not public, have no page to link to; `docstrings` checks that ours exist.
nitpick_ignore_regex = [("py:.*", ".*")]
suppress_warnings = ["mystnb.unknown_mime_type"]

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are stored with their outputs: `make notebooks` runs them
autosummary_generate = True
templates_path = ["templates"]
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
maximum_signature_line_length = 100
napoleon_use_ivar = True
napoleon_use_rtype = False
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_theme = "sphinx_book_theme"
html_title = "emergence"
html_static_path = ["static", str(_MATHJAX)]
html_css_files = ["site.css", "verdicts.css"]
smartquotes_action = "q"  # (quotes alone: -- begins an option here)
html_search_scorer = str(Path(__file__).parent / "static" / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses for files on disk
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_navbar_depth": 1,
    "collapse_navigation": True,  # half of the build went into trees that nobody unfolds
    "home_page_in_toc": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
mathjax_path = "tex-svg-full.js"


def setup(app: Sphinx) -> None:
    """Connect what makes docstrings, which are Markdown, into pages."""
    app.connect("autodoc-process-docstring", docstrings.process, priority=400)  # before napoleon, at 500
    app.connect("missing-reference", docstrings.resolve)
    static = Path(app.outdir) / "_static"
    static.mkdir(parents=True, exist_ok=True)
    look = styles('html[data-theme="light"] .verdicts', 'html[data-theme="dark"] .verdicts')
    (static / "verdicts.css").write_text(look, encoding="utf-8")
