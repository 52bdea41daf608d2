"""Chunks of one stream that the index does not know yet, and the frames that tell it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from kerf.index import batches
from kerf.store import Stored
from kerf.v1 import chunking_pb2 as pb

# Of one frame that is not data: docs/spec/protocol.md, Bounds.
MAX_FRAME_BYTES = 448 * 1024
# Tags and lengths of one entry, and some more.
_ENTRY_OVERHEAD_BYTES = 16


class Uncommitted:
    """Of one stream."""

    def __init__(self) -> None:
        self.pending: dict[bytes, Stored] = {}
        self.pending_bytes = 0
        # Commit frames that were sent, in their order: Committed comes in the same.
        self._sent: deque[list[Stored]] = deque()
        self._sent_count = 0
        self._stale: list[tuple[bytes, bytes]] = []

    @property
    def count(self) -> int:
        """As the server may count them, or more."""
        return len(self.pending) + self._sent_count

    @property
    def is_answer_owed(self) -> bool:
        return bool(self._sent)

    @property
    def is_empty(self) -> bool:
        return not self.pending and not self._sent

    def add(self, place: Stored) -> None:
        if place.digest not in self.pending:
            self.pending_bytes += place.length
        self.pending[place.digest] = place

    def add_stale(self, digest: bytes, locator: bytes) -> None:
        self._stale.append((digest, locator))

    def frames(self, limits: pb.Limits) -> Iterator[pb.UploadFrame]:
        """To be sent once all is durable. What is stale comes before its Commit (COL-16)."""
        widest = 64 + max((len(digest) for digest in self.pending), default=0) + _ENTRY_OVERHEAD_BYTES
        size = max(1, min(limits.max_commit_entries, min(MAX_FRAME_BYTES, limits.max_message_bytes // 2) // widest))
        for stale in batches(self._stale, size):
            entries = [pb.CommitEntry(digest=digest, locator=locator) for digest, locator in stale]
            yield pb.UploadFrame(report_stale=pb.ReportStale(entries=entries))
        self._stale.clear()
        for batch in batches(list(self.pending.values()), size):
            self._sent.append(batch)
            self._sent_count += len(batch)
            entries = [pb.CommitEntry(digest=place.digest, locator=place.locator) for place in batch]
            yield pb.UploadFrame(commit=pb.Commit(entries=entries))
        self.pending.clear()
        self.pending_bytes = 0

    def committed(self) -> bool:
        """One Commit was answered; whether there was one."""
        if not self._sent:
            return False
        self._sent_count -= len(self._sent.popleft())
        return True

    def all(self) -> dict[bytes, Stored]:
        """What a lost stream leaves: a Commit that was not answered counts as not written (COL-25)."""
        found = {place.digest: place for batch in self._sent for place in batch}
        return {**found, **self.pending}
