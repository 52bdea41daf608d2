"""One stream, and a server that is none of ours."""

import time
import types
import unittest

from kerf.errors import Action
from kerf.stream import _WAITING_ANSWER_BYTES, StreamEnded, UploadStream
from kerf.v1 import chunking_pb2 as pb

ANSWERS_A_MESSAGE = 4
MESSAGE = pb.UploadResponse(answers=[pb.UploadAnswer(opened=pb.Opened(session_id="x" * 10_000))] * ANSWERS_A_MESSAGE).SerializeToString()


class Flood:
    """Messages without end, or these, until the call is cancelled."""

    def __init__(self, messages=None):
        self.sent_bytes, self.is_cancelled = 0, False
        self._messages = messages

    def __iter__(self):
        return self

    def __next__(self):
        if self.is_cancelled or self._messages == []:
            raise StopIteration
        message = MESSAGE if self._messages is None else self._messages.pop(0)
        self.sent_bytes += len(message)
        return message

    def cancel(self):
        self.is_cancelled = True


class FloodTest(unittest.TestCase):
    def open(self, messages=None):
        flood = Flood(messages)
        channel = types.SimpleNamespace(stream_stream=lambda *_, **__: lambda *_, **__: flood)
        stream = UploadStream(channel, [], "flood")
        self.addCleanup(stream.cancel)
        return flood, stream

    def wait_until_it_stands(self, flood):
        before = -1
        while before != flood.sent_bytes:
            self.assertLess(flood.sent_bytes, 10 * _WAITING_ANSWER_BYTES)
            before = flood.sent_bytes
            time.sleep(0.2)

    def test_answers_that_nobody_takes_do_not_grow(self):
        flood, _ = self.open()
        self.wait_until_it_stands(flood)
        self.assertLess(flood.sent_bytes, _WAITING_ANSWER_BYTES + 2 * len(MESSAGE))

    def test_it_goes_on_once_they_are_taken(self):
        flood, stream = self.open()
        self.wait_until_it_stands(flood)
        stood = flood.sent_bytes
        # All but the message that waits for room.
        for _ in range((stood // len(MESSAGE) - 1) * ANSWERS_A_MESSAGE):
            self.assertIsNotNone(stream.take())
        self.wait_until_it_stands(flood)
        self.assertGreater(flood.sent_bytes, stood)

    def test_messages_without_answers_hold_up_none(self):
        # Field 100, which nobody knows, of 10,000 bytes.
        nothing = b"\xa2\x06\x90\x4e" + b"x" * 10_000
        flood, stream = self.open([nothing] * (2 * _WAITING_ANSWER_BYTES // len(nothing)) + [MESSAGE])
        stream.wait(20)
        self.assertIsNotNone(stream.take())
        self.assertGreater(flood.sent_bytes, 2 * _WAITING_ANSWER_BYTES - len(nothing))

    def test_what_is_no_answer_ends_it(self):
        flood, stream = self.open([b"\xff\xff\xff"])
        stream.wait(20)
        with self.assertRaisesRegex(StreamEnded, "cannot be read") as caught:
            stream.take()
        self.assertIs(caught.exception.failure.action, Action.ONCE)
        # It does not half-close, perhaps within a file (CLI-30).
        self.assertTrue(flood.is_cancelled)

    def test_who_half_closes_drops_them(self):
        flood, stream = self.open()
        self.wait_until_it_stands(flood)
        self.assertIsNotNone(stream.finish(0.2))


if __name__ == "__main__":
    unittest.main()
