#!/usr/bin/env python3
"""Tests of processes.py with real processes."""

import contextlib
import io
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import processes

# It ends of SIGKILL alone, and says when that is so.
STUBBORN = "trap '' TERM; echo stubborn; while :; do sleep 0.1; done"
PATIENCE_S = 20


class ProcessesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kerf-processes-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def child(self, *command, **options):
        process = subprocess.Popen(command, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_free_ports_differ_and_are_free(self):
        ports = processes.free_ports(20)
        self.assertEqual(len(set(ports)), 20)
        with contextlib.ExitStack() as stack:
            for port in ports:
                stack.enter_context(socket.create_server((processes.HOST, port)))

    def test_wait_until_returns_what_has_come(self):
        answers = iter(["", None, "here"])
        self.assertEqual(processes.wait_until(lambda: next(answers), PATIENCE_S, "it", poll_s=0), "here")

    def test_wait_until_says_what_has_not_come(self):
        with self.assertRaisesRegex(processes.Failed, r"^the moon: not within 0\.01 s\nit is day$"):
            processes.wait_until(lambda: False, 0.01, "the moon", lambda: "it is day", poll_s=0.001)
        with self.assertRaisesRegex(OSError, "^the moon: not within 0 s$"):
            processes.wait_until(lambda: False, 0, "the moon", error=OSError)

    def test_wait_until_does_not_wait_for_one_that_has_ended(self):
        process = self.child("sh", "-c", "exit 3")
        with self.assertRaisesRegex(processes.Failed, "^the moon: sh has ended with exit code 3$"):
            processes.wait_until(lambda: False, 3600, "the moon", processes=[process])
        self.assertTrue(processes.wait_until(lambda: True, 0, "the sun", processes=[process]))

    def test_stop(self):
        self.assertTrue(processes.stop(self.child("sleep", "1000"), PATIENCE_S))
        stubborn = self.child("sh", "-c", STUBBORN, stdout=subprocess.PIPE)
        self.addCleanup(stubborn.stdout.close)
        stubborn.stdout.readline()
        self.assertFalse(processes.stop(stubborn, 0.1))
        self.assertEqual(stubborn.returncode, -signal.SIGKILL)

    def test_running_ends_and_shows_the_log_of_a_failure(self):
        log = self.folder / "log"
        with self.assertRaises(ZeroDivisionError), contextlib.redirect_stderr(io.StringIO()) as said:
            with processes.running(["sh", "-c", "echo a word; exec sleep 1000"], log) as process:
                processes.wait_until(lambda: "a word" in log.read_text(), PATIENCE_S, "a word", processes=[process])
                1 / 0
        self.assertIsNotNone(process.returncode)
        self.assertEqual(said.getvalue(), f"last lines of {log}:\na word\n")

    def test_end_spares_whom_it_does_not_know(self):
        bystander = self.child("sleep", "1000")
        script = self.folder / "script"
        script.write_text("while :; do sleep 0.1; done\n")
        pid = processes.start(["sh", script], self.folder / "log")
        self.addCleanup(lambda: processes.is_own(pid, self.folder) and os.kill(pid, signal.SIGKILL))
        self.assertTrue(processes.is_own(pid, self.folder))
        self.assertFalse(processes.is_own(pid, self.folder / "other"))
        self.assertNotEqual(os.getsid(pid), os.getsid(0))
        processes.end([pid, bystander.pid], self.folder)
        self.assertFalse(processes.is_own(pid, self.folder))
        self.assertIsNone(bystander.poll())

    def test_what_proc_says(self):
        process = self.child("sleep", "1000")
        letter, start_time = processes.state(process.pid)
        self.assertIn(letter, "SR")
        # For a moment it has none.
        processes.wait_until(lambda: processes.command_line(process.pid) == "sleep\x001000\x00", PATIENCE_S, "a command line")
        self.assertLess(processes.cpu_seconds(process.pid), 10)
        process.send_signal(signal.SIGSTOP)
        processes.wait_until(lambda: processes.state(process.pid) == ("T", start_time), PATIENCE_S, "a paused process")
        process.kill()
        process.wait()
        self.assertIsNone(processes.state(process.pid))
        self.assertEqual(processes.command_line(process.pid), "")
        with self.assertRaises(processes.Failed):
            processes.cpu_seconds(process.pid)

    def test_cpu_seconds_grow(self):
        before, deadline = processes.cpu_seconds(os.getpid()), time.monotonic() + PATIENCE_S
        while processes.cpu_seconds(os.getpid()) == before:
            self.assertLess(time.monotonic(), deadline)


if __name__ == "__main__":
    unittest.main()
