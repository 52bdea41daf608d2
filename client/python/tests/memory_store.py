"""The kit's store in memory (client/conformance), as a kerf.CollectedStore."""

import contextlib

import kerf
from kit_store import KitStore, StoreFailed


class MemoryStore(KitStore):
    @contextlib.contextmanager
    def lock(self):
        try:
            self.take_lock()
        except StoreFailed as error:
            raise kerf.Retryable("locked") from error
        try:
            yield
        finally:
            self.give_lock()

    def confirm(self, name):
        try:
            super().confirm(name)
        except StoreFailed as error:
            raise kerf.StoreError(str(error)) from error

    def roots(self):
        for body in self.bodies():
            for recipe in kerf.decode(body):
                for chunk in recipe.chunks:
                    yield chunk.digest

    # What tests do.

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
