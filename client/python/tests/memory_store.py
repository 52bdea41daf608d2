"""A store in memory for tests: what was not synced is lost by a power cut, and all that is asked of it is written down."""

import contextlib
import itertools

import kerf


class MemoryStore:
    """A kerf.CollectedStore. `log` is shared with the fake server, so that a test sees what came before what; `before` is
    called with each event, and may raise, or do what another process would do just then."""

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

    # kerf.Store.

    def put(self, digest, data):
        self._event("put")
        locator = b"place-%d" % next(self._names)
        self.volatile[locator] = (digest, bytes(data))
        return locator

    def has(self, digest):
        self._event("has")
        return [locator for locator, (other, _) in self.content.items() if other == digest]

    def sync(self):
        self._event("sync")
        self.content.update(self.volatile)
        self.volatile.clear()
        self.names_at_risk.clear()

    # kerf.CollectedStore.

    def epoch(self):
        self._event("epoch")
        return self.current_epoch

    def raise_epoch(self, epoch):
        self._event(f"raise {epoch}")
        assert epoch > self.current_epoch, "COL-1"
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

    @contextlib.contextmanager
    def lock(self):
        self._event("lock")
        if self.is_locked:
            raise kerf.Retryable("locked")
        self.is_locked = True
        try:
            yield
        finally:
            self.is_locked = False
            self._event("unlock")

    def chunks(self):
        self._event("chunks")
        return [kerf.Stored(digest, len(data), locator) for locator, (digest, data) in list(self.content.items())]

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
            raise kerf.StoreError(f"{name} is not pending any more")
        self.snapshots[name] = self.pending.pop(name)

    # What tests do.

    def roots(self):
        self._event("roots")
        for body in (*self.pending.values(), *self.snapshots.values()):
            for recipe in kerf.decode(body):
                for chunk in recipe.chunks:
                    yield chunk.digest

    def add(self, digest, data):
        """By another agent, who may die before its name is durable."""
        locator = b"other-%d" % next(self._names)
        self.content[locator] = (digest, data)
        self.names_at_risk.add(locator)
        return locator

    def is_durable(self, digest, locator):
        return self.content.get(locator, (None,))[0] == digest and locator not in self.names_at_risk

    def restore(self, recipe):
        by_digest = dict(self.content.values())
        return b"".join(by_digest[chunk.digest] for chunk in recipe.chunks)

    def restore_snapshot(self, name):
        return {recipe.key: self.restore(recipe) for recipe in kerf.decode(self.snapshots[name])}


class BareStore:
    """A kerf.Store that is never collected."""

    def __init__(self):
        self._inner = MemoryStore()
        self.log = self._inner.log
        self.put, self.has, self.sync = self._inner.put, self._inner.has, self._inner.sync
        self.restore = self._inner.restore
