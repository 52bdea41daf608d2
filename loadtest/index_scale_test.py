#!/usr/bin/env python3
"""loadtest/index_scale: what it takes for a miss, and its options. What it measures loadtest/smoke tries."""

import argparse
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools/python"))

import index_scale

ALONE = {"step": "lookups alone", "silence_s": 0.1, "p99_ms": 10.0, "NEW": 0, "failed": 0}


def missed(row, judge="all"):
    scale = index_scale.Scale.__new__(index_scale.Scale)
    scale.options, scale.rows, scale.missed = types.SimpleNamespace(judge=judge), [ALONE, row], []
    scale.judge(row)
    return scale.missed


class Judgment(unittest.TestCase):
    def test_what_is_within_bounds_is_no_miss(self):
        self.assertEqual(missed(ALONE | {"step": "epoch", "silence_s": 2.0, "p99_ms": 20.0}), [])

    def test_each_bound_is_looked_at(self):
        for change, word in [({"silence_s": 2.01}, "no answer"), ({"p99_ms": 20.1}, "p99"), ({"NEW": 1}, "NEW"),
                             ({"failed": 1}, "failed")]:
            found = missed(ALONE | {"step": "epoch"} | change)
            self.assertEqual(len(found), 1, change)
            self.assertIn(word, found[0])

    def test_times_count_nothing_where_the_machine_is_shared(self):
        slow = ALONE | {"step": "epoch", "silence_s": 9.0, "p99_ms": 900.0}
        self.assertEqual(missed(slow, "ends"), [])
        self.assertEqual(len(missed(slow | {"NEW": 3}, "ends")), 1)

    def test_the_filling_has_no_lookups_beside_it(self):
        self.assertEqual(missed({"step": "fill", "silence_s": 0.5}), [])
        self.assertEqual(len(missed({"step": "fill", "silence_s": 2.5})), 1)


class Options(unittest.TestCase):
    def test_numbers(self):
        for text, value in [("12M", 12_000_000), ("100k", 100_000), ("0.5M", 500_000), ("4096", 4096)]:
            self.assertEqual(index_scale.number(text), value)
        for text in ["1", "0M", "-5k"]:
            with self.assertRaises(argparse.ArgumentTypeError):
                index_scale.number(text)

    def test_steps_come_in_their_order(self):
        self.assertEqual(index_scale.steps_of("check,epoch"), ["epoch", "check"])
        with self.assertRaises(argparse.ArgumentTypeError):
            index_scale.steps_of("epoch,walk")

    def test_percentiles(self):
        self.assertEqual(index_scale.percentile([], 0.99), 0.0)
        self.assertEqual(index_scale.percentile([1, 2, 3, 4], 0.5), 3)
        self.assertEqual(index_scale.percentile(list(range(100)), 0.99), 99)
        self.assertEqual(index_scale.percentile([7], 1), 7)


if __name__ == "__main__":
    unittest.main()
