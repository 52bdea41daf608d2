#!/usr/bin/env python3
"""What a run's timeline counts and draws. loadtest/smoke runs it."""

import pathlib
import tempfile
import unittest
import xml.dom.minidom

import timeline


class TimelineTest(unittest.TestCase):
    def setUp(self):
        self.timeline = timeline.Timeline()
        self.timeline.add({"100": {"answered bytes": 5 << 20, "streams lost": 1}, "103": {"streams resumed": 2}}, now=104)

    def test_seconds_without_anything_are_rows_too(self):
        self.assertEqual(self.timeline.rows(), [(100, 5 << 20, 1, 0), (101, 0, 0, 0), (102, 0, 0, 0), (103, 0, 0, 2)])

    def test_what_was_taken_counts_once(self):
        process = timeline.Timeline()
        process.count("streams lost", 3)
        taken = process.take()
        # The second of the process is far from 104: a wrong clock lengthens no timeline.
        self.assertEqual(process.take(), {})
        self.timeline.add(taken, now=104)
        self.assertEqual([row[2] for row in self.timeline.rows()], [1, 0, 0, 0, 3])

    def test_a_file_has_all_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "timeline.csv"
            self.timeline.write(path)
            self.assertEqual(timeline.read(path), self.timeline.rows())
            timeline.Timeline().write(path)
            self.assertEqual(timeline.read(path), [])

    def test_the_page_shows_rates_streams_and_restarts(self):
        page = timeline.draw(self.timeline.rows(), [("worker-<1>", 100.5, 102.25)])
        self.assertIn("<td>worker-&lt;1&gt;</td><td>0.5 s</td><td>1.8 s</td>", page)
        self.assertEqual(page.count('class="lost"'), 1)
        self.assertEqual(page.count('class="resumed"'), 1)
        for part in page.split("<svg")[1:]:
            xml.dom.minidom.parseString("<svg" + part.split("</svg>")[0] + "</svg>")

    def test_a_run_of_one_second_without_an_answer_is_drawn(self):
        self.assertIn("<svg", timeline.draw([(7, 0, 0, 0)], []))


if __name__ == "__main__":
    unittest.main()
