#!/usr/bin/env python3
"""Tests of tools/gpu/executed.py on counts written by hand."""

import unittest

import executed


def counts_of(*rows):
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    return executed.parse_counts(text, lambda names: {name: name.upper() for name in names})


def k_of(issued, loaded=100, stored=50):
    return counts_of(("random", "k", 100, issued, 16 * issued, loaded, stored))


class ExecutedTest(unittest.TestCase):

    def test_figures(self):
        k = counts_of(("random", "k", 100, 100, 3200, 100, 0), ("text", "k", 100, 50, 400, 200, 30),
                      ("random", "j", 100, 1, 1, 0, 0))["K"]
        self.assertEqual(k.figures(), [32.0, 16.0, 0.0, 1.5, 0.15])
        self.assertEqual(k.lanes_a_slot(), 24.0)

    def test_data_without_limits_are_an_error(self):
        with self.assertRaisesRegex(ValueError, "zeros"):
            counts_of(("zeros", "k", 100, 100, 3200, 100, 0))

    def test_a_tenth_more_is_too_much(self):
        for issued in (10, 1_000, 123_460):
            limits = [executed.rounded_up(figure) for figure in k_of(issued)["K"].figures()]
            self.assertEqual(executed.check("K", k_of(issued)["K"], limits), [])
            self.assertIn("issue slots a byte of random data",
                          executed.check("K", k_of(issued * 11 // 10)["K"], limits)[0])
        limits = [executed.rounded_up(figure) for figure in k_of(7)["K"].figures()]
        self.assertIn("1.1000 bytes loaded a byte", executed.check("K", k_of(7, loaded=110)["K"], limits)[0])
        self.assertIn("bytes stored a byte", executed.check("K", k_of(7, stored=55)["K"], limits)[0])

    def test_a_limit_that_would_let_a_tenth_pass_is_to_be_lowered(self):
        limits = [executed.rounded_up(figure) for figure in k_of(1_000)["K"].figures()]
        self.assertIn("is to be lowered", executed.check("K", k_of(900)["K"], limits)[0])

    def test_each_kernel_has_a_line_and_each_line_a_kernel(self):
        wrong = executed.check_all(k_of(7), {"J": [0.0] * len(executed.NAMES)}, "limits.txt")
        self.assertEqual(wrong, ["J of limits.txt was not run", "K has no line in limits.txt"])

    def test_limits(self):
        self.assertEqual(executed.parse_limits("# x\n\n 1 2.5 3 4 5 Strip<A, 5u>\n"),
                         {"Strip<A, 5u>": [1.0, 2.5, 3.0, 4.0, 5.0]})
        with self.assertRaises(ValueError):
            executed.parse_limits("1 2 3 4 5 B\n1 2 3 4 5 B\n")
        figures = [0.0, 1.0, 0.1234, 5.2, 4.0]
        self.assertEqual(executed.parse_limits(executed.row(figures, "B<1, 2u>")), {"B<1, 2u>": figures})


if __name__ == "__main__":
    unittest.main()
