"""Where the snapshot of known faults is from: Debian's security tracker, records of OSV, changelogs of Debian's packages."""

import gzip
import json
import pathlib
import re
import subprocess
import tempfile
import urllib.request

import debian
import known_faults

FETCH_S = 300
# Debian names Go's modules otherwise. What is not here has no record there.
_GO_MODULES = {"golang-github-prometheus-client-golang": "github.com/prometheus/client_golang", "golang-golang-x-sys": "golang.org/x/sys",
               "golang-google-protobuf": "google.golang.org/protobuf", "golang-logrus": "github.com/sirupsen/logrus",
               "golang-github-beorn7-perks": "github.com/beorn7/perks", "golang-github-cespare-xxhash": "github.com/cespare/xxhash",
               "golang-github-golang-protobuf-1-3": "github.com/golang/protobuf", "golang-github-mna-redisc": "github.com/mna/redisc",
               "golang-github-gomodule-redigo": "github.com/gomodule/redigo", "prometheus-redis-exporter": "github.com/oliver006/redis_exporter",
               "golang-github-prometheus-client-model": "github.com/prometheus/client_model",
               "golang-github-prometheus-common": "github.com/prometheus/common", "golang-github-prometheus-procfs": "github.com/prometheus/procfs",
               "golang-protobuf-extensions": "github.com/matttproud/golang_protobuf_extensions"}
_CVE = re.compile(r"CVE-[0-9]{4}-[0-9]{4,}")
# "openssl (3.0.19-1~deb12u2) bookworm-security; urgency=medium"
_ENTRY = re.compile(r"^\S+ \(([^)]+)\) ", re.M)


def _names(parts, ecosystem):
    return sorted({component.name for component in parts if component.ecosystem == ecosystem})


def _ask(snapshot, ecosystem, name, source):
    known = snapshot.data["asked"].setdefault(ecosystem, {}).setdefault(name, [])
    if source not in known:
        known.append(source)
        known.sort()


def _replace(snapshot, ecosystem, name, source, faults):
    """What a source says of a package now, instead of what it said before. Who else has said something keeps it, but for the
    tracker: it is asked by those who write all the others."""
    package = snapshot.data["faults"].setdefault(ecosystem, {}).setdefault(name, {})
    for identifier in [key for key, fault in package.items() if fault["of"] == source]:
        del package[identifier]
    for identifier, fault in faults.items():
        if source == "tracker" or identifier not in package:
            package[identifier] = {**fault, "of": source}
    if not package:
        del snapshot.data["faults"][ecosystem][name]
    _ask(snapshot, ecosystem, name, source)


def _of_tracker(entry):
    """None where Debian says that its version does not have it, or that it is no fault of security."""
    if entry.get("urgency") == "unimportant" or entry.get("fixed_version") == "0":
        return None
    if entry["status"] == "resolved":
        return {"fixed": entry["fixed_version"]}
    return {"fixed": None}


def from_tracker(snapshot, parts, words, today):
    """`words`: a file or a URL of the tracker's JSON: source package -> id -> releases -> status."""
    if len(words) != 1:
        raise known_faults.Failed("--update tracker wants one file or URL")
    if words[0].startswith(("http://", "https://")):
        with urllib.request.urlopen(words[0], timeout=FETCH_S) as answer:
            data = json.load(answer)
    else:
        data = json.loads(pathlib.Path(words[0]).read_text(encoding="utf-8"))
    release = snapshot.data["release"]
    for name in _names(parts, "deb"):
        faults = {}
        for identifier, fault in data.get(name, {}).items():
            entry = fault.get("releases", {}).get(release)
            if entry and (said := _of_tracker(entry)):
                faults[identifier] = said
        _replace(snapshot, "deb", name, "tracker", faults)
    snapshot.data["sources"]["tracker"] = {"date": today.isoformat(), "what": f"Debian's security tracker, {release}"}


def _identifier(record):
    return next((alias for alias in record.get("aliases", []) if _CVE.fullmatch(alias)), record["id"])


