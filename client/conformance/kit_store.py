"""A store in memory: what was not synced is lost by a power cut, and all that is asked of it is written down.

It is the conformance kit's, and that of the Python client's tests, which add what is kerf's own (client/python/tests).
"""

import itertools
from typing import NamedTuple


class Place(NamedTuple):
    digest: bytes
    length: int
    locator: bytes


class StoreFailed(Exception):
    """A callback cannot do what it is asked to."""


class KitStore:
    """`log` is shared with the fake server, so that who looks sees what came before what; `before` is called with each event,
    and may raise, or do what another process would do just then."""

    def __init__(self, log=None):
        self.log = [] if log is None else log
        self.before = lambda event: None
        self.content = {}  # locator: (digest, data), durable
        self.volatile = {}
        self.current_epoch = 1
        self.current_plan = None
        self.pending = {}
        self.snapshots = {}
        self.is_locked = False
        # Of others: their names are durable only once somebody has synced.
        self.names_at_risk = set()
        self._names = itertools.count(1)

    def _event(self, event):
        self.before(event)
        self.log.append(event)

    # What every store has.

    def put(self, digest, data):
        self._event("put")
        locator = b"place-%d" % next(self._names)
        self.volatile[locator] = (digest, bytes(data))
        return locator

    def has(self, digest, length=None):
        """With a length: the places that have so many bytes."""
        self._event("has")
        return [locator for locator, (other, data) in self.content.items() if other == digest and length in (None, len(data))]

    def sync(self):
        self._event("sync")
        self.content.update(self.volatile)
        self.volatile.clear()
        self.names_at_risk.clear()

    # What one has that is collected.

    def epoch(self):
        self._event("epoch")
        return self.current_epoch

    def raise_epoch(self, epoch):
        self._event(f"raise {epoch}")
        assert epoch > self.current_epoch, "COL-1: an epoch that does not rise"
        self.current_epoch = epoch

    def plan(self):
        self._event("plan")
        return self.current_plan

    def write_plan(self, plan):
        self._event("write_plan")
        self.current_plan = plan

    def remove_plan(self):
        self._event("remove_plan")
        self.current_plan = None

    def take_lock(self):
        self._event("lock")
        if self.is_locked:
            raise StoreFailed("locked")
        self.is_locked = True

    def give_lock(self):
        self.is_locked = False
        self._event("unlock")

    def chunks(self):
        self._event("chunks")
        return [Place(digest, len(data), locator) for locator, (digest, data) in list(self.content.items())]

    def delete(self, place):
        self._event("delete")
        self.content.pop(place.locator, None)

    def publish(self, name, body):
        self._event("publish")
        assert not self.volatile, "COL-26: published before its chunks are durable"
        self.pending[name] = body

    def withdraw(self, name):
        self._event("withdraw")
        self.pending.pop(name, None)

    def confirm(self, name):
        self._event("confirm")
        if name not in self.pending:
            raise StoreFailed(f"{name} is not pending any more")
        self.snapshots[name] = self.pending.pop(name)

    # What tests do.

    def bodies(self):
        """Of all roots: pending ones before others (COL-45)."""
        self._event("roots")
        return [*self.pending.values(), *self.snapshots.values()]

    def add(self, digest, data):
        """By another agent, who may die before its name is durable."""
        locator = b"other-%d" % next(self._names)
        self.content[locator] = (digest, data)
        self.names_at_risk.add(locator)
        return locator

    def remove(self, *digests):
        """As a collection does."""
        for locator in [locator for locator, (digest, _) in self.content.items() if digest in digests]:
            del self.content[locator]

    def cut_short(self, digest, left):
        """As a power cut, or a full disk, does: `left` bytes are there. The places."""
        places = [locator for locator, (other, _) in self.content.items() if other == digest]
        for locator in places:
            self.content[locator] = (digest, self.content[locator][1][:left])
        return places

    def is_durable(self, digest, locator):
        return self.content.get(locator, (None,))[0] == digest and locator not in self.names_at_risk
