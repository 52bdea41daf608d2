#!/usr/bin/env python3
"""The rules of the house that a program can check; each finding is a failure.

Run from anywhere: tools/ci/house_rules.py
"""

import ast
import pathlib
import re
import subprocess
import sys

import access_table
import cpp_functions
import folder_graph
import spec_rules
import threat_model
import versions

# A folder reads the types of those before it and never includes from those after it.
LAYERS = ["base", "proto", "kernels", "server", "client", "e2e"]
WALL_LINES = 700
FUNCTION_LINES = 70
SUBJECT_CHARACTERS = 72
# The rule for subjects came after it.
SUBJECTS_AFTER = "49a072a6"
CPP_SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inc"}
PYTHON_PROGRAM = re.compile(r"#!.*\bpython")
MAX_TRACKED_BYTES = 1_000_000
# What stands in the root, dotfiles aside.
TOP_LEVEL = {"BUILD", "CHANGELOG.md", "LICENSE", "README.md", "WORKSPACE", "base", "bazel", "client", "deploy", "docs", "e2e", "kernels",
             "loadtest", "proto", "server", "tools"}
NAME_PART = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+-]*")
# Inputs of fuzzers, and what a release has written.
MAY_BE_BINARY = re.compile(r"_?corpus/|^e2e/releases/")
# Screenshots, which nothing but a browser makes.
PICTURE = re.compile(r"^docs/img/[\w-]+\.png$")
MAX_PICTURE_BYTES = 128 << 10
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
# Not a condition over two lines; the next compilation by g++ finds those.
BARE_EXPECTATION = re.compile(r"\s*(if|else if) (constexpr )?\(.*\) (EXPECT|ASSERT)_[A-Z_]+\(")
# The machine's clock may be set at any time: what kerfd waits for, or calls old, goes by another one. Where only a
# person reads it, or a rule says what a wrong day costs:
WALL_CLOCK = re.compile(r"\bsystem_clock\b|\babsl::Now\b|\bgettimeofday\b|\bCLOCK_REALTIME\b|\btime\((nullptr|NULL|0)\)")
MAY_READ_WALL_CLOCK = {"server/access/access_source.cc", "server/audit/wall_clock.cc", "server/hints/hint_cache.cc",
                       "server/index/set_aside.cc"}


def tracked_files(root):
    output = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True).stdout
    return [root / name for name in output.decode().split("\0") if name]


def check_name(relative):
    for part in relative.parts:
        if not NAME_PART.fullmatch(part):
            yield f"{relative}: '{part}' is no name for a file: letters, digits and ._+- alone, no - first"
    if relative.parts[0] not in TOP_LEVEL and not relative.parts[0].startswith("."):
        yield f"{relative}: '{relative.parts[0]}' is not what stands in the root; was it written there by mistake?"


def check_is_text(path, relative):
    data = path.read_bytes()
    if PICTURE.search(relative.as_posix()):
        if len(data) > MAX_PICTURE_BYTES:
            yield f"{relative}: {len(data)} bytes; a picture has at most {MAX_PICTURE_BYTES}"
    elif b"\0" in data and not MAY_BE_BINARY.search(relative.as_posix()):
        yield f"{relative}: binary; such files are fetched or made, not tracked"


def is_python(path, text):
    return path.suffix == ".py" or PYTHON_PROGRAM.match(text) is not None


def may_read_wall_clock(relative):
    is_of_tests = relative.stem.endswith("_test") or "testing" in relative.parts
    return is_of_tests or relative.as_posix() in MAY_READ_WALL_CLOCK


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
        if layer == "server" and WALL_CLOCK.search(line) and not may_read_wall_clock(relative):
            yield f"{relative}:{number}: the machine's clock may be set meanwhile: steady_clock, or server/net/grpc_deadline.h"
        if BARE_EXPECTATION.match(line):
            yield f"{relative}:{number}: braces: what is expected has an else of its own, which g++ asks about and clang does not"
        if re.search(r"\bTODO\b|\bFIXME\b|\bXXX\b", line) and path.name != "house_rules.py":
            yield f"{relative}:{number}: unfinished: do it or write an issue"


def python_functions(text):
    """(name, line, lines) of each."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def check_functions(path, relative, text):
    functions = cpp_functions.functions if path.suffix in CPP_SUFFIXES else python_functions
    for name, line, lines in functions(text):
        if lines > FUNCTION_LINES:
            yield f"{relative}:{line}: {name} has {lines} lines; a function has at most {FUNCTION_LINES}"


def check_subjects(root):
    """Of the commits since the rule is one; of the last one alone where the history is not here."""
    for revisions in ([f"{SUBJECTS_AFTER}..HEAD"], ["-1"]):
        log = subprocess.run(["git", "log", "--no-merges", "--format=%h %s", *revisions], cwd=root, check=False,
                             capture_output=True, text=True)
        if log.returncode == 0:
            break
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT_CHARACTERS:
            yield f"commit {commit}: a subject of {len(subject)} characters; at most {SUBJECT_CHARACTERS}: {subject}"


def findings(root):
    yield from check_subjects(root)
    yield from folder_graph.findings(root)
    yield from threat_model.findings(root, tracked_files(root))
    yield from spec_rules.findings(root, tracked_files(root))
    yield from access_table.findings(root)
    yield from versions.findings(root, tracked_files(root))
    for path in tracked_files(root):
        if not path.is_file() or path.is_symlink():
            continue
        relative = path.relative_to(root)
        size = path.stat().st_size
        if size > MAX_TRACKED_BYTES:
            yield f"{relative}: {size} bytes; nothing over {MAX_TRACKED_BYTES} is tracked"
        yield from check_name(relative)
        yield from check_is_text(path, relative)
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix in CPP_SUFFIXES or is_python(path, text):
            yield from check_source(path, relative, text)
            yield from check_functions(path, relative, text)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    found = list(findings(root))
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
