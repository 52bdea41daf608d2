"""One stream, and a server that is none of ours."""

import time
import types
import unittest

from kerf.stream import _WAITING_ANSWERS, UploadStream
from kerf.v1 import chunking_pb2 as pb

ANSWERS_A_MESSAGE = 1_000


class Flood:
    """Answers without end, until the call is cancelled."""

    def __init__(self):
        self.sent_count, self.is_cancelled = 0, False

    def __iter__(self):
        return self

    def __next__(self):
        if self.is_cancelled:
            raise StopIteration
        self.sent_count += ANSWERS_A_MESSAGE
        return pb.UploadResponse(answers=[pb.UploadAnswer()] * ANSWERS_A_MESSAGE)

    def cancel(self):
        self.is_cancelled = True


class FloodTest(unittest.TestCase):
    def setUp(self):
        self.flood = Flood()
        channel = types.SimpleNamespace(stream_stream=lambda *_, **__: lambda *_, **__: self.flood)
        self.stream = UploadStream(channel, [], "flood")
        self.addCleanup(self.stream.cancel)

    def wait_until_it_stands(self):
        before = -1
        while before != self.flood.sent_count:
            self.assertLess(self.flood.sent_count, 10 * _WAITING_ANSWERS)
            before = self.flood.sent_count
            time.sleep(0.2)

    def test_answers_that_nobody_takes_do_not_grow(self):
        self.wait_until_it_stands()
        self.assertLess(self.flood.sent_count, _WAITING_ANSWERS + 2 * ANSWERS_A_MESSAGE)

    def test_it_goes_on_once_they_are_taken(self):
        self.wait_until_it_stands()
        stood = self.flood.sent_count
        for _ in range(4 * ANSWERS_A_MESSAGE):
            self.assertIsNotNone(self.stream.take())
        self.wait_until_it_stands()
        self.assertGreater(self.flood.sent_count, stood)

    def test_who_half_closes_drops_them(self):
        self.wait_until_it_stands()
        self.assertIsNotNone(self.stream.finish(0.2))


if __name__ == "__main__":
    unittest.main()
