#!/usr/bin/env python3
"""Counts the test cases of one `bazel test` call: tools/ci/count_tests.py BEP_JSON RC.

Reads the build event file, opens every test.xml that the call names, and prints
"PASSED FAILED". A target that failed without a report (it did not build, timed out or crashed)
counts as one failure, and so does one whose report cannot be read, and a call that failed with
nothing else to show for it.
"""

import json
import sys
import urllib.parse
import xml.etree.ElementTree


def count_report(path):
    """(passed, failed) of one test.xml."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except xml.etree.ElementTree.ParseError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 0, 1
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
    passed = failed = 0
    for suite in suites:
        for case in suite.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            elif case.find("skipped") is not None:
                print(f"skipped: {case.get('classname')}.{case.get('name')}", file=sys.stderr)
            elif case.get("status") != "notrun":
                passed += 1
    return passed, failed


def main():
    events, exit_code = sys.argv[1], int(sys.argv[2])
    passed = failed = 0
    with open(events, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            result = event.get("testResult")
            if result is not None:
                case_passed = case_failed = 0
                for output in result.get("testActionOutput", []):
                    if output.get("name") == "test.xml":
                        path = urllib.parse.unquote(output["uri"][len("file://"):])
                        case_passed, case_failed = count_report(path)
                if result.get("status") != "PASSED" and case_failed == 0:
                    case_failed = 1
                passed += case_passed
                failed += case_failed
            summary = event.get("testSummary")
            if summary is not None and summary.get("overallStatus") in ("FAILED_TO_BUILD", "NO_STATUS"):
                failed += 1
    if exit_code != 0 and failed == 0:
        failed = 1
    print(passed, failed)


if __name__ == "__main__":
    main()
