"""Links of the built site: each that stays in it leads to a file, and to a place in it; none leads out but over https."""

import html.parser
import pathlib
import urllib.parse

_OUTSIDE = {"https", "mailto"}


class _Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links = []
        self.places = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.places.update(filter(None, (attributes.get("id"), attributes.get("name") if tag == "a" else None)))
        # What the browser fetches by itself, and what a reader clicks.
        for name in ("href", "src"):
            if attributes.get(name):
                self.links.append((tag, attributes[name]))


def findings(built):
    """Of all pages below a folder."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(pathlib.Path(built).rglob("*.html"))}
    for path, page in pages.items():
        for tag, link in page.links:
            parts = urllib.parse.urlsplit(link)
            where = f"{path.relative_to(built)}: {link}"
            if parts.scheme or parts.netloc:
                if parts.scheme not in _OUTSIDE and not link.startswith("data:"):
                    yield f"{where}: leads out, and not over https"
                elif tag in ("script", "link", "img"):
                    yield f"{where}: is fetched from elsewhere when the page is read"
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{where}: leads nowhere"
            elif parts.fragment and target.suffix == ".html" and urllib.parse.unquote(parts.fragment) not in pages[target].places:
                yield f"{where}: there is no such place in it"