def _affected(folders):
    """(ecosystem, package, id, [(introduced, fixed)]) of OSV's records."""
    for path in sorted(path for folder in folders for path in pathlib.Path(folder).rglob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        for affected in record.get("affected", []) if "withdrawn" not in record else ():
            events = [event for one in affected.get("ranges", []) if one["type"] in ("ECOSYSTEM", "SEMVER") for event in one["events"]]
            spans = []
            for event in events:
                if "introduced" in event:
                    spans.append((event["introduced"], None))
                elif "fixed" in event and spans:
                    spans[-1] = (spans[-1][0], event["fixed"])
            yield affected["package"]["ecosystem"], affected["package"]["name"], _identifier(record), spans


def from_osv(snapshot, parts, words, today):
    """`words`: folders of OSV's records, as its archives of PyPI and of Go unpack."""
    wheels = {component.name: component for component in parts if component.ecosystem == "pypi"}
    modules = {_GO_MODULES[component.name]: component for component in parts if component.name in _GO_MODULES}
    found, ecosystems = {}, set()
    for ecosystem, package, identifier, spans in _affected(words):
        ecosystems.add(ecosystem)
        if ecosystem == "PyPI" and (wheel := wheels.get(re.sub(r"[-_.]+", "-", package).lower())):
            found.setdefault(wheel, {})[identifier] = {"spans": spans}
        elif ecosystem == "Go" and (component := modules.get(package)):
            for introduced, fixed in spans:
                # As versions of Debian, before the first that it could have of them.
                if not debian.is_older(component.version, f"{introduced}-0") and (fixed is None or debian.is_older(component.version, f"{fixed}-0")):
                    found.setdefault(component, {})[identifier] = {"fixed": fixed and f"{fixed}-0"}
    for component in (*(wheels.values() if "PyPI" in ecosystems else ()), *(modules.values() if "Go" in ecosystems else ())):
        _replace(snapshot, component.ecosystem, component.name, "osv", found.get(component, {}))
    if "PyPI" in ecosystems:
        snapshot.data.get("not_asked", {}).pop("pypi", None)
    snapshot.data["sources"]["osv"] = {"date": today.isoformat(), "what": f"OSV's records of {' and '.join(sorted(ecosystems))}"}


def from_govulncheck(snapshot, parts, words, today):
    """`words`: what govulncheck -mode=binary -format json says of a program: the faults of Go's own library that are in it. Debian
    notes the source of the compiler, golang-1.19, as linked in."""
    text, position, records, hit = pathlib.Path(words[0]).read_text(encoding="utf-8").strip(), 0, {}, set()
    while position < len(text):
        message, position = json.JSONDecoder().raw_decode(text, position)
        position += len(text[position:]) - len(text[position:].lstrip())
        if "osv" in message:
            records[message["osv"]["id"]] = message["osv"]
        elif "finding" in message and message["finding"]["trace"][0]["module"] == "stdlib":
            hit.add(message["finding"]["osv"])
    for name in _names(parts, "deb"):
        if re.fullmatch(r"golang-1\.[0-9]+", name):
            _replace(snapshot, "deb", name, "govulncheck", {_identifier(records[one]): {"fixed": None} for one in hit})
    snapshot.data["sources"]["govulncheck"] = {"date": today.isoformat(), "what": "govulncheck on prometheus-redis-exporter, with Go's database"}


def of_changelog(text):
    """CVE -> the lowest version that has what the first entry to name it has mended. That is not always the version of that
    entry: 7.0.15-1~deb12u1 was made of 7.0.15-1, and is lower."""
    found, starts = {}, list(_ENTRY.finditer(text))
    lowest = None
    for start, end in zip(starts, [*starts[1:], None]):
        lowest = start[1] if lowest is None or debian.is_older(start[1], lowest) else lowest
        for identifier in _CVE.findall(text[start.end():end.start() if end else len(text)]):
            found[identifier] = lowest
    return found


def _changelog(folder):
    for name in ("changelog.Debian.gz", "changelog.gz"):
        path = folder / name
        if path.is_file():
            return gzip.decompress(path.read_bytes()).decode("utf-8", errors="replace")
    return None


def _installed():
    """Source package -> the binary packages of it that are here."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${source:Package} ${Package}\n"], capture_output=True, text=True, check=True, timeout=60)
    found = {}
    for line in done.stdout.splitlines():
        source, name = line.split()
        found.setdefault(source, []).append(name)
    return found


def _candidate(name):
    """The changelog of the version that apt would install instead, or None if there is no later one."""
    policy = subprocess.run(["apt-cache", "policy", name], capture_output=True, text=True, check=True, timeout=60).stdout
    versions = re.findall(r"^  (?:Installed|Candidate): (\S+)$", policy, re.M)
    if len(set(versions)) < 2:
        return None
    with tempfile.TemporaryDirectory(prefix="kerf-changelog-") as folder:
        subprocess.run(["apt-get", "download", "-qq", name], cwd=folder, capture_output=True, check=True, timeout=FETCH_S)
        package = next(pathlib.Path(folder).glob("*.deb"))
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True, timeout=FETCH_S)
        return _changelog(pathlib.Path(folder) / "usr/share/doc" / name)


def from_changelogs(snapshot, parts, words, today):
    """What Debian has mended, by its own word; what it has not, no changelog tells."""
    if words:
        raise known_faults.Failed("--update changelogs wants no words")
    installed = _installed()
    for name in _names(parts, "deb"):
        for binary in installed.get(name, []):
            text = _changelog(pathlib.Path("/usr/share/doc") / binary)
            if text is None:
                continue
            _replace(snapshot, "deb", name, "changelog", {identifier: {"fixed": version}
                                                         for identifier, version in of_changelog(_candidate(binary) or text).items()})
            break
    snapshot.data["sources"]["changelog"] = {"date": today.isoformat(), "what": "changelogs of Debian's packages: what is mended, not what is open"}


SOURCES = {"tracker": from_tracker, "osv": from_osv, "govulncheck": from_govulncheck, "changelogs": from_changelogs}
