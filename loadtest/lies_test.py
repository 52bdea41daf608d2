#!/usr/bin/env python3
"""Can the load test fail? Every lie of lies.py is told to an agent of a real kerfd, and must be seen as
what it is; without a lie the same backup is well. loadtest/smoke runs it:

    out/tools/loadtest/bin/python loadtest/lies_test.py out/kerfd
"""

# First: it replaces the threads and sockets that all others use.
import locust

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools/python"))

import grpc.experimental.gevent
import locust.env

import checks
import content
import kerfd
import ledger
import lies
import service_levels
import settings
import users
import wire

HERE = pathlib.Path(__file__).resolve().parent
FILE_BYTES = 1_000_000
STALL_S = 20


class LiesTest(unittest.TestCase):
    address = None

    def agent(self, name):
        """A new one, of a repository of its own; self.events is what it tells: [(event, error)]."""
        effective = settings.Settings()
        effective.target.addresses, effective.target.run = [self.address], name
        effective.stream.break_share, effective.stream.stall_s = 0.0, float(STALL_S)
        effective.stream.commit_chunks = 20
        users.Agent.settings, users.Agent.ledger = effective, ledger.Ledger(name, 1)
        environment = locust.env.Environment()
        self.events = []
        environment.events.request.add_listener(
            lambda name, exception, **_: self.events.append((name, exception)))
        self.stats = environment.stats
        environment.events.request.add_listener(self.to_stats)
        agent = users.FirstBackup(environment)
        return agent

    def to_stats(self, request_type, name, response_time, response_length, exception, **_):
        self.stats.log_request(request_type, name, response_time, response_length)
        if exception:
            self.stats.log_error(request_type, name, exception)

    def exit_code(self):
        return service_levels.judge(service_levels.read(HERE / "slo.toml"), self.stats)[1]

    def two_days(self, agent):
        """(the first day, the second, which has it all again and as much in between)"""
        corpus = agent.corpus
        first = content.Content([corpus.own_stretch(FILE_BYTES)])
        second = first
        for part in range(8):
            begin = part * FILE_BYTES // 4
            second = second.replaced(begin, begin, [corpus.own_stretch(FILE_BYTES // 8)])
        return {"first": first, "empty": content.Content([])}, {"second": second, "again": first}

    def test_without_a_lie_all_is_well(self):
        agent = self.agent("honest")
        for day in self.two_days(agent):
            self.assertTrue(agent.upload(day), self.events)
        self.assertEqual([error for _, error in self.events if error], [])
        self.assertEqual(self.exit_code(), 0)

    def test_every_lie_is_seen(self):
        for lie, kinds in lies.ALL.items():
            with self.subTest(lie.__name__):
                agent = self.agent(lie.__name__)
                first, second = self.two_days(agent)
                self.assertTrue(agent.upload(first), self.events)
                self.addCleanup(lies.tell(lie))
                self.assertFalse(agent.upload(second), "nothing was seen")
                self.doCleanups()
                seen = [name for name, error in self.events if error]
                self.assertEqual(len(seen), 1, self.events)
                self.assertIn(seen[0], [service_levels.WRONG + kind for kind in kinds], self.events)
                self.assertEqual(self.exit_code(), service_levels.EXIT_WRONG_ANSWER)

    def test_other_cuts_are_seen(self):
        agent = self.agent("cuts")
        first, _ = self.two_days(agent)
        self.assertTrue(agent.upload(first), self.events)
        agent.settings.target.profile = "fastcdc2020-8k"
        self.assertFalse(agent.upload(first))
        self.assertEqual(self.events[-1][0], "WRONG: cuts")

    def test_a_resumed_file_is_cut_as_before(self):
        agent = self.agent("resumed")
        agent.settings.stream.break_share = 1.0
        first, second = self.two_days(agent)
        self.assertTrue(agent.upload(first) and agent.upload(second), self.events)
        names = [name for name, error in self.events if not error]
        self.assertEqual(len(names), len(self.events), self.events)
        self.assertIn("resume", names)
        transfer = checks.Transfer("third", content.Content([agent.corpus.own_stretch(FILE_BYTES)]))
        transfer.answered_before = {0: 1}
        with self.assertRaisesRegex(checks.WrongAnswer, "cuts: "):
            agent._upload_once([transfer], will_break=False)

    def test_a_lookup_is_judged(self):
        agent = self.agent("lookup")
        self.assertTrue(agent.upload(self.two_days(agent)[0]))
        recipe = max(agent.ledger.any_recipe(agent.random) for _ in range(20))
        honest = wire.lookup_chunks
        self.addCleanup(setattr, wire, "lookup_chunks", honest)

        def forgets(answers):
            answers[1].verdict = wire.NEW

        def changes_length(answers):
            answers[1].entry.length_bytes += 1

        def swaps_locators(answers):
            answers[1].entry.locator = answers[0].entry.locator

        for lie, event in [(None, "whole recipe"), (forgets, "WRONG: forgotten"), (changes_length, "WRONG: lookup"),
                           (swaps_locators, "WRONG: duplicate of nothing")]:
            def answer(*arguments, lie=lie):
                response = honest(*arguments)
                if lie:
                    lie(response.answers)
                return response

            wire.lookup_chunks = answer
            checker = users.RestoreCheck(agent.environment)
            checker.ledger.any_recipe = lambda _: recipe
            self.events.clear()
            checker.check()
            self.assertEqual(self.events[-1][0], event)

    def test_a_missed_service_level(self):
        agent = self.agent("slow")
        self.assertTrue(agent.upload({"empty": content.Content([])}))
        for levels, code in [({"p95_ms": {"any": {"open": 60_000}}}, 0), ({"p95_ms": {"any": {"open": -1}}}, 1),
                             ({"at_least": {"first backup": {"whole file": 1}}}, 0),
                             ({"at_least": {"huge file": {"whole file": 1}}}, 1)]:
            self.assertEqual(service_levels.judge(levels, self.stats)[1], code, levels)
        self.assertEqual(service_levels.judge({}, self.stats, mistake_count=1)[1], 1)

    def test_nobody_answers(self):
        agent = self.agent("nobody")
        agent.settings.target.addresses = ["127.0.0.1:1"]
        agent.settings.stream.attempts = 2
        self.assertFalse(agent.upload({"empty": content.Content([])}))
        self.assertEqual(self.exit_code(), service_levels.EXIT_MISSED)


def main():
    grpc.experimental.gevent.init_gevent()
    program = pathlib.Path(sys.argv.pop(1)).resolve()
    with tempfile.TemporaryDirectory(prefix="kerf-loadtest-", dir="/var/tmp") as work:
        with kerfd.Kerfd(program, work) as LiesTest.address:
            result = unittest.main(exit=False).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
