#!/usr/bin/env python3
"""Reports of a run whose folder nobody reaches, as lines of its log, and back.

usage: report_log.py FOLDER <LOG   writes the reports into the folder, and the rest of the log to standard output
"""

import base64
import json
import pathlib
import re
import sys
import textwrap
import zlib

BEGIN, END = "----- begin of the load test's reports -----", "----- end of the load test's reports -----"
LINE_LENGTH = 120
MAX_BYTES = 256 * 1024 * 1024
# Of files in one folder, and nowhere else.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def write(folder, log):
    """All files of `folder`, which are text, as lines that end up in any log unharmed."""
    texts = {path.name: path.read_bytes().decode() for path in sorted(folder.iterdir()) if path.is_file()}
    packed = base64.b64encode(zlib.compress(json.dumps(texts).encode(), 9)).decode()
    print("", BEGIN, *textwrap.wrap(packed, LINE_LENGTH), END, sep="\n", file=log, flush=True)


def read(log):
    """({name: text}, what is in the log besides). Raises ValueError where the log holds no whole reports."""
    before, begin, rest = log.partition(f"{BEGIN}\n")
    packed, end, after = rest.partition(f"\n{END}")
    if not begin or not end:
        raise ValueError("the log has no reports, or was cut off before their end")
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(packed.replace("\n", ""), validate=True), MAX_BYTES)
        texts = json.loads(data) if unpacking.eof else None
    except (ValueError, zlib.error) as error:
        raise ValueError(f"the reports in the log are damaged: {error}") from error
    if not isinstance(texts, dict) or not all(
            NAME.fullmatch(name) and isinstance(text, str) for name, text in texts.items()):
        raise ValueError("what the log holds are no reports, or too many of them")
    return texts, before + after.lstrip("\n")


def save(log, folder):
    """Returns the rest of the log."""
    texts, rest = read(log)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())
    return rest


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        print(save(sys.stdin.read(), pathlib.Path(sys.argv[1])), end="")
    except (OSError, ValueError) as error:
        sys.exit(f"report_log: {error}")


if __name__ == "__main__":
    main()
