"""The version of kerf, which stands in base/version.h alone."""

import pathlib
import re

import processes

HEADER = pathlib.Path("base/version.h")
_NUMBER = re.compile(r'kVersion = "([^"]+)"')


def of_tree(root):
    """As of the repository in `root`. Raises processes.Failed where it names none."""
    found = _NUMBER.search((root / HEADER).read_text(encoding="utf-8"))
    if not found:
        raise processes.Failed(f"{HEADER} names no version")
    return found[1]
