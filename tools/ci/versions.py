"""One version: base/version.h has it, everything else that names it agrees, and CHANGELOG.md goes up to it."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

import processes
import version

CHANGELOG = pathlib.Path("CHANGELOG.md")
# Between releases it is the next one's number with this behind it.
BETWEEN = "-dev"
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-dev)?")
# One place a file, which is the first group.
COPIES = {"client/go/doc.go": r'^const Version = "(.*)"$',
          "client/python/kerf/version.py": r'^VERSION = "(.*)"$',
          "client/python/pyproject.toml": r'^version = "(.*)"$'}
# kerf's own images, wherever manifests, scripts and pages name one with a tag that begins as a version does.
IMAGE = re.compile(r"\bkerf(?:-[a-z]+)?:(\d+\.\d[\w.-]*\w)")
IMAGE_FOLDERS = {"deploy", "loadtest", "docs"}
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
RELEASE = re.compile(r"\[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}")
UNRELEASED = "[Unreleased]"
SECTION = re.compile(r"^### (.*)$", re.MULTILINE)
# https://keepachangelog.com/en/1.1.0/
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def numbers(text):
    return tuple(map(int, VERSION.fullmatch(text).groups()))


def check_copies(root, own):
    for name, pattern in COPIES.items():
        if not (root / name).is_file():
            continue
        found = re.findall(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        if found != [own]:
            yield f"{name}: it is of version {', '.join(found) or 'none'}, and {version.HEADER} of {own}"


def check_images(root, files, own):
    for path in files:
        relative = path.relative_to(root)
        if relative.parts[0] not in IMAGE_FOLDERS or path.stem.endswith("_test") or not path.is_file():
            continue
        for tag in IMAGE.findall(path.read_text(encoding="utf-8", errors="replace")):
            if tag != own:
                yield f"{relative}: an image of kerf {tag}, and {version.HEADER} is of {own}"


def check_changelog(root, own):
    text = (root / CHANGELOG).read_text(encoding="utf-8") if (root / CHANGELOG).is_file() else ""
    for section in SECTION.findall(text):
        if section not in SECTIONS:
            yield f"{CHANGELOG}: '### {section}': want one of {', '.join(sorted(SECTIONS))}"
    headings = HEADING.findall(text)
    is_between = own.endswith(BETWEEN)
    if is_between != (headings[:1] == [UNRELEASED]):
        yield (f"{CHANGELOG}: {UNRELEASED} stands at its top exactly while {version.HEADER} ends with {BETWEEN}, and that "
               f"is {own}")
    releases = []
    for heading in headings[1:] if headings[:1] == [UNRELEASED] else headings:
        found = RELEASE.fullmatch(heading)
        if not found:
            yield f"{CHANGELOG}: '## {heading}': want [X.Y.Z] - YYYY-MM-DD"
            return
        releases.append(found[1])
    if releases != sorted(set(releases), key=numbers, reverse=True):
        yield f"{CHANGELOG}: {', '.join(releases)}: want each once, the newest first"
    newest = max(releases, key=numbers, default="0.0.0")
    if is_between and numbers(own) <= numbers(newest):
        yield f"{version.HEADER}: {own} is not beyond the last release, {newest} ({CHANGELOG})"
    if not is_between and own != newest:
        yield f"{version.HEADER}: {own} is not the last release, {newest} ({CHANGELOG})"
    for release in releases:
        # That of the release itself is recorded behind it.
        if release != own and not (root / f"e2e/releases/{release}.tar.gz").is_file():
            yield f"{CHANGELOG}: e2e/releases has no record of {release}, which later ones are held to"


def findings(root, files):
    if not (root / version.HEADER).is_file():
        return
    try:
        own = version.of_tree(root)
    except processes.Failed as failed:
        yield str(failed)
        return
    if not VERSION.fullmatch(own):
        yield f"{version.HEADER}: '{own}': want X.Y.Z of a release, X.Y.Z{BETWEEN} before it"
        return
    yield from check_copies(root, own)
    yield from check_images(root, files, own)
    yield from check_changelog(root, own)
