"""What becomes of an answered chunk: compared with the bytes that were sent, found in the store or put there."""

from __future__ import annotations

import threading
from typing import NamedTuple

from kerf import digests
from kerf.errors import StoreError
from kerf.recipe import Recipe
from kerf.store import Store, View, places_of, view_of
from kerf.v1 import chunking_pb2 as pb

MAX_LOCATOR_BYTES = 64


class Placement(NamedTuple):
    """Where the store has a chunk, once it has been synced."""

    locator: bytes
    # Its bytes were put; else they were there.
    is_new: bool
    # The index is to be told.
    is_to_commit: bool
    # The index was wrong about it.
    is_stale: bool


class Wrong(Exception):
    """An answer that is not of the bytes that were sent."""


def compare(chunk: pb.Chunk, data: bytes, algorithm: digests.Algorithm) -> None:
    """COL-10, whatever the verdict."""
    if chunk.check != digests.check_of(data):
        raise Wrong("the check of a chunk is not that of the bytes that were sent")
    if chunk.digest != algorithm.digest(data):
        raise Wrong("the digest of a chunk is not that of the bytes that were sent")


class Keeper:
    """The store's callbacks, of which one runs at a time, whichever lane calls."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lock = threading.RLock()
        # What was put since the last sync, by the epoch that was read before: has need not name it yet.
        self._unsynced: dict[tuple[int, bytes], bytes] = {}
        self._is_synced = True
        self._sync_error: BaseException | None = None

    def view(self) -> View:
        with self.lock:
            return view_of(self._store)

    def place(self, view: View, digest: bytes, data: bytes, verdict: int) -> Placement:
        """What the store has is believed, and of no verdict more than that the index has an entry (COL-11 to COL-16); a
        verdict that is not known is NEW."""
        is_duplicate = verdict == pb.VERDICT_DUPLICATE
        with self.lock:
            here, is_anywhere = self._find(view, digest, len(data))
            self._is_synced = False
            if here is not None:
                return Placement(here, False, not is_duplicate, False)
            locator = self._put(view, digest, data)
            is_stale = is_duplicate and not is_anywhere
            return Placement(locator, True, is_stale or not is_duplicate, is_stale)

    def find(self, view: View, digest: bytes, length: int) -> bytes | None:
        """A place that stays, by that plan; durable behind the next sync (COL-20)."""
        with self.lock:
            self._is_synced = False
            return self._find(view, digest, length)[0]

    def lost(self, view: View, wanted: dict[bytes, int]) -> list[bytes]:
        """COL-29: those of which the store has no place that stays. The rest is durable behind this."""
        gone = [digest for digest in sorted(wanted) if self.find(view, digest, wanted[digest]) is None]
        self.sync()
        return gone

    def sync(self) -> None:
        """Behind this all that was placed, or found, is durable (COL-19, COL-20)."""
        with self.lock:
            self._check()
            if not self._is_synced:
                try:
                    self._store.sync()
                except BaseException as error:
                    self._sync_error = error
                    raise
                self._unsynced.clear()
                self._is_synced = True

    def _check(self) -> None:
        """Where one sync has failed, a later one that goes well says nothing of what was put before: a file system may
        have dropped that. So nothing of it is ever committed, by no lane."""
        if self._sync_error is not None:
            raise StoreError(f"the store could not sync ({self._sync_error}): nothing more is stored by this client"
                             ) from self._sync_error

    def _find(self, view: View, digest: bytes, length: int) -> tuple[bytes | None, bool]:
        """A place that stays, and whether there is any at all."""
        self._check()
        mine = self._unsynced.get((view.epoch, digest))
        if mine is not None and view.is_safe(mine):
            return mine, True
        places = places_of(self._store, digest, length)
        return next((place for place in places if view.is_safe(place)), None), bool(places)

    def _put(self, view: View, digest: bytes, data: bytes) -> bytes:
        locator = bytes(self._store.put(digest, data))
        if not 0 < len(locator) <= MAX_LOCATOR_BYTES:
            raise ValueError(f"put has returned a locator of {len(locator)} bytes; it may have 1 to {MAX_LOCATOR_BYTES}")
        if not view.is_safe(locator):
            raise ValueError("put has returned a place that a collection has condemned; it must be a new one")
        self._unsynced[view.epoch, digest] = locator
        return locator


def wanted_by(recipes: list[Recipe]) -> dict[bytes, int]:
    """How long each chunk is."""
    return {chunk.digest: chunk.length for recipe in recipes for chunk in recipe.chunks}
