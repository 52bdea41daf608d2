#!/usr/bin/env python3
"""What is known of versions, what is reviewed, and what the command says of both. Runs in out/tools/supply."""

import contextlib
import datetime
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import cve_check
import exceptions
import known_faults
import updates
from known_faults import Component

HERE = pathlib.Path(__file__).resolve().parent
TODAY = datetime.date(2026, 11, 26)
SNAPSHOT = {
    "release": "bookworm", "asked": {"deb": {"grpc": ["tracker"], "zlib": ["tracker"]}, "pypi": {"flask": ["osv"]}},
    "sources": {"tracker": {"date": "2026-11-20", "what": ""}, "osv": {"date": "2026-11-26", "what": ""}},
    "faults": {"deb": {"grpc": {"CVE-2023-0001": {"fixed": None, "of": "tracker"}, "CVE-2023-0002": {"fixed": "1.51.1-3+deb12u1", "of": "tracker"},
                                "CVE-2023-0003": {"fixed": "1.51.1-3", "of": "tracker"}, "CVE-2023-0004": {"fixed": "1.9.1-1", "of": "tracker"}}},
               "pypi": {"flask": {"CVE-2024-0001": {"spans": [["0", "1.0"], ["3.1.0", "3.1.10"]], "of": "osv"}}}}}
EXCEPTION = """[[exception]]
package = "{package}"
ids = ["{identifier}"]
why = "because"
held_by = ["tools/cve_check"]
reviewed = {reviewed}
by = "somebody"
until = {until}
"""


def exception(package="grpc", identifier="CVE-2023-0001", reviewed="2026-11-01", until="2027-01-01"):
    return EXCEPTION.format(package=package, identifier=identifier, reviewed=reviewed, until=until)


def document(*packages, kind="STATIC_LINK"):
    """(source, version) of each."""
    entries = [{"SPDXID": f"SPDXRef-{name}", "name": name, "versionInfo": version, "sourceInfo": f"built package from: {name} {version}"}
               for name, version in packages]
    return {"name": "it", "packages": entries, "relationships": [
        {"spdxElementId": entry["SPDXID"], "relationshipType": kind, "relatedSpdxElement": "SPDXRef-it"} for entry in entries]}


class Findings(unittest.TestCase):
    def found(self, *component):
        return [finding.identifier for finding in known_faults.Snapshot(SNAPSHOT).findings(Component(*component))]

    def test_a_fault_is_in_what_is_older_than_its_mend(self):
        self.assertEqual(self.found("deb", "grpc", "1.51.1-3"), ["CVE-2023-0001", "CVE-2023-0002"])
        self.assertEqual(self.found("deb", "grpc", "1.51.1-3+deb12u1"), ["CVE-2023-0001"])
        self.assertEqual(self.found("deb", "grpc", "1.51.1-3~bpo1"), ["CVE-2023-0001", "CVE-2023-0002", "CVE-2023-0003"])
        self.assertEqual(self.found("pypi", "grpc", "1"), [])

    def test_versions_of_wheels_have_the_order_of_wheels(self):
        self.assertEqual(self.found("pypi", "flask", "3.1.9"), ["CVE-2024-0001"])
        self.assertEqual(self.found("pypi", "flask", "0.9"), ["CVE-2024-0001"])
        for version in ("1.0", "3.0.9", "3.1.10"):
            self.assertEqual(self.found("pypi", "flask", version), [])

    def test_wheels_that_pip_is_told_to_install_are_looked_up(self):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "requirements.txt"
            path.write_text("# For tests.\nFlask==3.1.9 \\\n  --hash=sha256:00 \\\n  --hash=sha256:01\nzope.event==1.0\n")
            parts = cve_check.gather([path])
            self.assertEqual({(part.name, part.version) for part in parts}, {("flask", "3.1.9"), ("zope-event", "1.0")})
            found = [known_faults.Snapshot(SNAPSHOT).findings(part) for part in sorted(parts)]
            self.assertEqual([one.identifier for findings in found for one in findings], ["CVE-2024-0001"])
            for text in ("", "flask\n", "flask==3.1.9\ngrpcio>=1\n"):
                path.write_text(text)
                with self.assertRaisesRegex(known_faults.Failed, "pinned"):
                    cve_check.gather([path])
        # What the client needs is among what is looked at.
        needed = cve_check.gather((cve_check.ROOT / "client/python").glob("*requirements.txt"))
        self.assertLessEqual({"grpcio", "protobuf", "xxhash", "flit-core"}, {part.name for part in needed})

    def test_what_only_declares_is_not_looked_up(self):
        parts = list(cve_check.components(document(("linux", "6.1"), kind="BUILD_DEPENDENCY_OF")))
        self.assertEqual(parts, [])
        self.assertEqual(list(cve_check.components(document(("grpc", "1")))), [Component("deb", "grpc", "1")])


