"""What a store has to do for its client: the callbacks.

A store that is never collected needs three: put, has and sync. One from which chunks are ever deleted needs the others,
too, and then nothing else may delete: docs/spec/collection.md says why. Callbacks are called by one thread at a time.
What they raise ends what was asked for, and comes to the caller as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, cast

from kerf.errors import DamagedPlan, StoreError
from kerf.recipe import Seen

FIRST_EPOCH = 1


class Stored(NamedTuple):
    """A place in which a store holds a chunk."""

    digest: bytes
    length: int
    locator: bytes


class Store(Protocol):
    """A store that is never collected."""

    def put(self, digest: bytes, data: bytes) -> bytes:
        """Stores a chunk in a new place, also where it has it already, and says where: a locator of 1 to 64 bytes. It
        need not be durable before sync."""

    def has(self, digest: bytes) -> Sequence[bytes]:
        """Where the store has the chunk *now*, by any writer: it looks, each time. What was put and not yet synced may be
        left out."""

    def sync(self) -> None:
        """Returns once all that was put, and all that `has` has named, is durable: bytes, names, directories. Raises
        if that cannot be: then what was put since the last sync counts for nothing, and the client is of no more use."""


class SizedStore(Protocol):
    """May be part of any store: what it holds in another length than the chunk's has rotted, and does not count (CLI-36)."""

    def has_of_length(self, digest: bytes, length: int) -> Sequence[bytes]:
        """As has, of places with that many bytes."""


def places_of(store: Store, digest: bytes, length: int) -> Sequence[bytes]:
    """Not by isinstance: a store may hand its callbacks on, as that of kerf.aio does."""
    of_length = getattr(store, "has_of_length", None)
    found: Sequence[bytes] = of_length(digest, length) if callable(of_length) else store.has(digest)
    return found


class CollectedStore(Store, Protocol):
    """A store of which Client.collect deletes what no snapshot needs."""

    def epoch(self) -> int:
        """1 at first; else what was raised last, read anew."""

    def raise_epoch(self, epoch: int) -> None:
        """Durably."""

    def plan(self) -> bytes | None:
        """What was written last, read anew; None if there is none. Raises if it cannot tell."""

    def write_plan(self, plan: bytes) -> None:
        """Durably, as a whole or not at all, in place of one that is there."""

    def remove_plan(self) -> None:
        """Durably."""

    def lock(self) -> AbstractContextManager[object]:
        """The collector's: held by one at a time, and free once that dies. Raises if another one has it."""

    def chunks(self) -> Iterable[Stored]:
        """All places, read anew."""

    def delete(self, place: Stored) -> None:
        """No error if it is gone."""

    def publish(self, name: str, body: bytes) -> None:
        """A pending snapshot, durably: a root for collections, invisible to restores."""

    def withdraw(self, name: str) -> None:
        """Removes a pending snapshot."""

    def confirm(self, name: str) -> None:
        """Makes a pending snapshot one in one step, durably; raises where it is not pending any more."""


_COLLECTED = ("epoch", "raise_epoch", "plan", "write_plan", "remove_plan", "lock", "chunks", "delete", "publish", "withdraw",
              "confirm")


def as_collected(store: Store) -> CollectedStore | None:
    """None: it is never collected. A store with some of the callbacks is neither."""
    here = [name for name in _COLLECTED if callable(getattr(store, name, None))]
    if not here:
        return None
    if missing := set(_COLLECTED) - set(here):
        raise TypeError(f"a store that is collected needs {', '.join(sorted(missing))}, too")
    return cast(CollectedStore, store)


@dataclass(frozen=True)
class Plan:
    """What a collection says before it deletes."""

    # Of the store once the collection is done.
    last_epoch: int
    # What the index must have at least to be believed.
    needed_epoch: int = 0
    has_gone_back: bool = False
    condemned: frozenset[bytes] = field(default_factory=frozenset)

    def encode(self) -> bytes:
        text = json.dumps({"version": 1, "last_epoch": self.last_epoch, "needed_epoch": self.needed_epoch,
                           "has_gone_back": self.has_gone_back,
                           "condemned": sorted(locator.hex() for locator in self.condemned)}).encode()
        return hashlib.sha256(text).digest() + text

    @staticmethod
    def decode(body: bytes) -> Plan:
        """StoreError for what is no plan, or is a later version's: nobody may go on then (COL-5)."""
        text = body[32:]
        if hashlib.sha256(text).digest() != body[:32]:
            raise DamagedPlan("the plan of a collection is damaged: run a collection")
        try:
            read = json.loads(text)
            if read["version"] != 1:
                raise StoreError(f"the plan is of version {read['version']}: a newer kerf wrote it")
            return Plan(read["last_epoch"], read["needed_epoch"], read["has_gone_back"],
                        frozenset(bytes.fromhex(locator) for locator in read["condemned"]))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"the plan is none of this version: {error}") from error

    def with_(self, **changes: object) -> Plan:
        return replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class View:
    """Epoch and plan, as they were read one after the other."""

    epoch: int
    condemned: frozenset[bytes] | None

    @property
    def seen(self) -> Seen:
        return Seen(self.epoch, self.condemned is not None)

    def is_safe(self, locator: bytes) -> bool:
        return not self.condemned or locator not in self.condemned


def view_of(store: Store) -> View:
    """COL-2, COL-27: the epoch first, then the plan. COL-7: 1 where nobody collects."""
    collected = as_collected(store)
    if collected is None:
        return View(FIRST_EPOCH, None)
    epoch = collected.epoch()
    if epoch < FIRST_EPOCH:
        raise StoreError(f"the store's epoch is {epoch}; the first one is {FIRST_EPOCH}")
    plan = collected.plan()
    return View(epoch, None if plan is None else Plan.decode(plan).condemned)
