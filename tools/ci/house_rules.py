#!/usr/bin/env python3
"""The rules of the house that a program can check; each finding is a failure.

Run from anywhere: tools/ci/house_rules.py
"""

import pathlib
import re
import subprocess
import sys

# A folder reads the types of those before it and never includes from those after it.
LAYERS = ["base", "proto", "kernels", "server", "client", "e2e"]
WALL_LINES = 700
SOURCE_SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".py"}
MAX_TRACKED_BYTES = 1_000_000
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def tracked_files(root):
    output = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True).stdout
    return [root / name for name in output.decode().split("\0") if name]


def check_source(path, relative, text):
    lines = text.split("\n")
    if len(lines) > WALL_LINES:
        yield f"{relative}: {len(lines)} lines; the wall is {WALL_LINES}: is it one idea?"
    # What is compiled once for each vector target has a guard of its own kind.
    guard = "HWY_TARGET_TOGGLE" if path.name.endswith("-inl.h") else "#pragma once"
    if path.suffix == ".h" and "#pragma once" not in text and guard not in text:
        yield f"{relative}: a header without #pragma once"
    layer = relative.parts[0]
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match and layer in LAYERS:
            other = match.group(1).split("/")[0]
            if other in LAYERS and LAYERS.index(other) > LAYERS.index(layer):
                yield f"{relative}:{number}: {layer}/ includes from {other}/, which is later on the data path"
            if {layer, other} == {"server", "client"}:
                yield f"{relative}:{number}: server/ and client/ share only base/, proto/ and kernels/"
        if re.search(r"\bTODO\b|\bFIXME\b|\bXXX\b", line) and path.name != "house_rules.py":
            yield f"{relative}:{number}: unfinished: do it or write an issue"


def findings(root):
    for path in tracked_files(root):
        if not path.is_file() or path.is_symlink():
            continue
        relative = path.relative_to(root)
        size = path.stat().st_size
        if size > MAX_TRACKED_BYTES:
            yield f"{relative}: {size} bytes; nothing over {MAX_TRACKED_BYTES} is tracked"
        if path.suffix in SOURCE_SUFFIXES:
            yield from check_source(path, relative, path.read_text(encoding="utf-8"))


def main():
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    found = list(findings(root))
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
