#!/usr/bin/env python3
"""Counts the test cases of one `bazel test` call: tools/ci/count_tests.py BEP_JSON RC.

Reads the build event file, opens every test.xml that the call names, and prints
"PASSED FAILED" and, a line each, what failed. A target that failed without a report (it did not build, timed out or crashed)
counts as one failure, and so does one whose report cannot be read, one that has no cases in any of
its shards, and a call that failed with nothing else to show for it.
"""

import collections
import json
import sys
import urllib.parse
import xml.etree.ElementTree


def count_report(path):
    """(passed, names of the failed, others) of one test.xml."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except xml.etree.ElementTree.ParseError as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 0, ["its report cannot be read"], 0
    suites = [root] if root.tag == "testsuite" else root.findall("testsuite")
    passed = others = 0
    failed = []
    for suite in suites:
        for case in suite.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                failed.append(f"{case.get('classname')}.{case.get('name')}")
            elif case.find("skipped") is not None:
                print(f"skipped: {case.get('classname')}.{case.get('name')}", file=sys.stderr)
                others += 1
            elif case.get("status") == "notrun":
                others += 1
            else:
                passed += 1
    return passed, failed, others


def main():
    events, exit_code = sys.argv[1], int(sys.argv[2])
    passed = 0
    failed = []
    # Of each target, in all its shards.
    case_counts = collections.Counter()
    with open(events, encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            result = event.get("testResult")
            if result is not None:
                target = event["id"]["testResult"]["label"]
                case_passed, case_failed, others = 0, [], 0
                for output in result.get("testActionOutput", []):
                    if output.get("name") == "test.xml":
                        path = urllib.parse.unquote(output["uri"][len("file://"):])
                        case_passed, case_failed, others = count_report(path)
                if result.get("status") != "PASSED" and not case_failed:
                    case_failed = [result.get("status", "no status")]
                passed += case_passed
                failed += [f"{target}: {name}" for name in case_failed]
                case_counts[target] += case_passed + len(case_failed) + others
            summary = event.get("testSummary")
            if summary is not None and summary.get("overallStatus") in ("FAILED_TO_BUILD", "NO_STATUS"):
                failed.append(f"{event['id']['testSummary']['label']}: {summary['overallStatus']}")
    for target, count in case_counts.items():
        if count == 0:
            failed.append(f"{target}: no test in it")
    if exit_code != 0 and not failed:
        failed.append(f"bazel test ended with {exit_code}")
    print(passed, len(failed))
    for name in failed:
        print(name)


if __name__ == "__main__":
    main()
