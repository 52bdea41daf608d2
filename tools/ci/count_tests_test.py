#!/usr/bin/env python3
"""Nothing that failed is counted as passed, or not at all."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parent / "count_tests.py"
CASE = '<testcase name="a" status="run"/>'
FAILED_CASE = '<testcase classname="c" name="b" status="run"><failure message="no"/></testcase>'
SKIPPED_CASE = '<testcase name="c" status="run"><skipped message="later"/></testcase>'


class CountTests(unittest.TestCase):
    def count(self, results, code=0, summaries=(), target="//a:{}"):
        """Of one target for each (status, report, or None)."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            lines = [{"id": {"testSummary": {"label": "//a:a"}}, "testSummary": {"overallStatus": status}}
                     for status in summaries]
            for number, (status, report) in enumerate(results):
                outputs = []
                if report is not None:
                    path = root / f"{number}.xml"
                    path.write_text(report)
                    outputs = [{"name": "test.log", "uri": "file:///no"}, {"name": "test.xml", "uri": f"file://{path}"}]
                lines.append({"id": {"testResult": {"label": target.format(number)}},
                              "testResult": {"status": status, "testActionOutput": outputs}})
            (root / "events").write_text("".join(json.dumps(line) + "\n" for line in lines))
            said = subprocess.run([sys.executable, PROGRAM, root / "events", str(code)], capture_output=True, text=True,
                                  check=True).stdout.splitlines()
            self.assertEqual(len(said) - 1, int(said[0].split()[1]))
            self.failed = said[1:]
            return said[0]

    def test_cases_are_counted(self):
        suite = f"<testsuites><testsuite>{CASE}{CASE}{SKIPPED_CASE}</testsuite><testsuite>{CASE}</testsuite></testsuites>"
        self.assertEqual(self.count([("PASSED", suite), ("PASSED", f"<testsuite>{CASE}</testsuite>")]), "4 0")
        self.assertEqual(self.count([("FAILED", f"<testsuite>{CASE}{FAILED_CASE}{FAILED_CASE}</testsuite>")], 3), "1 2")
        self.assertEqual(self.failed, ["//a:0: c.b"] * 2)

    def test_a_target_that_says_nothing_has_failed(self):
        for status in ("FAILED", "TIMEOUT", "INCOMPLETE", "REMOTE_FAILURE", "FLAKY"):
            for report in (None, f"<testsuite>{CASE}</testsuite>", "<testsuite/>"):
                with self.subTest(status=status, report=report):
                    self.assertTrue(self.count([(status, report)], 3).endswith(" 1"))

    def test_a_report_that_cannot_be_read_is_a_failure_and_the_others_count(self):
        for report in ("", "<testsuite><testcase", "<testsuite>\x01</testsuite>"):
            with self.subTest(report=report):
                self.assertEqual(self.count([("PASSED", report), ("PASSED", f"<testsuite>{CASE}</testsuite>")]), "1 1")

    def test_a_target_without_a_case_has_failed(self):
        empty = ("PASSED", "<testsuites/>")
        self.assertEqual(self.count([empty]), "0 1")
        self.assertEqual(self.count([empty, ("PASSED", f"<testsuite>{CASE}</testsuite>")]), "1 1")
        # Of its shards some may have none, and what was skipped is there.
        self.assertEqual(self.count([empty, ("PASSED", f"<testsuite>{CASE}</testsuite>")], target="//a:shards"), "1 0")
        self.assertEqual(self.count([("PASSED", f"<testsuite>{SKIPPED_CASE}</testsuite>")]), "0 0")

    def test_what_is_not_built_has_failed(self):
        self.assertEqual(self.count([], 1, ["FAILED_TO_BUILD", "NO_STATUS", "PASSED"]), "0 2")
        self.assertEqual(self.failed, ["//a:a: FAILED_TO_BUILD", "//a:a: NO_STATUS"])

    def test_a_call_that_fails_has_failed(self):
        self.assertEqual(self.count([("PASSED", f"<testsuite>{CASE}</testsuite>")], 37), "1 1")


if __name__ == "__main__":
    unittest.main()
