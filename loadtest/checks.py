"""The judge of kerfd's answers: each is compared with the bytes that were sent, with what was answered
before, and with what was committed. The first that does not hold raises WrongAnswer."""

import hashlib
import time

import blake3
import xxhash

import wire

HASHES = {"blake3": lambda data: blake3.blake3(data).digest(), "sha256": lambda data: hashlib.sha256(data).digest(),
          "xxh3-128": lambda data: xxhash.xxh3_128_digest(data)}


class WrongAnswer(Exception):
    """`kind` is the name of the event, behind "WRONG: "."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def require(condition, kind, text):
    if not condition:
        raise WrongAnswer(kind, text)


class Bounds:
    """How long a chunk may be, of a profile in its canonical form."""

    def __init__(self, profile):
        algorithm, _, rest = profile.partition(":")
        pairs = dict(pair.split("=") for pair in rest.partition("+")[0].split(","))
        self.longest = int(pairs["size"] if algorithm == "fixed" else pairs["max"])
        # Of all chunks of a file but the last one.
        self.shortest = int(pairs.get("size") or pairs.get("min") or 1)
        # With a criterion the cuts depend on what was stored before.
        self.cuts_are_fixed = "+" not in profile


class FileJudge:
    """One file on one stream. The stream tells it what is sent; it judges what comes back."""

    def __init__(self, number, transfer, bounds, digest, ledger):
        self.number = number
        self.transfer = transfer
        self.start = self.answered = self.sent = transfer.durable
        self.begun = time.perf_counter()
        self.has_ended = False
        self.chunk_count = self.new_chunk_count = self.new_bytes = 0
        self._bounds, self._hash, self._ledger = bounds, HASHES[digest], ledger
        # What was sent and is not answered yet.
        self._window = bytearray()
        # (end offset, digest) of chunks that are not known to be durable.
        self.waiting = []
        self._told = transfer.durable

    def name(self):
        return f"file {self.number} ({self.transfer.name}, {self.transfer.content.size} bytes)"

    def send(self, data):
        self._window += data
        self.sent += len(data)

    def chunk(self, chunk):
        """Judges the next chunk; returns its length."""
        begin, end, bounds = self.answered, chunk.end_offset, self._bounds
        where = f"{self.name()}, chunk from {begin} to {end}"
        require(end > begin, "overlap", f"{where}: it ends where nothing is left to answer")
        require(end <= self.sent, "beyond data", f"{where}: only {self.sent} bytes were sent")
        length = end - begin
        require(length <= bounds.longest, "bounds", f"{where}: longer than {bounds.longest} bytes")
        is_last = self.has_ended and end == self.transfer.content.size
        require(length >= bounds.shortest or is_last, "bounds", f"{where}: shorter than {bounds.shortest} bytes")
        data = bytes(memoryview(self._window)[:length])
        require(chunk.digest == self._hash(data), "digest", f"{where}: not the digest of these bytes")
        require(chunk.check == xxhash.xxh3_64_intdigest(data), "check", f"{where}: not the XXH3-64 of these bytes")
        expected = self.transfer.answered_before.get(begin)
        require(expected in (None, end) or not bounds.cuts_are_fixed, "cuts",
                f"{where}: an earlier stream was answered an end at {expected}")
        self._verdict(chunk, length, where)
        del self._window[:length]
        self.answered = end
        self.chunk_count += 1
        self.transfer.add_chunk(begin, end, chunk.digest)
        return length

    def _verdict(self, chunk, length, where):
        if chunk.verdict == wire.NEW:
            require(not chunk.locator, "verdict", f"{where}: NEW with a locator")
            require(not self._ledger.was_committed_before(chunk.digest, self.begun), "forgotten",
                    f"{where}: NEW, but its commit was answered before the file began")
        else:
            require(chunk.verdict in (wire.DUPLICATE, wire.UNVERIFIED), "verdict", f"{where}: {chunk.verdict}")
            problem = self._ledger.explain(chunk.digest, length, chunk.locator)
            require(problem is None, "duplicate of nothing", f"{where}: {problem}")
        if chunk.verdict != wire.DUPLICATE:
            self.waiting.append((chunk.end_offset, chunk.digest))
            self.new_chunk_count += 1
            self.new_bytes += length

    def resolve(self, digests):
        """A Committed has come for these."""
        self.waiting = [chunk for chunk in self.waiting if chunk[1] not in digests]
        self.transfer.move_durable(self._durable(self.waiting))

    def _durable(self, waiting):
        """The end of the chunk before the first that waits."""
        return self.transfer.begin_of(waiting[0][0]) if waiting else self.answered

    def progress(self, durable_offset, sent_digests):
        """Judges a durable offset. `sent_digests`: of all commits that the stream has sent."""
        where = f"{self.name()}: durable offset {durable_offset}"
        require(durable_offset >= self._told, "durable offset", f"{where} after {self._told}")
        most = self._durable([chunk for chunk in self.waiting if chunk[1] not in sent_digests])
        require(durable_offset <= most, "durable offset", f"{where}, but behind {most} chunks are not committed")
        require(durable_offset == self.start or self.transfer.begins_or_ends_at(durable_offset), "durable offset",
                f"{where} is no end of a chunk")
        self._told = durable_offset

    def done(self, done, sent_digests):
        where = f"FileDone of {self.name()}"
        size = self.transfer.content.size
        require(self.has_ended, "file done", f"{where} before its FileEnd")
        require(self.answered == size, "gap", f"{where}: its chunks end at {self.answered}")
        require(all(digest in sent_digests for _, digest in self.waiting), "file done",
                f"{where}, but chunks were not committed")
        told = (done.size_bytes, done.chunk_count, done.new_chunk_count, done.new_bytes)
        counted = (size, self.chunk_count, self.new_chunk_count, self.new_bytes)
        require(told == counted, "file done", f"{where}: (size, chunks, new chunks, new bytes) {told}, not {counted}")
        ends = self.transfer.ends()
        if self._bounds.cuts_are_fixed:
            require(not self._ledger.other_cuts(self.transfer.content, ends), "cuts",
                    f"{where}: the same bytes were cut otherwise before")
        self.transfer.finish()


class Transfer:
    """One file on its way to be done, over as many streams as that takes."""

    def __init__(self, name, content):
        self.name = name
        self.content = content
        self.durable = 0
        self.is_done = False
        self.first_begun = None
        # begin -> end, of chunks that streams before were answered behind the durable offset.
        self.answered_before = {}
        # [begin, end, digest], in order, without gap.
        self._chunks = []
        self._begins = {}

    def add_chunk(self, begin, end, digest):
        self._begins[end] = begin
        self._chunks.append((begin, end, digest))

    def begin_of(self, end):
        return self._begins[end]

    def begins_or_ends_at(self, offset):
        return offset in self._begins

    def move_durable(self, offset):
        self.durable = max(self.durable, offset)

    def stream_was_lost(self):
        """What was answered behind the durable offset is answered again, and alike."""
        self.answered_before |= {begin: end for begin, end, _ in self._chunks if begin >= self.durable}
        self._chunks = [chunk for chunk in self._chunks if chunk[1] <= self.durable]
        self._begins = {end: begin for begin, end, _ in self._chunks}

    def ends(self):
        return [end for _, end, _ in self._chunks]

    def finish(self):
        self.is_done = True
        self.durable = self.content.size

    def recipe(self):
        return [(digest, end - begin) for begin, end, digest in self._chunks]
