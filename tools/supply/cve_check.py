"""tools/cve_check: what is known to be wrong with what kerf is built from?

  tools/cve_check                                out/*.spdx.json (tools/build), out/images/*.spdx.json (deploy/image/rootfs_test.py), and
                                                 what the Python client needs and its wheel is made with (client/python/*requirements.txt)
  tools/cve_check out/kerfd.spdx.json            these documents alone; also requirements of pip (*.txt)
  tools/cve_check --json                         the same as one JSON object
  tools/cve_check --let-run-out                  as in tools/test: a review whose time is over is a warning
  tools/cve_check --update tracker data.json     the snapshot anew, from the JSON of Debian's security tracker (a file or a URL)
  tools/cve_check --update osv FOLDER...         wheels and Go's modules, from records of OSV (folders of JSON files)
  tools/cve_check --update govulncheck FILE      Go's own library in Redis' exporter, from what govulncheck has written
  tools/cve_check --update changelogs            what Debian says that it has mended, from the packages that are installed here, and
                                                 those that would replace them (apt-get update first)

Needs no network but for --update. Each part of the documents is looked up in tools/supply/known_faults.json by its source package;
versions are compared by dpkg. What somebody has reviewed stands in tools/supply/exceptions.toml.

exit codes: 0: nothing, or all of it reviewed; 1: a fault that nobody has reviewed; 2: wrong words, or a file that cannot be read;
3: an exception that has run out, matches nothing or is malformed; 4: a part that the snapshot knows nothing of: --update
"""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys

import debian
import exceptions
import known_faults
import updates
import wheels

ROOT = pathlib.Path(__file__).resolve().parents[2]
_BUILT_FROM = re.compile(r"built package from: (\S+) (\S+)")
_WHEEL = re.compile(r"pkg:pypi/([^@]+)@([^?]+)")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def components(document):
    """What can be looked up: source packages of Debian, and wheels. Not what only declares (programs.DECLARATIONS)."""
    declared = {relation["spdxElementId"] for relation in document["relationships"]
                if relation["relationshipType"] == "BUILD_DEPENDENCY_OF"}
    for entry in document["packages"]:
        if entry["SPDXID"] in declared:
            continue
        if match := _BUILT_FROM.fullmatch(entry.get("sourceInfo", "")):
            yield known_faults.Component("deb", match[1], match[2])
        for reference in entry.get("externalRefs", []):
            if match := _WHEEL.match(reference["referenceLocator"]):
                yield known_faults.Component("pypi", match[1], match[2])


def pins(path):
    """What pip is to install, of which each version is pinned."""
    text = path.read_text(encoding="utf-8")
    found = [known_faults.Component("pypi", wheels.canonical(name), version) for name, version in _PIN.findall(text)]
    # A line that goes on is one: the hashes of a pin.
    if not found or len(found) != sum(bool(re.match(r"[^\s#]", line)) for line in text.splitlines()):
        raise ValueError("each line has to pin a version")
    return found


def gather(paths):
    """Component -> names of the documents that have it."""
    found = {}
    for path in map(pathlib.Path, paths):
        if path.suffix == ".txt":
            try:
                for component in pins(path):
                    found.setdefault(component, set()).add("/".join(path.parts[-2:]))
            except (OSError, ValueError) as error:
                raise known_faults.Failed(f"{path} is no list of pinned wheels: {error}") from error
            continue
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            for component in components(document):
                found.setdefault(component, set()).add(document["name"])
        except (OSError, ValueError, KeyError) as error:
            raise known_faults.Failed(f"{path} is no SPDX document: {error!r}") from error
    return found


def judge(parts, snapshot, reviewed, is_all):
    """(findings that nobody reviewed, reviewed ones, exceptions that match nothing, parts of which nothing is known)."""
    open_ones, closed, used = [], [], set()
    for component in sorted(parts):
        for finding in snapshot.findings(component):
            key = (component.name, finding.identifier)
            used.add(key)
            (closed if key in reviewed else open_ones).append(finding)
    names = {component.name for component in parts}
    idle = [key for key in sorted(reviewed) if key not in used and (is_all or key[0] in names)]
    unknown = [component for component in sorted(parts) if not snapshot.is_known(component)]
    return open_ones, closed, idle, unknown


