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
FAILED_CASE = '<testcase name="b" status="run"><failure message="no"/></testcase>'
SKIPPED_CASE = '<testcase name="c" status="run"><skipped message="later"/></testcase>'


class CountTests(unittest.TestCase):
    def count(self, results, code=0, summaries=()):
        """Of one target for each (status, report, or None)."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            lines = [{"testSummary": {"overallStatus": status}} for status in summaries]
            for number, (status, report) in enumerate(results):
                outputs = []
                if report is not None:
                    path = root / f"{number}.xml"
                    path.write_text(report)
                    outputs = [{"name": "test.log", "uri": "file:///no"}, {"name": "test.xml", "uri": f"file://{path}"}]
                lines.append({"testResult": {"status": status, "testActionOutput": outputs}})
            (root / "events").write_text("".join(json.dumps(line) + "\n" for line in lines))
            return subprocess.run([sys.executable, PROGRAM, root / "events", str(code)], capture_output=True, text=True,
                                  check=True).stdout.strip()

    def test_cases_are_counted(self):
        suite = f"<testsuites><testsuite>{CASE}{CASE}{SKIPPED_CASE}</testsuite><testsuite>{CASE}</testsuite></testsuites>"
        self.assertEqual(self.count([("PASSED", suite), ("PASSED", f"<testsuite>{CASE}</testsuite>")]), "4 0")
        self.assertEqual(self.count([("FAILED", f"<testsuite>{CASE}{FAILED_CASE}{FAILED_CASE}</testsuite>")], 3), "1 2")

    def test_a_target_that_says_nothing_has_failed(self):
        for status in ("FAILED", "TIMEOUT", "INCOMPLETE", "REMOTE_FAILURE", "FLAKY"):
            for report in (None, f"<testsuite>{CASE}</testsuite>", "<testsuite/>"):
                with self.subTest(status=status, report=report):
                    self.assertTrue(self.count([(status, report)], 3).endswith(" 1"))

    def test_a_report_that_cannot_be_read_is_a_failure_and_the_others_count(self):
        for report in ("", "<testsuite><testcase", "<testsuite>\x01</testsuite>"):
            with self.subTest(report=report):
                self.assertEqual(self.count([("PASSED", report), ("PASSED", f"<testsuite>{CASE}</testsuite>")]), "1 1")

    def test_what_is_not_built_has_failed(self):
        self.assertEqual(self.count([], 1, ["FAILED_TO_BUILD", "NO_STATUS", "PASSED"]), "0 2")

    def test_a_call_that_fails_has_failed(self):
        self.assertEqual(self.count([("PASSED", f"<testsuite>{CASE}</testsuite>")], 37), "1 1")


if __name__ == "__main__":
    unittest.main()
