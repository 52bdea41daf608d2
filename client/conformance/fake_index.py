"""The index of the fake server, by the rules of docs/spec/collection.md (COL-70 to COL-79)."""

import copy
from dataclasses import dataclass, field

NEW, DUPLICATE, UNVERIFIED = 1, 2, 3


class Behind(Exception):
    """EPOCH_BEHIND."""


@dataclass
class Entry:
    length: int
    locator: bytes
    epoch: int


@dataclass
class FakeIndex:
    """Of one repository."""

    epoch: int = 0
    entries: dict = field(default_factory=dict)
    removed: int = 0
    max_entries: int = 1 << 60

    def verdict(self, digest, length, session_epoch):
        entry = self.entries.get(digest)
        if entry is None or entry.length != length:
            return NEW, b""
        is_believed = max(entry.epoch, self.epoch) >= session_epoch
        return (DUPLICATE if is_believed else UNVERIFIED), entry.locator

    def commit(self, session_epoch, entries, *, replaces):
        """(digest, length, locator) of each; how many are there behind it."""
        if session_epoch < self.epoch:
            raise Behind
        written = 0
        for digest, length, locator in entries:
            there = self.entries.get(digest)
            if there is None and len(self.entries) >= self.max_entries:
                continue
            written += 1
            if there is None or replaces or max(there.epoch, self.epoch) < session_epoch:
                self.entries[digest] = Entry(length, locator, max(session_epoch, there.epoch if there else 0))
            else:
                there.epoch = max(there.epoch, session_epoch)
        return written

    def remove(self, digests):
        gone = [digest for digest in digests if self.entries.pop(digest, None) is not None]
        self.removed += len(gone)
        return len(gone)

    def forget_older(self, before_epoch, after, limit):
        seen = sorted(digest for digest in self.entries if digest > after)[:limit]
        gone = self.remove([digest for digest in seen if self.entries[digest].epoch < before_epoch])
        return gone, (seen[-1] if len(seen) == limit else b"")

    def advance(self, epoch, min_previous):
        """The epoch that it had."""
        previous = self.epoch
        if previous < min_previous:
            return previous
        if epoch < previous:
            raise Behind
        if epoch > previous:
            self.epoch, self.removed = epoch, 0
        return previous

    def copy(self):
        """What a backup of it would bring back."""
        return copy.deepcopy(self)
