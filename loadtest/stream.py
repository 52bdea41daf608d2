"""One Upload stream of one agent: sends files, reads and judges answers, commits, fires events.

The agent's greenlet sends; a greenlet of the stream reads. Neither ever waits for the other's side of
the wire: commits are sent before data, and data waits while too much is on its way.
"""

import collections
import time

import gevent
import gevent.event
import grpc
import xxhash

import checks
import wire

# Messages of data that wait for gRPC to take them.
MAX_QUEUED_MESSAGES = 4
# Chunks that are answered and not committed; far below what a server must allow (4,096).
MAX_PENDING_CHUNKS = 2048
MAX_UNDONE_FILES = 200
# Bytes that are sent and not answered, of each file at most, kept for the judge.
MAX_UNANSWERED_BYTES = 32 * 1024 * 1024
RETRIED = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED,
           grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}


class Lost(Exception):
    """The stream is gone; `is_final`: another one would fare no better."""

    def __init__(self, text, is_final=False):
        super().__init__(text)
        self.is_final = is_final


def milliseconds(since):
    return (time.perf_counter() - since) * 1000


class Stream:
    def __init__(self, agent, address):
        self.agent, self.settings, self.ledger = agent, agent.settings, agent.ledger
        self.address = address
        self._commits, self._data = collections.deque(), collections.deque()
        self._is_closed = False
        self._something_to_send = gevent.event.Event()
        self._moved = gevent.event.Event()
        self._last_moved = self._opened_at = time.perf_counter()
        self._bounds = None
        self._files = {}
        self._count = 0
        # Digests to commit -> length, then the commits that are not answered: (when, digests).
        self._to_commit = {}
        self._unanswered_commits = collections.deque()
        self._committed = set()
        self._pending_count = 0
        self._is_draining = False
        self._end = None
        self._call = wire.upload(address, self._requests(), agent.metadata)
        self._reader = gevent.spawn(self._read)

    # What the agent's greenlet calls.

    def open(self):
        """Sends Open and waits for its answer."""
        request = wire.UploadRequest()
        settings = self.settings
        request.frames.add().open.MergeFrom(wire.UploadFrame(open={
            "repository": self.agent.repository, "profile": settings.target.profile,
            "digest_algorithm": wire.DIGEST_ALGORITHMS[settings.target.digest],
            "store_epoch": 1, "agent": "kerf load test"}).open)
        self._put(request)
        self._wait(lambda: self._bounds is not None)

    def send(self, transfer, break_at=None):
        """Sends what is not durable of one file. At the offset `break_at` the stream is cut off."""
        self._wait(lambda: self._pending_count < MAX_PENDING_CHUNKS and len(self._files) < MAX_UNDONE_FILES)
        self._count += 1
        judge = checks.FileJudge(self._count, transfer, self._bounds, self.settings.target.digest, self.ledger)
        transfer.first_begun = transfer.first_begun or judge.begun
        self._files[self._count] = judge
        size, hasher = transfer.content.size, xxhash.xxh3_128()
        request = wire.UploadRequest()
        begin = request.frames.add().file_begin
        begin.file_key, begin.size_hint_bytes = f"{self.agent.name}/{transfer.name}".encode(), size
        begin.start_offset = transfer.durable
        while judge.sent < size:
            self._wait(lambda: self._pending_count < MAX_PENDING_CHUNKS
                       and judge.sent - judge.answered < MAX_UNANSWERED_BYTES)
            data = transfer.content.read(judge.sent, min(size, judge.sent + self.settings.stream.slice_bytes))
            hasher.update(data)
            request.frames.add().data = data
            judge.send(data)
            if judge.sent < size:
                self._put(request)
                request = wire.UploadRequest()
            if break_at is not None and judge.sent >= break_at:
                self.break_off()
        end = request.frames.add().file_end
        end.size_bytes, end.content_hash = size, hasher.digest()
        judge.has_ended = True
        self._put(request)
        self._commit_if_due()

    def break_off(self):
        """As a cable that is pulled; raises Lost."""
        self.agent.count("streams broken on purpose")
        self._call.cancel()
        self._wait(lambda: False)

    def finish(self):
        """Waits until all files are done and the stream has ended well."""
        self._wait(lambda: not self._files and not self._unanswered_commits and not self._to_commit)
        self._close()
        self._reader.join(timeout=self.settings.stream.stall_s)
        if isinstance(self._end, Exception):
            raise self._end

    def abandon(self):
        """Whatever happened, nothing of the stream is left behind."""
        self._call.cancel()
        self._close()
        self._reader.join(timeout=self.settings.stream.stall_s)

    def _put(self, request):
        self._wait(lambda: len(self._data) < MAX_QUEUED_MESSAGES)
        self._data.append(request)
        self._something_to_send.set()

    def _wait(self, condition):
        """Until it holds; raises what ended the stream, or Lost when nothing moves for too long."""
        while self._end is None and (self._is_draining or not condition()):
            self._moved.clear()
            idle_s = time.perf_counter() - self._last_moved
            if idle_s > self.settings.stream.stall_s:
                self._call.cancel()
                raise Lost(f"{self.address}: nothing moved for {idle_s:.0f} s", is_final=True)
            self._moved.wait(timeout=1)
        if self._end is not None:
            raise self._end

    # What gRPC and the reader call.

    def _requests(self):
        while True:
            if self._commits or self._data:
                request = (self._commits or self._data).popleft()
                self._has_moved()
                yield request
            elif self._is_closed:
                return
            else:
                self._something_to_send.clear()
                self._something_to_send.wait()

    def _has_moved(self):
        self._last_moved = time.perf_counter()
        self._moved.set()

    def _close(self):
        self._is_closed = True
        self._something_to_send.set()

    def _read(self):
        try:
            for response in self._call:
                for answer in response.answers:
                    self._take(answer)
                self._commit_if_due()
                self._has_moved()
            self._end = Lost(f"{self.address}: the stream ended with OK before its files were done",
                             is_final=True) if self._files else "well"
        except grpc.RpcError as error:
            reason = wire.error_reason(error)
            self._end = Lost(f"{self.address}: {error.code().name} {reason or error.details()}",
                             is_final=error.code() not in RETRIED)
        except Exception as error:  # A wrong answer, or a mistake of this program: the agent raises it.
            self._call.cancel()
            self._end = error
        finally:
            self._close()
            self._moved.set()

    def _take(self, answer):
        kind = answer.WhichOneof("answer")
        if kind == "opened":
            checks.require(self._bounds is None, "opened", "Opened came twice")
            self._bounds = checks.Bounds(answer.opened.profile)
            self.agent.fire("open", milliseconds(self._opened_at))
            return
        checks.require(self._bounds is not None, "opened", f"{kind} came before Opened")
        if kind == "chunks":
            self._take_chunks(answer.chunks)
        elif kind == "committed":
            self._take_committed(answer.committed)
        elif kind == "file_done":
            self._take_done(answer.file_done)
        elif kind == "go_away":
            self._take_go_away(answer.go_away)
        else:
            raise checks.WrongAnswer("unknown answer", "an answer without content")

    def _judge(self, number):
        checks.require(number in self._files, "file number", f"an answer for file {number}, which is not open")
        return self._files[number]

    def _take_chunks(self, chunks):
        judge = self._judge(chunks.file_number)
        before = [file for number, file in self._files.items() if number < chunks.file_number]
        checks.require(all(file.answered == file.transfer.content.size for file in before), "order",
                       f"chunks of {judge.name()} before all those of the files before it")
        if judge.answered == judge.start and chunks.chunks:
            self.agent.fire("first answer", milliseconds(judge.begun))
            if self.agent.lost_at is not None:
                self.agent.fire("resume", milliseconds(self.agent.lost_at))
                self.agent.timeline.count("streams resumed", 1)
                self.agent.lost_at = None
        for chunk in chunks.chunks:
            length = judge.chunk(chunk)
            self.agent.count("chunks")
            self.agent.timeline.count("answered bytes", length)
            if chunk.verdict != wire.DUPLICATE:
                self._pending_count += 1
                self._to_commit[chunk.digest] = length

    def _commit_if_due(self):
        """Commits when enough is stored, or nothing more can be answered before more is sent."""
        if not self._to_commit:
            return
        is_all_answered = all(file.has_ended and file.answered == file.sent for file in self._files.values())
        if not (is_all_answered or self._is_draining or len(self._to_commit) >= self.settings.stream.commit_chunks):
            return
        while self._to_commit:
            digests = list(self._to_commit)[:self.settings.stream.commit_chunks]
            request = wire.UploadRequest()
            entries = request.frames.add().commit.entries
            for digest in digests:
                entries.add(digest=digest, locator=self.ledger.commit_sent(digest, self._to_commit.pop(digest)))
            self._unanswered_commits.append((time.perf_counter(), digests))
            self._commits.append(request)
        self._something_to_send.set()

    def _take_committed(self, committed):
        checks.require(self._unanswered_commits, "committed", "Committed without a Commit")
        sent_at, digests = self._unanswered_commits.popleft()
        checks.require(committed.entry_count == len(digests), "committed",
                       f"{committed.entry_count} entries of a Commit of {len(digests)}")
        now = time.perf_counter()
        for digest in digests:
            self.ledger.commit_answered(digest, now)
        self._committed.update(digests)
        for progress in committed.files:
            self._judge(progress.file_number).progress(progress.durable_offset, self._committed)
        just_committed = set(digests)
        for judge in self._files.values():
            judge.resolve(just_committed)
        self._pending_count = sum(len(judge.waiting) for judge in self._files.values())
        self.agent.fire("commit", milliseconds(sent_at))

    def _take_done(self, done):
        judge = self._judge(done.file_number)
        judge.done(done, self._committed)
        del self._files[done.file_number]
        transfer = judge.transfer
        self.ledger.keep_recipe(transfer.recipe())
        self.agent.count("bytes", judge.sent - judge.start)
        self.agent.count("new bytes", judge.new_bytes)
        self.agent.fire("whole file", milliseconds(transfer.first_begun), transfer.content.size)

    def _take_go_away(self, go_away):
        for progress in go_away.files:
            self._judge(progress.file_number).progress(progress.durable_offset, self._committed)
        # What is sent now is dropped; what is answered is committed, and then this side ends.
        self._is_draining = True
        self._data.clear()
        self._commit_if_due()
        gevent.spawn(self._close_when_committed)

    def _close_when_committed(self):
        deadline = time.perf_counter() + self.settings.stream.stall_s
        while self._unanswered_commits and self._end is None and time.perf_counter() < deadline:
            gevent.sleep(0.02)
        self._close()

    def files_were_lost(self):
        """What the files of a lost stream know for the next one."""
        for judge in self._files.values():
            judge.resolve(set())
            judge.transfer.stream_was_lost()
