"""Sphinx's configuration of kerf's site; tools/pages/build_site.py starts it."""

from pygments.lexers.special import TextLexer

project = "kerf"
html_title = "kerf"
extensions = ["myst_parser"]
root_doc = "docs/index"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["kerf.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# Headings are places that a link may name, as on the forges that show Markdown.
myst_heading_anchors = 4
# A lone -- in text is a flag, not a dash.
smartquotes = False


def setup(app):
    # Drawn by forges; here it is text that can be read.
    app.add_lexer("mermaid", TextLexer)
