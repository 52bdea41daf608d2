#!/usr/bin/env python3
"""The C++ targets with a file that is not as it was in a commit: tools/ci/changed_targets.py COMMIT_FILE PATH...

COMMIT_FILE holds the commit. The targets are printed one a line: `//...` where one of the PATHs, files and folders that
have a say in all of them, has changed too, or where the commit is not known here (a clone without its history).
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUFFIXES = {".cc", ".h"}
EVERYTHING = ["//..."]


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def changed_files(commit):
    """Paths of what is here and is not as in the commit, committed or not."""
    changed = git("diff", "--name-only", "-z", "--no-renames", "--diff-filter=d", commit).split("\0")
    new = git("ls-files", "-z", "--others", "--exclude-standard").split("\0")
    return sorted({path for path in changed + new if path})


def label(path):
    """The label of a file, or None outside of all packages."""
    for folder in pathlib.PurePath(path).parents:
        if (ROOT / folder / "BUILD").exists():
            package = "" if str(folder) == "." else str(folder)
            return f"//{package}:{pathlib.PurePath(path).relative_to(folder)}"
    return None


def query(labels):
    """Of a library of headers alone also what uses it in its package, or nothing would read them."""
    expression = (f"let files = set({' '.join(labels)}) in let own = kind('cc_', same_pkg_direct_rdeps($files)) in "
                  "$own + kind('cc_', same_pkg_direct_rdeps($own except attr(srcs, '[.]cc', $own)))")
    found = subprocess.run(["bazel", "query", "--noshow_progress", "--ui_event_filters=-info", "--keep_going", expression],
                           cwd=ROOT, check=False, capture_output=True, text=True)
    # 3: some of the files belong to no target.
    if found.returncode not in (0, 3):
        sys.exit(f"changed_targets: bazel query: {found.stderr}")
    return sorted(found.stdout.split())


def targets(commit, everywhere):
    if subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, check=False, capture_output=True).returncode:
        return EVERYTHING
    files = changed_files(commit)
    if any(pathlib.PurePath(path).is_relative_to(part) for path in files for part in everywhere):
        return EVERYTHING
    labels = [found for path in files if pathlib.PurePath(path).suffix in SUFFIXES and (found := label(path))]
    return query(labels) if labels else []


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    commit = pathlib.Path(ROOT, sys.argv[1]).read_text(encoding="utf-8").strip()
    for target in targets(commit, sys.argv[2:]):
        print(target)


if __name__ == "__main__":
    main()
