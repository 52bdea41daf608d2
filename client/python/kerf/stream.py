"""One Upload call, as a queue of messages each way: no rule of the protocol is here, but that no queue grows."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import grpc

from kerf.errors import Action, Failure, failure_of
from kerf.v1 import chunking_pb2 as pb

_METHOD = "/kerf.v1.ChunkingService/Upload"
# Messages that gRPC has not taken yet.
_WAITING_MESSAGES = 2
# Bytes of answers that its thread has not taken yet, and one message more: taken apart they may cost forty times as much.
_WAITING_ANSWER_BYTES = 1 << 20


def says_something(answer: pb.UploadAnswer) -> bool:
    """CLI-42: one of a later version does not, nor one of no chunks: whoever sends only such is silent."""
    kind = answer.WhichOneof("answer")
    return kind is not None and (kind != "chunks" or len(answer.chunks.chunks) > 0)


class UploadStream:
    """Of one thread, which sends and takes answers; gRPC's own threads do the rest."""

    def __init__(self, channel: grpc.Channel, metadata: list[tuple[str, str | bytes]], server: str) -> None:
        self.server = server
        self.worker = ""
        self._changed = threading.Condition()
        self._requests: deque[bytes] = deque()
        self._answers: deque[pb.UploadAnswer] = deque()
        self._waiting_bytes = 0
        self._is_closed = False
        self._failure: Failure | None = None
        self._is_over = False
        self._is_woken = False
        self.heard_at = time.monotonic()
        upload: Any = channel.stream_stream(_METHOD, request_serializer=None,
                                            response_deserializer=None)
        self._call = upload(self._sending(), metadata=tuple(metadata))
        threading.Thread(target=self._receive, name="kerf-answers", daemon=True).start()

    def _sending(self) -> Iterator[bytes]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._requests or self._is_closed)
                if not self._requests:
                    return
                request = self._requests.popleft()
                self._changed.notify_all()
            yield request

    def _receive(self) -> None:
        failure: Failure | None = None
        try:
            for packed in self._call:
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting_bytes < _WAITING_ANSWER_BYTES or self._is_closed)
                answers = pb.UploadResponse.FromString(packed).answers
                with self._changed:
                    # What has none is never taken, and does not wait.
                    if answers and not self._is_closed:
                        self._answers.extend(answers)
                        self._waiting_bytes += len(packed)
                    if any(map(says_something, answers)):
                        self.heard_at = time.monotonic()
                    self._changed.notify_all()
        except grpc.RpcError as error:
            failure = failure_of(error, self.server)
        except Exception as error:  # An answer that is no UploadResponse; of whose class depends on protobuf's implementation.
            failure = Failure(Action.ONCE, f"an answer that cannot be read: {error}", server=self.server)
            # First: an end of the requests would half-close, perhaps within a file (CLI-30).
            self._call.cancel()
        with self._changed:
            self._failure = failure
            self._is_over = True
            self._is_closed = True
            self._requests.clear()
            self._changed.notify_all()

    # What its thread calls.

    def has_room(self) -> bool:
        return self._is_over or len(self._requests) < _WAITING_MESSAGES

    def is_idle(self) -> bool:
        """Whether nothing has come, the end included."""
        return not self._answers and not self._is_over

    def send(self, request: pb.UploadRequest) -> None:
        """Only where there is room. Nothing becomes of it once the stream has ended, which `take` then says."""
        packed = request.SerializeToString()
        with self._changed:
            if not self._is_closed:
                self._requests.append(packed)
                self._changed.notify_all()

    def take(self) -> pb.UploadAnswer | None:
        """The next answer, None if there is none yet. Raises StreamEnded behind the last one."""
        with self._changed:
            if self._answers:
                answer = self._answers.popleft()
                if not self._answers:
                    self._waiting_bytes = 0
                    self._changed.notify_all()
                return answer
            if self._is_over:
                raise StreamEnded(self._failure)
            return None

    def wait(self, timeout_s: float, for_room: bool = False) -> None:
        """Until there is something to take, or, if that is asked for, room."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._answers or self._is_over or self._is_woken or (for_room and self.has_room()), timeout_s)
            self._is_woken = False

    def wake(self) -> None:
        """Ends a wait, from any thread."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def finish(self, timeout_s: float) -> Failure | None:
        """Half-closes, and waits for the status: None is OK. Answers that still come are dropped."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_over, timeout_s)
            over, failure = self._is_over, self._failure
        self.cancel()
        return failure if over else Failure(Action.RETRY, f"no status within {timeout_s:g} s", server=self.server)

    def cancel(self) -> None:
        # First: an end of the requests would half-close, perhaps within a file.
        self._call.cancel()
        with self._changed:
            self._is_closed = True
            self._requests.clear()
            self._changed.notify_all()


class StreamEnded(Exception):
    """With `failure` None: with OK, which no stream does that was not half-closed."""

    def __init__(self, failure: Failure | None) -> None:
        super().__init__(failure.text if failure else "the stream has ended")
        self.failure = failure or Failure(Action.ONCE, "the server has ended the stream before its client did")
