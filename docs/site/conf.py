"""Settings of Sphinx for the pages that `build.py` puts together."""

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "hpcdp"
author = "The hpcdp authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["**/_build"]
html_theme = "furo"
html_title = "hpcdp"
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # of a file, a browser may fetch no other to find a summary in
html_static_path: list[str] = []
html_theme_options = {"navigation_with_keys": True}
myst_enable_extensions = ["deflist", "attrs_inline"]
myst_heading_anchors = 4
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r".*")]  # types in signatures have no page of their own
autodoc_typehints = "signature"
autodoc_member_order = "bysource"


def setup(app: Sphinx) -> None:
    """Blocks of CSV are text."""
    app.add_lexer("csv", TextLexer)
