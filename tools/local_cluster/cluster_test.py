#!/usr/bin/env python3
"""Tests of tools/cluster with real programs: tools/local_cluster/cluster_test.py [FOLDER OF kerf AND kerfd]."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import redis_cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "tools" / "cluster"
PROGRAMS = ROOT / "out"
# Longer than any verb may take.
TIMEOUT_S = 120


def commands_with(text):
    """The command lines of this machine's processes in which it occurs."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if text in command:
            found.append(command)
    return found


class ClusterTest(unittest.TestCase):
    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="kerf-cluster-test-"))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        self.folder = self.work / "cluster"
        # Before the folder goes, for a test that has failed.
        self.addCleanup(self.run_verb, "down", "--now")

    def run_verb(self, verb, *arguments, folder=None):
        if verb == "up":
            arguments = ("--kerfd", PROGRAMS / "kerfd", "--kerf", PROGRAMS / "kerf", "--drain-ms", "2000", *arguments)
        return subprocess.run([CLUSTER, verb, "--dir", folder or self.folder, *arguments], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)

    def do(self, verb, *arguments):
        done = self.run_verb(verb, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refuse(self, verb, *arguments, folder=None):
        """What it says."""
        done = self.run_verb(verb, *arguments, folder=folder)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def status(self):
        """(whether all is well, {name: row})"""
        found = json.loads(self.run_verb("status", "--json").stdout)
        return found["healthy"], {row["name"]: row for row in found["fronts"] + found["workers"] + found["redis"]}

    def ask_redis(self, row, password, *command):
        host, port = row["address"].split(":")
        return subprocess.run(["redis-cli", "-h", host, "-p", port, *command], capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S, env=dict(os.environ, REDISCLI_AUTH=password)).stdout

    def test_from_up_to_down(self):
        self.do("up", "--workers", "2", "--fronts", "1")
        is_well, before = self.status()
        self.assertTrue(is_well, before)
        self.assertEqual(sorted(before), ["front-1", *(f"redis-{number}" for number in range(1, 7)), "worker-1",
                                          "worker-2"])
        self.assertTrue(all(row["address"].startswith("127.") for row in before.values()), before)

        with self.subTest("up again changes nothing"):
            self.do("up", "--workers", "2", "--fronts", "1")
            self.assertEqual(self.status()[1], before)
            self.assertIn("2 workers", self.refuse("up", "--workers", "3", "--fronts", "1"))

        with self.subTest("Redis lets in whom it knows"):
            self.redis_lets_in_whom_it_knows(before)

        with self.subTest("it is a cluster"):
            front = self.do("front").strip()
            self.assertEqual(front, before["front-1"]["address"])
            (self.work / "tree").mkdir()
            (self.work / "tree" / "file").write_bytes(bytes(range(256)) * 10_000)
            done = subprocess.run([PROGRAMS / "kerf", "backup", self.work / "tree", "--store", self.work / "store",
                                   "--server", front], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

        with self.subTest("signals"):
            self.signals()

        with self.subTest("roll"):
            self.do("roll", "--workers")
            lines = self.do("roll", "--fronts").splitlines()
            self.assertEqual([line.split()[0] for line in lines], ["front-1"])
            _, after = self.status()
            for name, row in after.items():
                self.assertEqual(row["address"], before[name]["address"])
                if not name.startswith("redis"):
                    self.assertEqual(row["state"], "serving")
                    self.assertNotEqual(row["pid"], before[name]["pid"], name)

        with self.subTest("a half-hearted one beside it"):
            self.up_fails_half_way()
            self.assertEqual(self.status()[1]["worker-1"]["pid"], after["worker-1"]["pid"])

        with self.subTest("down spares whom it has not started"):
            self.down_spares_whom_it_has_not_started()
        self.assertEqual(commands_with(str(self.folder)), [])
        self.assertFalse(self.folder.exists())
        self.do("down")

    def redis_lets_in_whom_it_knows(self, before):
        self.assertIn("NOAUTH", self.ask_redis(before["redis-1"], "", "PING"))
        password = (self.folder / "redis.password").read_text()
        users = set(re.findall(r" user=(\w+)", self.ask_redis(before["redis-1"], password, "CLIENT", "LIST", "TYPE",
                                                              "normal")))
        self.assertEqual(users, {"default", "kerfd"}, "this test, and the workers")

    def signals(self):
        self.do("kill", "worker-1", "--signal", "STOP")
        is_well, rows = self.status()
        self.assertEqual((is_well, rows["worker-1"]["state"]), (False, "paused"))
        self.do("kill", "worker-1", "--signal", "CONT")
        self.do("kill", "worker-2")
        is_well, rows = self.status()
        self.assertEqual((is_well, rows["worker-2"]["state"], rows["worker-2"]["pid"]), (False, "down", None))
        self.assertEqual(self.run_verb("status").returncode, 1)
        self.assertIn("start", self.refuse("up", "--workers", "2", "--fronts", "1"))
        self.assertIn("is down", self.refuse("kill", "worker-2"))
        self.assertIn("worker-1", self.refuse("kill", "worker-9"))
        self.assertIn("runs already", self.refuse("start", "worker-1"))
        self.do("start", "worker-2")
        self.do("kill", "redis-6")
        self.assertEqual(self.status()[1]["redis-6"]["state"], "down")
        self.do("start", "redis-6")

    def down_spares_whom_it_has_not_started(self):
        bystander = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        state_file = self.folder / "cluster.json"
        state = json.loads(state_file.read_text())
        worker = next(process for process in state["processes"] if process["name"] == "worker-1")
        self.do("kill", "worker-1")
        worker["pid"] = bystander.pid
        state_file.write_text(json.dumps(state))
        self.assertEqual(self.status()[1]["worker-1"]["state"], "down")
        self.do("down")
        self.assertIsNone(bystander.poll())

    def up_fails_half_way(self):
        other = self.work / "other"
        kerfd = self.work / "kerfd"
        kerfd.write_text(f'#!/bin/sh\ncase "$*" in *"--role front"*) echo no fronts today; exit 1 ;; esac\n'
                         f'exec {PROGRAMS}/kerfd "$@"\n')
        kerfd.chmod(0o755)
        said = self.refuse("up", "--kerfd", kerfd, "--workers", "1", folder=other)
        self.assertIn("front-1 did not start", said)
        self.assertIn("no fronts today", said)
        self.assertEqual(commands_with(str(other)), [])
        self.assertFalse(other.exists())

    def test_what_cannot_be_is_refused(self):
        self.assertIn("there is no cluster", self.refuse("status"))
        self.assertIn("there is no cluster", self.refuse("roll"))
        self.assertIn("tools/build", self.refuse("up", "--kerfd", self.work / "none"))
        self.folder.mkdir()
        (self.folder / "precious").write_text("data")
        self.assertIn("precious", self.refuse("up"))
        self.assertEqual((self.folder / "precious").read_text(), "data")
        self.assertEqual(self.run_verb("up", "--workers", "0").returncode, 2)
        (self.folder / "cluster.json").write_text("{")
        self.assertIn("cluster.json", self.refuse("status"))
        self.assertEqual((self.folder / "precious").read_text(), "data")

    def test_an_interrupted_up_leaves_nothing(self):
        process = subprocess.Popen([CLUSTER, "up", "--dir", self.folder, "--kerfd", PROGRAMS / "kerfd", "--kerf",
                                    PROGRAMS / "kerf"], stdout=subprocess.DEVNULL)
        while not (self.folder / "worker-1.log").exists():
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(process.wait(timeout=TIMEOUT_S), 0)
        self.assertEqual(commands_with(str(self.folder)), [])
        self.assertFalse(self.folder.exists())


class RedisClusterTest(unittest.TestCase):
    def test_nodes_that_forget_each_other_meanwhile_are_introduced_again(self):
        nodes = [mock.Mock(port=port, bus_port=port + 10) for port in (1, 2, 3)]
        cluster = mock.Mock(nodes=nodes)
        with mock.patch.object(redis_cluster, "MEET_AGAIN_S", 0.05), subprocess.Popen(["sleep", "600"]) as creator:
            self.assertFalse(redis_cluster.Cluster.is_created(cluster, creator))
            creator.kill()
            creator.wait()
            self.assertTrue(redis_cluster.Cluster.is_created(cluster, creator))
        self.assertEqual(nodes[0].call.mock_calls,
                         [mock.call("CLUSTER", "MEET", "127.0.0.1", str(port), str(port + 10)) for port in (2, 3)])


if __name__ == "__main__":
    if len(sys.argv) > 1 and pathlib.Path(sys.argv[1]).is_dir():
        PROGRAMS = pathlib.Path(sys.argv.pop(1)).absolute()
    unittest.main()
