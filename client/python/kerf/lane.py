"""One upload at a time, over as many streams as it takes."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

import grpc

from kerf.channel import Address, Proof
from kerf.digests import Algorithm
from kerf.errors import CONTENT_MISMATCH, Action, Disagreement, EpochBehind, Error, Failure, Refused
from kerf.file import File
from kerf.index import Index
from kerf.keeper import Keeper, Wrong, compare
from kerf.patience import Cancellation, Patience, Servers
from kerf.recipe import Chunk, Recipe
from kerf.routing import ASK_AGAIN_S, Route
from kerf.store import Stored, View
from kerf.stream import StreamEnded, UploadStream, says_something
from kerf.uncommitted import Uncommitted
from kerf.v1 import chunking_pb2 as pb

# Of one message: what a front keeps for each upload is 512 KiB.
_BLOCK_BYTES = 448 * 1024
# So that it need not commit, and sync, for every few chunks.
_LEAST_UNCOMMITTED_CHUNKS = 4_096
_LEAST_COMMIT_ENTRIES = 16
_LEAST_CHUNK_BYTES = 64
# Of all profiles (docs/spec/chunking.md): a window is three of them, and memory.
_LARGEST_CHUNK_BYTES = 4 * 1024 * 1024
_LENGTH = re.compile(r"[1-9][0-9]{0,9}")
_FINISH_S = 120.0
# What this client understands beyond release 0.1.0 (PRO-92).
FEATURES = ("index-epoch",)


@dataclass(frozen=True)
class Settings:
    """Of a client."""

    repository: str
    profile: str
    algorithm: Algorithm
    proof: Proof
    is_direct: bool
    agent: str
    retry_for_s: float
    silence_s: float
    late_for_s: float
    window_bytes: int
    commit_bytes: int


class Bounds:
    """What one stream may have under way, by its limits and its profile."""

    def __init__(self, opened: pb.Opened, settings: Settings) -> None:
        self.limits = opened.limits
        if self.limits.max_uncommitted_chunks < _LEAST_UNCOMMITTED_CHUNKS or \
                self.limits.max_commit_entries < _LEAST_COMMIT_ENTRIES:
            raise Refused(f"the server allows {self.limits.max_uncommitted_chunks} uncommitted chunks and "
                          f"{self.limits.max_commit_entries} entries of a Commit; this client needs "
                          f"{_LEAST_UNCOMMITTED_CHUNKS} and {_LEAST_COMMIT_ENTRIES}")
        self.least_chunk, largest = chunk_bounds(opened.profile)
        if largest > _LARGEST_CHUNK_BYTES:
            raise Refused(f"the server cuts chunks of up to {largest} bytes; this client takes {_LARGEST_CHUNK_BYTES}")
        self.commit_count = self.limits.max_uncommitted_chunks // 4
        self.block = min(_BLOCK_BYTES, self.limits.max_message_bytes // 2, self.commit_count * self.least_chunk)
        if self.block < 1:
            raise Refused(f"the server takes messages of {self.limits.max_message_bytes} bytes")
        # A cut may be certain only two longest chunks behind it, and the server says nothing before there are more.
        self._least_window = 3 * largest + self.block
        self.window = max(settings.window_bytes, self._least_window)

    def has_room_for_chunks(self, uncommitted: Uncommitted, file: File) -> bool:
        """Whether what is under way, and one more block, cannot become more chunks than the stream may have. With nothing
        to commit, what a cut needs is sent in any case: else it might never get on."""
        coming = (file.unanswered + self.block) // self.least_chunk + 2
        return uncommitted.count + coming <= self.limits.max_uncommitted_chunks or \
            (uncommitted.is_empty and file.unanswered + self.block <= self._least_window)


def chunk_bounds(profile: str) -> tuple[int, int]:
    """The shortest and the longest chunk of a profile in its canonical form, as docs/spec/chunking.md has it. It is a server's word:
    what is no length is passed over."""
    shortest, longest = _LEAST_CHUNK_BYTES, _LARGEST_CHUNK_BYTES
    for pair in profile.partition("+")[0].partition(":")[2].split(","):
        key, _, text = pair.partition("=")
        if not _LENGTH.fullmatch(text):
            continue
        if key in ("min", "size"):
            shortest = int(text)
        if key in ("max", "size"):
            longest = int(text)
    return shortest, longest


class Lane:
    """Of one thread at a time."""

    def __init__(self, settings: Settings, keeper: Keeper, servers: Servers, index: Index, number: int,
                 warnings: list[str]) -> None:
        self._settings = settings
        self._keeper = keeper
        self._servers = servers
        self._index = index
        self._route = Route(settings.repository, number, settings.proof, is_direct=settings.is_direct)
        self._warnings = warnings
        self._stream: UploadStream | None = None
        self._channel: grpc.Channel | None = None
        self._view: View | None = None
        # Of all its streams in that view's epoch.
        self._index_epoch = 0
        self._files_begun = 0
        self._server = Address("")
        self._worker = Address("")
        self._is_past_front = False
        self._is_opened = False
        self._was_answered = False
        self._late: dict[bytes, Stored] = {}
        self._uncommitted = Uncommitted()

    def upload(self, file: File, view: View, cancellation: Cancellation) -> Recipe:
        """EpochBehind: all of it has to be begun again, in another epoch. A stream is left open for the next file only if
        all went well."""
        patience = Patience(self._servers, self._settings.retry_for_s, cancellation)
        self._cancellation = cancellation
        try:
            if self._stream is not None and (self._view != view or not self._stream.is_idle()):
                self.close()
            with cancellation.calling(self._wake):
                while not self._is_through(file, view, patience):
                    pass
        except BaseException:
            self._drop()
            self._late.clear()
            raise
        untold, self._late = len(self._late), {}
        return Recipe(file.key, file.size, tuple(file.chunks), view.seen, file.new_chunks, file.new_bytes, untold,
                      self._index_epoch if self._view == view else 0)

    def close(self) -> None:
        """Half-closes. What the server says then is worth a warning at most: all was answered before."""
        if self._stream is not None:
            failure = self._stream.finish(_FINISH_S if self._is_opened else 0)
            if failure is not None and failure.reason == "QUOTA_EXCEEDED":
                self._warnings.append(f"the index has no room for all chunks: {failure.text}")
        self._drop()

    def _wake(self) -> None:
        if (stream := self._stream) is not None:
            stream.wake()

    def _drop(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
        if self._channel is not None:
            self._channel.close()
        self._stream = self._channel = None
        self._is_opened = False
        self._uncommitted = Uncommitted()

    # Streams, one after another.

    def _is_through(self, file: File, view: View, patience: Patience) -> bool:
        """On one stream, or without any if that is not needed any more."""
        try:
            if file.is_complete and file.chunks:
                self._keeper.sync()
                self._tell_late(view)
                return True
            if self._stream is None:
                self._open(view, patience)
            self._tell_late(view)
            self._send(file, patience)
            self._keeper.sync()
            self._tell_late(view)
            return True
        except StreamEnded as ended:
            self._lost(ended.failure, file, patience)
        except Wrong as wrong:
            failure = Failure(Action.ONCE, str(wrong), server=self._worker.text)
            try:
                self._lost(failure, file, patience)
            except Refused as error:
                raise Disagreement(str(error), server=self._worker.text) from wrong
        return False

    def _open(self, view: View, patience: Patience) -> None:
        settings = self._settings
        self._cancellation.check()
        self._server = patience.server
        place = self._route.choose(self._server)
        self._worker, self._is_past_front = place.address, place.is_past_front
        if self._is_past_front:
            patience.met()
        self._channel = settings.proof.channel(self._worker, worker_name=place.worker_name)
        self._stream = UploadStream(self._channel, self._route.metadata(self._worker), self._worker.text)
        if self._view != view:
            self._index_epoch = 0
        self._view = view
        self._is_opened = self._was_answered = False
        self._files_begun = 0
        self._busy_until = time.monotonic()
        self._stream.send(pb.UploadRequest(frames=[pb.UploadFrame(open=pb.Open(
            repository=settings.repository, profile=settings.profile,
            digest_algorithm=settings.algorithm.number,  # type: ignore[arg-type]
            store_epoch=view.epoch, agent=settings.agent, features=FEATURES))]))
        # Only then it is known how large a message may be.
        while (answer := self._stream.take()) is None or answer.WhichOneof("answer") is None:
            if answer is None:
                self._wait(for_room=False)
            else:
                # Of a later version (CLI-10).
                self._check_silence()
        if answer.WhichOneof("answer") != "opened":
            raise Wrong("the first answer of a stream is not Opened")
        self._bounds = Bounds(answer.opened, settings)
        self._stream.worker = answer.opened.worker
        self._is_opened = True
        patience.met()

    def _lost(self, failure: Failure, file: File, patience: Patience) -> None:
        """The bytes that were not answered go through another stream, the commits by a call of their own."""
        worker = self._stream.worker if self._stream is not None else ""
        self._route.lost(failure, worker, is_direct=self._is_past_front, was_opened=self._is_opened,
                         was_answered=self._was_answered)
        self._late.update(self._uncommitted.all())
        self._drop()
        # CLI-39: what was answered may be what is wrong, and is the store's by now.
        is_suspect = failure.reason == CONTENT_MISMATCH and file.answered > file.start
        file.restart()
        if is_suspect:
            raise failure.final().error("what came is not what was read, and a part of it was answered: memory may be faulty")
        if file.is_complete and file.chunks:
            self._lost_behind_the_last_chunk(failure)
            return
        patience.next(failure)

    def _lost_behind_the_last_chunk(self, failure: Failure) -> None:
        """CLI-9: the file is whole, whatever was said of it then. But what an earlier epoch was answered counts no more
        (COL-23)."""
        if failure.action is Action.BEHIND:
            raise failure.error()
        if failure.action is Action.FINAL:
            self._warnings.append(f"a stream ended behind the last chunk of a file: {failure.error()}")

    def _tell_late(self, view: View) -> None:
        """COL-34: in the epoch of the session that they were answered in. Not at all, if that does not go."""
        if not self._late:
            return
        self._keeper.sync()  # COL-19
        try:
            self._index.commit(view.epoch, self._late.values(), self._settings.late_for_s, self._cancellation)
            self._late.clear()
        except EpochBehind:
            raise
        except Error as error:
            self._cancellation.check()
            if self._stream is None or isinstance(error, Refused):
                self._warnings.append(f"the index was not told of {len(self._late)} chunks: {error}")

    # One file through one stream.

    def _send(self, file: File, patience: Patience) -> None:
        stream = self._stream
        assert stream is not None
        self._files_begun += 1
        opening = [pb.UploadFrame(file_begin=pb.FileBegin(file_key=file.key, size_hint_bytes=file.size_hint,
                                                          start_offset=file.start))]
        while not (file.is_done and self._uncommitted.is_empty):
            self._cancellation.check()
            if self._is_commit_due(file):
                self._commit(stream)
            elif (answer := stream.take()) is not None:
                answered = file.answered
                self._on_answer(answer, file)
                if not says_something(answer):
                    self._check_silence()
                    continue
                if file.answered > answered:
                    patience.progress()
                    self._route.answered()
            elif file.is_end_sent or not self._may_send(file):
                self._wait(for_room=not file.is_end_sent and not stream.has_room())
                continue
            else:
                self._send_block(stream, file, opening)
                opening = []
            # What the store, or the reader, took meanwhile is no silence of the server.
            self._busy_until = time.monotonic()

    def _may_send(self, file: File) -> bool:
        assert self._stream is not None
        return self._stream.has_room() and file.unanswered + self._bounds.block <= self._bounds.window and \
            self._bounds.has_room_for_chunks(self._uncommitted, file)

    def _send_block(self, stream: UploadStream, file: File, frames: list[pb.UploadFrame]) -> None:
        if block := file.next_block(self._bounds.block):
            frames = [*frames, pb.UploadFrame(data=block)]
        if file.is_all_sent:
            end = pb.FileEnd(size_bytes=file.size, content_hash=file.content.digest())
            frames = [*frames, pb.UploadFrame(file_end=end)]
            file.is_end_sent = True
        stream.send(pb.UploadRequest(frames=frames))

    def _is_commit_due(self, file: File) -> bool:
        uncommitted = self._uncommitted
        if not uncommitted.pending:
            return False
        return file.is_complete or uncommitted.pending_bytes >= self._settings.commit_bytes or \
            uncommitted.count >= self._bounds.commit_count or \
            not self._bounds.has_room_for_chunks(uncommitted, file)

    def _commit(self, stream: UploadStream) -> None:
        self._keeper.sync()
        for frame in self._uncommitted.frames(self._bounds.limits):
            stream.send(pb.UploadRequest(frames=[frame]))

    def _wait(self, *, for_room: bool) -> None:
        """It is only called while an answer is owed: the window is full, or the file is through."""
        stream = self._stream
        assert stream is not None
        since = max(stream.heard_at, self._busy_until)
        wait_s = ASK_AGAIN_S if self._is_past_front else 20.0
        stream.wait(max(0.05, min(wait_s, since + self._settings.silence_s - time.monotonic())), for_room)
        self._cancellation.check()
        silent_s = self._check_silence()
        if self._is_past_front and silent_s >= ASK_AGAIN_S and self._route.moved_away(self._server, self._worker):
            raise StreamEnded(Failure(Action.RETRY, "silent, and the front knows another worker by now",
                                      server=self._worker.text, is_silence=True))

    def _check_silence(self) -> float:
        """Seconds without a word from the server in which this side had nothing else to do."""
        assert self._stream is not None
        silent_s = time.monotonic() - max(self._stream.heard_at, self._busy_until)
        if silent_s >= self._settings.silence_s:
            raise StreamEnded(Failure(Action.RETRY, f"silent for {silent_s:.0f} s", server=self._worker.text, is_silence=True))
        return silent_s

    # Answers.

    def _on_answer(self, answer: pb.UploadAnswer, file: File) -> None:
        self._was_answered = True
        match answer.WhichOneof("answer"):
            case "chunks":
                self._check_file(answer.chunks.file_number)
                for chunk in answer.chunks.chunks:
                    self._on_chunk(chunk, file)
            case "committed":
                if not self._uncommitted.committed():
                    raise Wrong("Committed, and no Commit was sent")
                self._index_epoch = max(self._index_epoch, answer.committed.index_epoch)
            case "file_done":
                self._check_file(answer.file_done.file_number)
                if not file.is_end_sent or not file.is_complete or answer.file_done.size_bytes != file.size:
                    raise Wrong(f"FileDone behind {file.answered} bytes of {file.size}")
                file.is_done = True
                self._index_epoch = max(self._index_epoch, answer.file_done.index_epoch)
            case "go_away":
                raise StreamEnded(Failure(Action.RETRY, "the server stops", reason="DRAINING", server=self._worker.text))
            case "opened":
                raise Wrong("a second Opened")
            case _:
                # Of a later version, which sends nothing that its client has to understand.
                pass

    def _check_file(self, number: int) -> None:
        if number != self._files_begun:
            raise Wrong(f"an answer for file {number}; {self._files_begun} is under way")

    def _on_chunk(self, chunk: pb.Chunk, file: File) -> None:
        if not file.answered < chunk.end_offset <= file.sent:
            raise Wrong(f"a chunk from {file.answered} to {chunk.end_offset}, and {file.sent} bytes were sent")
        data = file.peek(chunk.end_offset)
        compare(chunk, data, self._settings.algorithm)
        assert self._view is not None
        place = self._keeper.place(self._view, chunk.digest, data, chunk.verdict)
        if place.is_stale:
            self._uncommitted.add_stale(chunk.digest, chunk.locator)
        if place.is_to_commit:
            self._uncommitted.add(Stored(chunk.digest, len(data), place.locator))
        file.add(Chunk(chunk.digest, len(data)), is_new=place.is_new)
