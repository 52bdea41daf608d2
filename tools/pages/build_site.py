#!/usr/bin/env python3
"""Builds the documentation site and checks it; tools/site --help says what that is."""

import argparse
import pathlib
import shutil
import subprocess
import sys

import figures
import links
import prose
import named
import references
import repository
import runbooks
import speed_plot
import undocumented

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent
OUT = ROOT / "out/site"
# What the site is made of: for those who run kerf, write clients of it, or work on it.
SOURCES = ["README.md", "CHANGELOG.md", "docs", "client/*/README.md", "deploy/*.md", "loadtest/README.md", "kernels/*.md", "server/*.md",
           "tools/*.md", "e2e/*.md"]
# Records of decisions, and notes beside the code: for those who change it. They are pages, and held to no more than the length of paragraphs.
FOR_ENGINEERS = ("docs/adr/", "kernels/", "server/", "tools/", "e2e/")
# Pages that say what they are for in their first two sentences: all of docs/ and of what one installs, but for runbooks of one alert or
# reason, which have a form of their own.
WITH_PURPOSE = ("docs/", "deploy/", "loadtest/")
WITHOUT_PURPOSE = ("docs/runbooks/alerts/", "docs/runbooks/reasons/")
START = '<!DOCTYPE html><meta charset="utf-8"><title>kerf</title><meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">kerf</a>\n'
# Twenty seconds on a machine that has nothing else to do.
BUILD_TIMEOUT_S = 1800


def _linked(root, page, link):
    """What a page links to, if it is a file of the repository."""
    address = link.partition("#")[0]
    if not address or ":" in address:
        return None
    there = (root / page.parent / address).resolve()
    return there.relative_to(root) if there.is_file() and there.is_relative_to(root) else None


def stage(root, folder):
    """Copies the pages, as they lie in the repository, so that a link means the same in both."""
    shutil.rmtree(folder, ignore_errors=True)
    wanted = set(repository.files(root, *SOURCES))
    for path in [path for path in wanted if path.suffix == ".md"]:
        wanted |= {there for link in prose.links((root / path).read_text(encoding="utf-8")) if (there := _linked(root, path, link))}
    for path in wanted:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, target)


def build(source, out):
    """Sphinx's complaints, which are failures: links that lead nowhere, pages that no other one leads to."""
    shutil.rmtree(out, ignore_errors=True)
    result = subprocess.run([sys.executable, "-B", "-m", "sphinx", "--quiet", "--jobs", "auto", "--fail-on-warning", "--fresh-env", "--builder", "html",
                             "--conf-dir", HERE, "--doctree-dir", out.parent / "doctrees", source, out],
                            capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    said = [line.replace(f"{source}/", "") for line in result.stderr.splitlines() if line.strip()]
    if result.returncode != 0:
        return said or [f"sphinx ended with {result.returncode}"]
    (out / "index.html").write_text(START, encoding="utf-8")
    return []


def pages(root):
    """Path -> text."""
    return {path.as_posix(): (root / path).read_text(encoding="utf-8") for path in repository.files(root, *SOURCES) if path.suffix == ".md"}


def findings_in_pages(known, texts):
    for name, text in texts.items():
        for line, words in prose.long_paragraphs(text):
            yield f"{name}:{line}: a paragraph of {words} words; at most {prose.MAX_WORDS}"
        if name.startswith((*FOR_ENGINEERS, references.FOLDER)):
            continue
        if name.startswith(WITH_PURPOSE) and not name.startswith(WITHOUT_PURPOSE) and not prose.says_what_for(text):
            yield f"{name}: its first {prose.OPENING_SENTENCES} sentences do not say what it is for, as 'This page is for ...'"
        for line, what in named.wrong_in(known, text):
            yield f"{name}:{line}: {what}"


def check(root, out, kerf, kerfd):
    texts = pages(root)
    yield from references.findings(root, references.make(root, kerf, kerfd), kerfd)
    yield from runbooks.findings(root)
    yield from figures.findings(root)
    yield from speed_plot.findings(root)
    yield from undocumented.findings(root, texts)
    yield from findings_in_pages(named.Known(root, kerf, kerfd), texts)
    source = out / "source"
    stage(root, source)
    said = build(source, out / "html")
    yield from said
    if not said:
        yield from links.findings(out / "html")


def main():
    parser = argparse.ArgumentParser(prog="tools/site", description="Builds the documentation site into out/site/html, and checks it.")
    parser.add_argument("--write", action="store_true", help=f"write docs/reference and {speed_plot.PLOT} anew first")
    parser.add_argument("kerf", nargs="?", type=pathlib.Path, default=ROOT / "out/kerf")
    parser.add_argument("kerfd", nargs="?", type=pathlib.Path, default=ROOT / "out/kerfd")
    arguments = parser.parse_args()
    for program in (arguments.kerf, arguments.kerfd):
        if not program.is_file():
            parser.error(f"there is no {program}: tools/build makes it")
    if arguments.write:
        for name, text in references.make(ROOT, arguments.kerf, arguments.kerfd).items():
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(text, encoding="utf-8")
        (ROOT / speed_plot.PLOT).write_text(speed_plot.draw(speed_plot.read(ROOT)), encoding="utf-8")
    found = list(check(ROOT, OUT, arguments.kerf, arguments.kerfd))
    for finding in found:
        print(finding)
    if not found:
        print(f"{OUT.relative_to(ROOT)}/html: {len(list((OUT / 'html').rglob('*.html')))} pages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
