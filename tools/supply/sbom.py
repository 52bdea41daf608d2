"""tools/sbom: writes what kerf is made of, as SPDX 2.3 in JSON.

  tools/sbom programs                       out/kerf.spdx.json and so on, beside the programs that tools/build has left in out/
  tools/sbom image kerf ROOT                what is in the root file system of an image (deploy/image/rootfs), to stdout
  tools/sbom list FILE...                   the parts of such documents as a table: name, version, source package, how it is there
  tools/sbom validate FILE...               holds documents to the specification, by the word of spdx-tools

Nothing is known beforehand. What is linked into a program is read from the linker's map of the very same bytes, what is compiled
in from the compiler's lists of headers; which package that is, dpkg says. The date is that of the commit, or SOURCE_DATE_EPOCH.

exit codes: 0; 1: something is from nowhere, or a document is not valid; 2: wrong words
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

import debian
import images
import link_map
import programs
import spdx

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUFFIX = ".spdx.json"
ASK_S = 120


def _version():
    """Of kerf; not by its own word, for the image of Redis is made where there is no kerf."""
    found = re.search(r'kVersion = "([^"]+)"', (ROOT / "base/version.h").read_text(encoding="utf-8"))
    if not found:
        raise images.Failed("base/version.h names no version")
    return found[1]


def _execution_root():
    """Where Bazel links. Its link is not there where it has made libkerf alone."""
    link = ROOT / "bazel-bin"
    if link.exists():
        return link.resolve().parents[2]
    said = subprocess.run(["bazel", "info", "execution_root"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=ASK_S)
    if said.returncode != 0:
        raise link_map.Failed(f"there is no bazel-bin, and bazel does not say where it links: {said.stderr.strip()[-300:]}")
    return pathlib.Path(said.stdout.strip())


def write_programs(options):
    out = pathlib.Path(options.programs)
    execution_root = _execution_root()
    for name in programs.TARGETS:
        described = out / f"{name}{SUFFIX}"
        if (out / name).exists():
            described.write_text(programs.describe(name, out / name, execution_root, _version(), spdx.created(ROOT)), encoding="utf-8")
        else:
            described.unlink(missing_ok=True)


def write_image(options):
    def document(name):
        path = pathlib.Path(options.programs) / f"{name}{SUFFIX}"
        if not path.is_file():
            raise images.Failed(f"{path} is missing: tools/build makes it")
        return path.read_text(encoding="utf-8")

    contents = (ROOT / "deploy/image/contents" / options.image).read_text(encoding="utf-8")
    sys.stdout.write(images.describe(options.image, pathlib.Path(options.root), contents, document, _version(),
                                     spdx.created(ROOT)))


def parts(document):
    """(name, version, source package or index, how it is there) of each part."""
    kinds = {}
    for relation in document["relationships"]:
        ends = (relation["spdxElementId"], relation["relatedSpdxElement"])
        part = ends[0] if relation["relationshipType"] == "BUILD_DEPENDENCY_OF" else ends[1]
        kinds.setdefault(part, set()).add(relation["relationshipType"])
    for entry in document["packages"]:
        yield (entry["name"], entry["versionInfo"], entry.get("sourceInfo", "").removeprefix("built package from: "),
               " ".join(sorted(kinds.get(entry["SPDXID"], ()))))


def show(options):
    for path in options.files:
        for row in parts(json.loads(pathlib.Path(path).read_text(encoding="utf-8"))):
            print("{:32} {:28} {:44} {}".format(*row).rstrip())


def validate(options):
    import spdx_judge
    bad = 0
    for path in options.files:
        for message in spdx_judge.findings(path):
            print(f"tools/sbom: {path}: {message}", file=sys.stderr)
            bad = 1
    return bad


def main():
    parser = argparse.ArgumentParser(prog="tools/sbom", description=__doc__.split("\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True, metavar="programs | image | list | validate")
    for name, call, words in (("programs", write_programs, ()), ("image", write_image, ("image", "root")), ("list", show, ("files",)),
                              ("validate", validate, ("files",))):
        verb = verbs.add_parser(name)
        verb.set_defaults(call=call)
        for word in words:
            verb.add_argument(word, **({"nargs": "+"} if word == "files" else {}))
        verb.add_argument("--programs", default=os.environ.get("KERF_IMAGE_PROGRAMS", "out"), help="the folder of the programs (out)")
    options = parser.parse_args()
    try:
        return options.call(options) or 0
    except (debian.Failed, images.Failed, link_map.Failed, programs.Failed) as failure:
        print(f"tools/sbom: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
