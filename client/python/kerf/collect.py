"""Collecting garbage beside uploads: the collector's part of docs/spec/collection.md, step by step.

A place (a locator) is what goes or stays: a store that keeps several chunks in one file deletes the places that it is told,
and frees their room as it likes. Nothing is moved, so COL-53 has no part here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kerf.errors import DamagedPlan, Refused, Retryable, StoreError
from kerf.index import ENTRIES_A_CALL, LONGEST_CHUNK_BYTES, Index, batches
from kerf.patience import Cancellation
from kerf.store import CollectedStore, Plan, Stored

# No store has counted so far: docs/spec/collection.md, COL-43.
LARGEST_EPOCH = 2**41
# COL-54, COL-61.
TELLINGS = 4

Roots = Callable[[], Iterable[bytes]]


@dataclass(frozen=True)
class Collected:
    """What a collection did."""

    deleted_chunks: int
    deleted_bytes: int
    kept_chunks: int
    # Else it is made whole by the next one; until then what it says is looked up in the store.
    is_index_believed: bool
    epoch: int


class _WentBack(Exception):
    """The index has another epoch than it was told."""


class Collector:
    """Of one run."""

    def __init__(self, store: CollectedStore, index: Index, digest_bytes: int, lock: AbstractContextManager[object],
                 retry_for_s: float, cancellation: Cancellation) -> None:
        self._store = store
        self._index = index
        self._digest_bytes = digest_bytes
        self._lock = lock
        self._retry_for_s = retry_for_s
        self._cancellation = cancellation
        self._plan = Plan(0)
        # As the store has it, and as the index was told last.
        self._epoch = 0
        self._told = 0
        self._fence_epoch = 0

    def run(self, roots: Roots) -> Collected:
        with self._store.lock():  # COL-40: until behind COL-57.
            try:
                return self._run(roots)
            except _WentBack as error:
                raise Retryable("the index has gone back while a collection ran; run it again") from error

    def _run(self, roots: Roots) -> Collected:
        has_plan = self._begin()
        live = self._read(roots)
        with self._lock:
            places = list(self._store.chunks())
        self._check_digests("a chunk", (place.digest for place in places))
        doomed = [place for place in places if place.digest not in live]
        if not doomed and not has_plan and not self._plan.has_gone_back:
            return Collected(0, 0, len(places), True, self._epoch)
        self._publish(doomed)
        self._fence()
        live = self._read(roots)  # COL-51: who was published before he could see the plan.
        doomed = [place for place in doomed if place.digest not in live]
        digests = sorted({place.digest for place in doomed})
        for _ in self._forgotten(digests):  # COL-52: if a call fails, nothing is deleted.
            pass
        is_believed = self._make_whole(places, doomed) if self._plan.has_gone_back else self._advance(digests, places, doomed)
        self._delete(doomed)
        return Collected(len(doomed), sum(place.length for place in doomed), len(places) - len(doomed), is_believed, self._epoch)

    # Epochs, roots, plan.

    def _begin(self) -> bool:
        """COL-43, COL-44, COL-80: the epoch from which this one counts, and whether the index is that of the store. Whether
        there is a plan of one that died."""
        with self._lock:
            epoch, body = self._store.epoch(), self._store.plan()
        index_epoch = self._index.stats(self._retry_for_s, self._cancellation).epoch
        if index_epoch > LARGEST_EPOCH:
            raise Refused(f"the index is at epoch {index_epoch}, which no store has counted to: an operator has to set it")
        last, is_damaged = epoch, False
        # Without a plan the last collection came to its end, and left the index at the store's epoch; 1 nobody was told.
        needed, has_gone_back = (epoch if epoch > 1 else 0), False
        if body is not None:
            try:
                plan = Plan.decode(body)
                last, needed, has_gone_back = plan.last_epoch, plan.needed_epoch, plan.has_gone_back
            except DamagedPlan:
                last, is_damaged = epoch + 2, True
        self._told = index_epoch
        if index_epoch < epoch and body is not None and not is_damaged and not needed > index_epoch:
            self._told = self._tell_what_died(epoch, index_epoch, has_gone_back)
        has_gone_back = has_gone_back or is_damaged or index_epoch < needed or index_epoch > epoch
        self._epoch = max(epoch, last, index_epoch)
        self._plan = Plan(0, needed, has_gone_back)
        return body is not None

    def _tell_what_died(self, epoch: int, index_epoch: int, has_gone_back: bool) -> int:
        target = epoch - 1 if has_gone_back else epoch
        if target <= index_epoch:
            return index_epoch
        if self._index.advance(target, index_epoch, self._retry_for_s, self._cancellation) < index_epoch:
            raise Retryable("the index has gone back while a collection began; run it again")
        return target

    def _read(self, roots: Roots) -> set[bytes]:
        self._cancellation.check()
        with self._lock:
            live = set(roots())
        self._check_digests("a root", live)
        return live

    def _check_digests(self, of: str, digests: Iterable[bytes]) -> None:
        """CLI-33: one in hexadecimal, say, would be a root of nothing, and all that it means garbage."""
        for digest in digests:
            if not isinstance(digest, bytes) or len(digest) != self._digest_bytes:
                raise StoreError(f"the digest of {of} is {len(digest)} of {type(digest).__name__}; this repository's are "
                                 f"{self._digest_bytes} bytes")

    def _write_plan(self, **changes: object) -> None:
        self._plan = self._plan.with_(**changes)
        with self._lock:
            self._store.write_plan(self._plan.encode())

    def _publish(self, doomed: list[Stored]) -> None:
        """COL-48."""
        self._write_plan(last_epoch=self._epoch + 2, condemned=frozenset(place.locator for place in doomed))

    def _raise_store(self) -> None:
        """COL-1: durable before anybody is told."""
        self._epoch += 1
        with self._lock:
            self._store.raise_epoch(self._epoch)

    def _tell(self, epoch: int, min_previous: int) -> None:
        previous = self._index.advance(epoch, min_previous, self._retry_for_s, self._cancellation)
        if previous < min_previous:
            raise _WentBack
        self._told = epoch

    def _fence(self) -> None:
        """COL-49: the store first, else no agent could commit if this one dies between; COL-50."""
        self._raise_store()
        if not self._plan.has_gone_back:
            try:
                self._tell(self._epoch, self._told)
                self._fence_epoch = self._epoch
                return
            except _WentBack:
                self._write_plan(has_gone_back=True, last_epoch=self._epoch + 2)
                self._told = 0
        self._fence_epoch = self._epoch
        self._raise_store()  # COL-60 (b)
        self._tell(self._fence_epoch, self._told)

    # Forgetting, and whether the index is to be believed.

    def _forgotten(self, digests: list[bytes]) -> Iterator[bool]:
        """For each call whether nothing was there, nothing was removed, and the epoch is what it was told."""
        for batch in batches(digests, ENTRIES_A_CALL):
            self._cancellation.check()
            answer = self._index.forget(batch, self._retry_for_s, self._cancellation)
            yield answer.forgotten_count == 0 and answer.removed_count == 0 and answer.epoch >= self._told

    def _advance(self, digests: list[bytes], places: list[Stored], doomed: list[Stored]) -> bool:
        """COL-54."""
        for _ in range(TELLINGS):
            self._raise_store()
            try:
                self._tell(self._epoch, self._told)
            except _WentBack:
                break
            if all(list(self._forgotten(digests))):
                return True
        self._write_plan(has_gone_back=True, last_epoch=self._epoch + 2)
        return self._make_whole(places, doomed)

    def _make_whole(self, places: list[Stored], doomed: list[Stored]) -> bool:
        """COL-60 (c) to (g), COL-61. What agents have stored meanwhile they have committed themselves."""
        # What was removed is counted from the epoch that the index is told next: that has to be a new one, and the store
        # has to be ahead of it.
        while self._epoch - 1 <= self._told:
            self._raise_store()
        self._write_plan(last_epoch=self._epoch + TELLINGS)
        try:
            self._index.commit(self._epoch, _to_tell(places, doomed), self._retry_for_s, self._cancellation)
        except Refused as error:
            # Of a full repository the rest is not believed, and is stored or found again by who needs it.
            if error.reason != "QUOTA_EXCEEDED":
                raise
        self._forget_older()
        for _ in range(TELLINGS):
            try:
                self._tell(self._epoch - 1, self._fence_epoch)
                if self._forget_older():
                    self._tell(self._epoch, self._epoch - 1)
                    return True
            except _WentBack:
                pass
            self._raise_store()
        return False

    def _forget_older(self) -> bool:
        """Whether there was nothing left to forget, and the epoch is the one that was told."""
        after, is_clean = b"", True
        while True:
            self._cancellation.check()
            answer = self._index.forget_older(self._fence_epoch, after, self._retry_for_s, self._cancellation)
            is_clean = is_clean and answer.forgotten_count == 0 and answer.removed_count == 0 and answer.epoch == self._told
            if not answer.last:
                return is_clean
            if answer.last <= after:
                raise Refused("the index goes over its entries again and again: ForgetOlderChunks has not come further")
            after = answer.last

    # Deleting.

    def _delete(self, doomed: list[Stored]) -> None:
        """COL-55 to COL-57."""
        self._write_plan(needed_epoch=self._epoch)
        for place in doomed:
            self._cancellation.check()
            with self._lock:
                self._store.delete(place)
        with self._lock:
            self._store.remove_plan()


def _to_tell(places: list[Stored], doomed: list[Stored]) -> Iterator[Stored]:
    """COL-60 (c): all that stays. Not what no chunk can be as long as, nor a chunk whose places differ in that: one of them has
    rotted, and told with a false length it would be NEW to everybody (CLI-41)."""
    gone = {place.locator for place in doomed}
    stay = [place for place in places if place.locator not in gone]
    lengths: dict[bytes, int] = {}
    for place in stay:
        lengths[place.digest] = place.length if lengths.get(place.digest, place.length) == place.length else 0
    return (place for place in stay if 0 < lengths[place.digest] <= LONGEST_CHUNK_BYTES)
