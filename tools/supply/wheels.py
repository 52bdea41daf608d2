"""Python packages as pip leaves them: NAME-VERSION.dist-info beside what they consist of."""

import csv
import dataclasses
import email.parser
import pathlib
import re


@dataclasses.dataclass(frozen=True)
class Wheel:
    # As the index writes it: lower case, with -.
    name: str
    version: str
    # An SPDX expression, or None.
    licence: str | None
    # Below the folder that has the .dist-info.
    files: frozenset


def canonical(name):
    """As the index writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read(info):
    metadata = email.parser.HeaderParser().parsestr((info / "METADATA").read_text(encoding="utf-8", errors="replace"))
    record = info / "RECORD"
    files = set()
    if record.is_file():
        with record.open(encoding="utf-8", newline="") as lines:
            files = {row[0] for row in csv.reader(lines) if row}
    return Wheel(canonical(metadata["Name"]), metadata["Version"], metadata.get("License-Expression"),
                 frozenset(files))


def find(folder):
    """Those in a folder, sorted by name."""
    return sorted((read(path) for path in pathlib.Path(folder).glob("*.dist-info")), key=lambda wheel: wheel.name)