def default_paths():
    paths = sorted((ROOT / "out").glob("*.spdx.json")) + sorted((ROOT / "out/images").glob("*.spdx.json"))
    missing = [name for name in ("kerf", "kerfd", "images/kerf", "images/kerf-redis", "images/kerf-loadtest")
               if not (ROOT / "out" / f"{name}.spdx.json").is_file()]
    if missing:
        raise known_faults.Failed(f"out/ lacks the documents of {', '.join(missing)}: tools/build and deploy/image/rootfs_test.py make them")
    # Wheels of which no program and no image has anything: whoever installs the client gets them with it.
    return paths + sorted((ROOT / "client/python").glob("*requirements.txt"))


def describe(finding, parts):
    mended = f"mended in {finding.fixed}" if finding.fixed else "not mended"
    component = finding.component
    return f"{component.name} {component.version}: {finding.identifier}, {mended} (in {', '.join(sorted(parts[component]))})"


def report(options, parts, snapshot, results, wrong, today):
    open_ones, closed, idle, unknown = results
    age = snapshot.age_days(today)
    wrong = wrong + [f"{package}: {identifier} is reviewed, and nothing has it" for package, identifier in idle]
    if options.json:
        as_json = [{"package": one.component.name, "version": one.component.version, "ecosystem": one.component.ecosystem, "id": one.identifier,
                    "fixed": one.fixed, "reviewed": one in closed, "in": sorted(parts[one.component])} for one in sorted(open_ones + closed)]
        print(json.dumps({"snapshot_age_days": age, "parts": len(parts), "findings": as_json, "exceptions": wrong, "not_asked": snapshot.not_asked,
                          "unknown": [f"{one.ecosystem}/{one.name}" for one in unknown]}, indent=1))
    else:
        for finding in open_ones:
            print(f"tools/cve_check: {describe(finding, parts)}", file=sys.stderr)
        for message in wrong:
            print(f"tools/cve_check: {message}", file=sys.stderr)
        for component in unknown:
            print(f"tools/cve_check: {component.name} {component.version}: the snapshot knows nothing of it; --update", file=sys.stderr)
        for ecosystem, why in snapshot.not_asked.items():
            count = sum(component.ecosystem == ecosystem for component in parts)
            print(f"tools/cve_check: warning: of {count} parts of {ecosystem} nobody was asked: {why}", file=sys.stderr)
        if age > known_faults.OLD_DAYS:
            print(f"tools/cve_check: warning: the snapshot is {age} days old: what was found since is not in it; --update", file=sys.stderr)
        print(f"tools/cve_check: {len(parts)} parts, {len(open_ones)} faults that nobody has reviewed, {len(closed)} reviewed; "
              f"the snapshot is {age} days old")
    return 1 if open_ones else 3 if wrong else 4 if unknown else 0


def main():
    parser = argparse.ArgumentParser(prog="tools/cve_check", description=__doc__.split("\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="*", help="SPDX documents; with --update tracker and osv, what to read")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--let-run-out", action="store_true", help="exceptions that have run out are a warning")
    parser.add_argument("--update", choices=sorted(updates.SOURCES))
    parser.add_argument("--snapshot", default=known_faults.SNAPSHOT, help=argparse.SUPPRESS)
    parser.add_argument("--exceptions", default=exceptions.FILE, help=argparse.SUPPRESS)
    parser.add_argument("--today", type=datetime.date.fromisoformat, default=datetime.datetime.now(datetime.timezone.utc).date(),
                        help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.update in ("tracker", "osv", "govulncheck") and not options.documents:
        parser.error(f"--update {options.update} wants what to read")
    try:
        snapshot = known_faults.Snapshot.read(options.snapshot)
        if options.update:
            updates.SOURCES[options.update](snapshot, gather(default_paths()), options.documents, options.today)
            snapshot.write(options.snapshot)
            return 0
        parts = gather(options.documents or default_paths())
        reviewed, wrong = exceptions.read(options.exceptions, options.today, let_run_out=options.let_run_out)
        return report(options, parts, snapshot, judge(parts, snapshot, reviewed, not options.documents), wrong, options.today)
    except (known_faults.Failed, debian.Failed, OSError, ValueError, subprocess.SubprocessError) as failure:
        print(f"tools/cve_check: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