class Exceptions(unittest.TestCase):
    def wrong(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            return exceptions.read(file.name, TODAY)

    def test_a_sound_one_is_taken(self):
        reviewed, wrong = self.wrong(exception())
        self.assertEqual((list(reviewed), wrong), ([("grpc", "CVE-2023-0001")], []))

    def test_what_is_not_sound_is_said_and_not_taken(self):
        for text, words in ((exception(until="2026-11-25"), "ran out"), (exception(until="2028-01-01"), "at most"),
                            (exception(reviewed="2026-11-27"), "from tomorrow"), (exception().replace("why =", "reason ="), "must have"),
                            (exception().replace("because", " "), "must say something"), (exception(until='"2027-01-01"'), "dates")):
            reviewed, wrong = self.wrong(text)
            self.assertEqual(reviewed, {}, text)
            self.assertRegex(" ".join(wrong), words)
        for text, words in ((exception().replace("tools/cve_check", "tools/nothing"), "there is no"), (exception() * 2, "twice"),
                            (exception(identifier="all"), "no id")):
            self.assertRegex(" ".join(self.wrong(text)[1]), words)

    def test_tests_of_an_old_commit_do_not_fail_for_the_day(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(exception(until="2026-11-25"))
            file.flush()
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                reviewed, wrong = exceptions.read(file.name, TODAY, let_run_out=True)
        self.assertEqual((list(reviewed), wrong), ([("grpc", "CVE-2023-0001")], []))
        self.assertIn("ran out on 2026-11-25", said.getvalue())

    def test_the_last_day_counts(self):
        self.assertEqual(self.wrong(exception(until="2026-11-26"))[1], [])


class Command(unittest.TestCase):
    def run_with(self, packages, text, *words, snapshot=SNAPSHOT, today="2026-11-26"):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "d.json").write_text(json.dumps(document(*packages)))
            (folder / "s.json").write_text(json.dumps(snapshot))
            (folder / "e.toml").write_text(text)
            command = [sys.executable, "-B", HERE / "cve_check.py", folder / "d.json", "--snapshot", folder / "s.json",
                       "--exceptions", folder / "e.toml", "--today", today, *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def test_exit_codes(self):
        mended = [("grpc", "1.51.1-3+deb12u1")]
        self.assertEqual(self.run_with(mended, exception())[0], 0)
        self.assertEqual(self.run_with(mended, "")[0], 1)
        self.assertEqual(self.run_with([("grpc", "1.51.1-3")], exception())[0], 1)
        self.assertEqual(self.run_with(mended, exception() + exception(identifier="CVE-2023-0002"))[0], 3)
        self.assertEqual(self.run_with(mended, exception() + exception(until="2026-11-25", identifier="CVE-2023-0002"))[0], 3)
        self.assertEqual(self.run_with(mended + [("new", "1")], exception())[0], 4)
        self.assertEqual(self.run_with(mended, "x")[0], 2)
        self.assertEqual(self.run_with(mended, exception(until="2026-11-25"))[0], 1)
        # What is reviewed of one package is not of another.
        self.assertEqual(self.run_with(mended, exception(package="zlib"))[0], 1)

    def test_an_exception_of_what_is_not_there_is_an_error_where_all_are_looked_at(self):
        snapshot = known_faults.Snapshot(SNAPSHOT)
        reviewed = {("gone", "CVE-2020-0001"): None}
        parts = {Component("deb", "zlib", "1"): {"it"}}
        self.assertEqual(cve_check.judge(parts, snapshot, reviewed, True)[2], [("gone", "CVE-2020-0001")])
        self.assertEqual(cve_check.judge(parts, snapshot, reviewed, False)[2], [])

    def test_the_age_of_the_snapshot_is_that_of_its_oldest_source(self):
        code, said = self.run_with([("zlib", "1")], "")
        self.assertEqual(code, 0)
        self.assertIn("is 6 days old", said)
        self.assertNotIn("warning", said)
        code, said = self.run_with([("zlib", "1")], "", today="2027-01-26")
        self.assertEqual(code, 0)
        self.assertRegex(said, "warning: the snapshot is 67 days old")

    def test_what_nobody_was_asked_of_is_said(self):
        code, said = self.run_with([("zlib", "1")], "", snapshot={**SNAPSHOT, "not_asked": {"pypi": "no way"}})
        self.assertEqual(code, 0)
        self.assertIn("nobody was asked: no way", said)

    def test_json_tells_the_same(self):
        said = json.loads(self.run_with([("grpc", "1.51.1-3")], exception(), "--json")[1])
        self.assertEqual([(one["id"], one["reviewed"], one["fixed"]) for one in said["findings"]],
                         [("CVE-2023-0001", True, None), ("CVE-2023-0002", False, "1.51.1-3+deb12u1")])


class Updates(unittest.TestCase):
    def snapshot(self):
        return known_faults.Snapshot(json.loads(json.dumps(SNAPSHOT)))

    def test_the_tracker_is_read_for_our_release(self):
        def releases(**entry):
            return {"releases": {"bookworm": {"status": "open", "urgency": "not yet assigned", **entry},
                                 "sid": {"status": "resolved", "fixed_version": "0"}}}

        data = {"grpc": {"CVE-1": releases(), "CVE-2": releases(status="resolved", fixed_version="1.2-3"),
                         "CVE-3": releases(status="resolved", fixed_version="0"), "CVE-4": releases(urgency="unimportant"), "CVE-5": {"releases": {"sid": {"status": "open"}}}}, "other": {"CVE-9": releases()}}
        snapshot = self.snapshot()
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(data, file)
            file.flush()
            updates.from_tracker(snapshot, {Component("deb", "grpc", "1"): {"it"}}, [file.name], TODAY)
        self.assertEqual({key: fault["fixed"] for key, fault in snapshot.data["faults"]["deb"]["grpc"].items()}, {"CVE-1": None, "CVE-2": "1.2-3"})
        self.assertNotIn("other", snapshot.data["faults"]["deb"])
        self.assertEqual(snapshot.data["sources"]["tracker"]["date"], "2026-11-26")

    def test_a_changelog_tells_the_lowest_version_with_the_mend(self):
        text = ("x (7.0.15-1~deb12u2) a; u\n\n  * CVE-2025-0002\n\nx (7.0.15-1~deb12u1) a; u\n\n  * Rebuild\n\n"
                "x (7.0.15-1) a; u\n\n  * CVE-2023-41056, CVE-2025-0002\n")
        self.assertEqual(updates.of_changelog(text), {"CVE-2023-41056": "7.0.15-1~deb12u1", "CVE-2025-0002": "7.0.15-1~deb12u1"})

    def test_records_of_osv_are_read_by_ranges(self):
        record = {"id": "PYSEC-1", "aliases": ["CVE-2025-0009"], "affected": [{"package": {"ecosystem": "PyPI", "name": "Flask"}, "ranges": [
            {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.0"}, {"introduced": "3.0"}, {"fixed": "3.2"}]}]}]}
        module = {"id": "GO-1", "aliases": ["CVE-2025-0010"], "affected": [{"package": {"ecosystem": "Go", "name": "github.com/sirupsen/logrus"}, "ranges": [
            {"type": "SEMVER", "events": [{"introduced": "1.9.0"}, {"fixed": "1.9.1"}]}]}]}
        snapshot = self.snapshot()
        with tempfile.TemporaryDirectory() as folder:
            for name, one in (("a", record), ("b", module), ("c", {**record, "id": "PYSEC-2", "aliases": [], "withdrawn": "2025"})):
                (pathlib.Path(folder) / f"{name}.json").write_text(json.dumps(one))
            parts = {Component("pypi", "flask", "3.1"): {"it"}, Component("deb", "golang-logrus", "1.9.0-1"): {"it"}}
            updates.from_osv(snapshot, parts, [folder], TODAY)
        self.assertEqual(list(snapshot.data["faults"]["pypi"]["flask"]), ["CVE-2025-0009"])
        found = [(one.identifier, one.fixed) for component in sorted(parts) for one in snapshot.findings(component)]
        self.assertEqual(found, [("CVE-2025-0010", "1.9.1-0"), ("CVE-2025-0009", "3.2")])


class Committed(unittest.TestCase):
    def test_the_snapshot_is_small_and_the_reviews_are_sound(self):
        self.assertLess(known_faults.SNAPSHOT.stat().st_size, 1_000_000)
        snapshot = known_faults.Snapshot.read()
        reviewed, _ = exceptions.read()
        for package, identifier in reviewed:
            self.assertIn(identifier, snapshot.data["faults"]["deb"].get(package, {}), package)


if __name__ == "__main__":
    sys.exit(unittest.main())
