"""The table of docs/spec/access.md has a row for each method that proto/ has, and for no other but health's.

That each cell holds is for its tests, which read the table; this is for a method that was added and that nobody decided upon.
"""

import pathlib
import re

PAGE = pathlib.Path("docs/spec/access.md")
PROTOS = pathlib.Path("proto")
# Of gRPC's own package.
HEALTH = {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"}
_ROW = re.compile(r"^\| (/\S+) \|", re.MULTILINE)
_PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)
_PART = re.compile(r"^service (\w+)|^\s+rpc (\w+)\s*\(", re.MULTILINE)


def methods(text):
    package, service = _PACKAGE.search(text), ""
    for found in _PART.finditer(text):
        service = found[1] or service
        if found[2]:
            yield f"/{package[1] + '.' if package else ''}{service}/{found[2]}"


def findings(root):
    page = root / PAGE
    if not page.is_file():
        return
    rows = _ROW.findall(page.read_text(encoding="utf-8"))
    wanted = HEALTH | {method for proto in sorted((root / PROTOS).rglob("*.proto"))
                       for method in methods(proto.read_text(encoding="utf-8"))}
    for method in sorted(wanted - set(rows)):
        yield f"{PAGE}: who may call {method}? It has no row"
    for method in sorted(set(rows) - wanted):
        yield f"{PAGE}: there is no method {method}"
    for method in sorted({row for row in rows if rows.count(row) > 1}):
        yield f"{PAGE}: {method} has two rows"
