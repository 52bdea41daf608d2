"""A file under upload: what was read and not answered yet, which is all that is kept of it, and its recipe so far."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from kerf.digests import ContentHash, check_of
from kerf.errors import Refused
from kerf.recipe import Chunk


class Reader(Protocol):
    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none: it has ended."""


class _Block(NamedTuple):
    data: bytes
    # Of the bytes as they were read.
    check: int


class File:
    """Of one upload, over all its streams."""

    def __init__(self, reader: Reader, key: bytes, size_hint: int) -> None:
        self.key = key
        self.size_hint = size_hint
        self.chunks: list[Chunk] = []
        self.new_chunks = 0
        self.new_bytes = 0
        # The end of the last chunk that was answered: where another stream goes on.
        self.answered = 0
        self._reader = reader
        # Read, from `answered` on.
        self._blocks: deque[_Block] = deque()
        self._blocks_begin = 0
        self._read_end = 0
        self._is_at_end = False
        # What lies before that has waited, and may have been sent before.
        self._kept_end = 0
        self.restart()

    def restart(self) -> None:
        """Another stream begins where this one's answers ended."""
        self.start = self.sent = self.answered
        self.is_end_sent = False
        self.is_done = False
        self.content = ContentHash()
        self._kept_end = self._read_end

    @property
    def size(self) -> int:
        """Once it is known: is_end_sent, is_complete."""
        return self._read_end

    @property
    def is_complete(self) -> bool:
        """All of it was read, answered and placed."""
        return self._is_at_end and self.answered == self._read_end

    @property
    def unanswered(self) -> int:
        return self.sent - self.answered

    def next_block(self, size: int) -> bytes:
        """The next bytes to send: what another stream has lost, or what is read. None left: it has ended."""
        if self.sent == self._read_end and not self._is_at_end:
            self._read(size)
        end = min(self._read_end, self.sent + size)
        if self.sent < self._kept_end:
            self._compare_with_what_was_read(self.sent, end)
        block = self._slice(self.sent, end)
        self.sent += len(block)
        self.content.update(block)
        return block

    @property
    def is_all_sent(self) -> bool:
        return self._is_at_end and self.sent == self._read_end

    def _compare_with_what_was_read(self, begin: int, end: int) -> None:
        """CLI-39: the next stream is told the hash of what the bytes are by now, and would find nothing wrong."""
        offset = self._blocks_begin
        for block in self._blocks:
            if offset < end and offset + len(block.data) > begin and check_of(block.data) != block.check:
                raise Refused("bytes that waited to be sent again are not those that were read: memory is faulty")
            offset += len(block.data)

    def _read(self, size: int) -> None:
        """As much as that, so that a small file is one message."""
        parts: list[bytes] = []
        missing = size
        while missing > 0 and not self._is_at_end:
            data = self._reader.read(missing)
            if not isinstance(data, bytes):
                raise TypeError(f"a reader has to return bytes, not {type(data).__name__}")
            if len(data) > missing:
                raise ValueError(f"a reader was asked for {missing} bytes and returned {len(data)}")
            self._is_at_end = not data
            parts.append(data)
            missing -= len(data)
        if block := parts[0] if len(parts) == 1 else b"".join(parts):
            self._blocks.append(_Block(block, check_of(block)))
            self._read_end += len(block)

    def peek(self, end: int) -> bytes:
        """From the last cut to there."""
        return self._slice(self.answered, end)

    def _slice(self, begin: int, end: int) -> bytes:
        parts, offset = [], self._blocks_begin
        for block, _ in self._blocks:
            if offset >= end:
                break
            if offset + len(block) > begin:
                parts.append(block[max(begin - offset, 0):end - offset])
            offset += len(block)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def add(self, chunk: Chunk, *, is_new: bool) -> None:
        """It was answered, compared and placed: its bytes are the store's now."""
        self.chunks.append(chunk)
        self.new_chunks += is_new
        self.new_bytes += is_new * chunk.length
        self.answered += chunk.length
        while self._blocks and self._blocks_begin + len(self._blocks[0].data) <= self.answered:
            self._blocks_begin += len(self._blocks.popleft().data)
