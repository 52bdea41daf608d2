#!/usr/bin/env python3
"""tools/test, with all that it runs replaced, tells of what failed, also where it has died before it could say so."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What tools/test starts, but for Bazel.
COMMANDS = ["tools/deps", "tools/format", "tools/build", "tools/local_cluster/cluster_test.py",
            "tools/local_cluster/tls_test.py", "tools/local_cluster/page_test.py", "loadtest/smoke", "loadtest/faults", "deploy/check", "tools/site", "out/tools/deploy/venv/bin/python", "tools/oracle", "tools/vectors",
            "tools/cross", "tools/tidy", "tools/sass", "e2e/fault_fs/install", "e2e/fault_fs/fault_fs_test.py", "e2e/fidelity/run",
            "e2e/agent_fuzz/run", "e2e/runbooks/run", "e2e/fault_fs/outputs_test.py", "e2e/fault_fs/audit_test.py", "e2e/full_disk/run", "e2e/parity/run", "e2e/tls_judge/run", "client/python/test", "client/go/test", "tools/conformance",
            "e2e/grpc_judge/run", "tools/ci/check_protos",
            "tools/supply/check", "tools/cve_check", "tools/reproducible",
            "tools/kubebox/check", "e2e/releases/old_binary_test", "e2e/releases/old_clients_test", "e2e/releases/upgrade_test", "loadtest/run", "tools/quickstart", "tools/kube", "tools/ptx_mutants"]
# What each part of tools/test --all begins with.
FIRST = ["formatting", "house rules", "protos: buf's rules, and nothing broken since 0.1.0", "the checks themselves", "the comparison with other tools, and the quickstart's judge",
         "ptx: what the translator makes, and what it refuses",
         "NetworkPolicies as packet filter rules", "release binaries", "fault file system"]
# Of a suite of one target, with one test.
EVENTS = ('{"id": {"testResult": {"label": "//base:a_test"}}, '
          '"testResult": {"status": "PASSED", "testActionOutput": [{"name": "test.xml", "uri": "file://%s"}]}}\n')
REPORT = '<testsuites><testsuite><testcase name="a" status="run"/></testsuite></testsuites>'
# `broken` is done where the whole processes are tested.
BAZEL = """#!/bin/bash
while [[ $1 = --* ]]; do shift; done
case $1 in
  query) echo //base:a_test ;;
  info) echo base ;;
  test)
    for argument; do case $argument in --build_event_json_file=*) events=${argument#*=} ;; esac; done
    cp events "$events"
    case "$*" in *//e2e/...*//kernels/vectors/...*) %s ;; esac ;;
esac
"""
PYTHON = """#!/bin/bash
[ "$1" != tools/ci/count_tests.py ] || exec %s "$@"
"""


class TestCommand(unittest.TestCase):
    def run_with(self, broken=":", failing=(), arguments=()):
        """The exit code of tools/test and its last line."""
        code, lines = self.run_all(broken, failing, arguments)
        return code, lines[-1]

    def run_all(self, broken=":", failing=(), arguments=()):
        """The same with all lines."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)

            def write(name, text):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
                (root / name).chmod(0o755)

            for name in COMMANDS:
                write(name, f"#!/bin/bash\nexit {1 if name in failing else 0}\n")
            write("bin/bazel", BAZEL % broken)
            write("bin/python3", PYTHON % sys.executable)
            write("report.xml", REPORT)
            write("events", EVENTS % (root / "report.xml"))
            for name in ("tools/test", "tools/ci/count_tests.py"):
                (root / name).parent.mkdir(exist_ok=True)
                shutil.copy(ROOT / name, root / name)
            done = subprocess.run([root / "tools/test", *arguments], env={**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}"},
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, timeout=60)
            return done.returncode, done.stdout.splitlines()

    def names_of(self, *arguments):
        """What was checked, in order, without what each part begins with."""
        code, lines = self.run_all(arguments=arguments)
        self.assertEqual((code, lines[-1].split()[2:]), (0, ["0", "failed"]), lines[-5:])
        names = [line[3:].rsplit(" (", 1)[0] for line in lines if line.startswith("== ")]
        return [name for name in names if not name.startswith("done") and name not in FIRST]

    def test_all_is_counted(self):
        code, last = self.run_with()
        self.assertEqual(code, 0)
        self.assertRegex(last, r"^\d\d passed, 0 failed$")

    def test_three_parts_are_all(self):
        parts = [self.names_of("--all", "--part", part) for part in "123"]
        self.assertCountEqual(sum(parts, []), self.names_of("--all"))
        for part in parts:
            self.assertGreater(len(part), 3)
        self.assertEqual(self.run_all(arguments=["--all", "--part", "4"])[0], 2)
        self.assertEqual(self.run_all(arguments=["--part", "1"])[0], 2)

    def test_what_fails_is_counted(self):
        for name in ("tools/format", "tools/oracle", "tools/tidy"):
            with self.subTest(name=name):
                self.assertRegex(" ".join(map(str, self.run_with(failing=[name]))), r"^1 \d\d passed, 1 failed$")

    def test_a_bazel_that_dies_has_failed(self):
        for broken in ("exit 37", 'echo -n \'{"id\' >>"$events"; exit 37', 'rm "$events"; exit 37'):
            with self.subTest(broken=broken):
                self.assertRegex(" ".join(map(str, self.run_with(broken))), r"^1 \d\d passed, 1 failed$")

    def test_whole_processes_that_die_have_failed(self):
        self.assertRegex(" ".join(map(str, self.run_with("kill -9 $PPID"))), r"^1 \d+ passed, 1 failed$")


if __name__ == "__main__":
    unittest.main()
