"""The client: open, upload, snapshot, collect."""

from __future__ import annotations

import io
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType

from kerf import digests
from kerf.channel import Address, Proof, Tls, Token
from kerf.collect import Collected, Collector
from kerf.errors import ChunksLost, EpochBehind
from kerf.file import File, Reader
from kerf.index import Index
from kerf.keeper import Keeper, wanted_by
from kerf.lane import Lane, Settings
from kerf.patience import Cancellation, Servers
from kerf.recipe import Recipe, Seen, encode
from kerf.routing import shard_key
from kerf.store import CollectedStore, Store, View, as_collected
from kerf.version import VERSION

_REPOSITORY = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MAX_KEY_BYTES = 4096
# An upload that collections come in between of is begun again so often.
_ROUNDS = 3


def open(servers: str | Sequence[str], repository: str, store: Store, *, profile: str = "mincdc-8k",  # noqa: A001
         digest: str = "blake3", tls: Tls | None = None, token: Token | None = None, direct: bool = False, streams: int = 4,
         retry_for_s: float = 300.0, silence_s: float = 120.0, late_for_s: float = 15.0, window_bytes: int = 4 << 20,
         commit_bytes: int = 16 << 20, agent: str = "") -> Client:
    """A client of these kerfd (HOST:PORT or unix:PATH), of which each is as good as the others. Nothing is asked yet."""
    addresses = [Address.parse(server) for server in ([servers] if isinstance(servers, str) else servers)]
    if not addresses:
        raise ValueError("a client needs a server")
    if not _REPOSITORY.fullmatch(repository):
        raise ValueError(f"'{repository}' is no repository: 1 to 64 of [A-Za-z0-9._-]")
    if getattr(store, "digest_name", digest) != digest:
        raise ValueError(f"the store has digests of {getattr(store, 'digest_name')}, not of {digest}")
    if streams < 1:
        raise ValueError("a client needs a stream")
    proof = Proof(tls, token)
    for address in addresses:
        proof.check(address)
    settings = Settings(
        repository=repository, profile=profile, algorithm=digests.algorithm(digest), proof=proof, is_direct=direct,
        agent=(agent or f"kerf-python/{VERSION} {socket.gethostname()}")[:128], retry_for_s=retry_for_s, silence_s=silence_s,
        late_for_s=late_for_s, window_bytes=window_bytes, commit_bytes=commit_bytes)
    return Client(settings, Servers(addresses), store, streams)


class Client:
    """Of one store. Any number of threads may call; `streams` uploads run at a time."""

    def __init__(self, settings: Settings, servers: Servers, store: Store, streams: int) -> None:
        as_collected(store)
        self._settings = settings
        self._store = store
        self._keeper = Keeper(store)
        # What a caller should read, and need not stop for.
        self.warnings: list[str] = []
        self._index = Index(servers, settings.proof, settings.repository, settings.algorithm.number,
                            shard_key(settings.repository, 0))
        self._lanes = [Lane(settings, self._keeper, servers, self._index, number, self.warnings) for number in range(streams)]
        self._free = list(reversed(self._lanes))
        self._changed = threading.Condition()
        self._view: View | None = None
        self._is_closed = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def upload(self, reader: Reader | bytes, key: bytes, *, size_hint: int = 0,
               cancellation: Cancellation | None = None) -> Recipe:
        """The recipe of what `reader` reads to its end. When this returns, all its chunks are durable in the store. `key`
        is the file's name, the same for each of its versions.

        If a collection comes in between, all of it is begun again, which needs a reader that seeks; else EpochBehind."""
        if len(key) > _MAX_KEY_BYTES:
            raise ValueError(f"a key has at most {_MAX_KEY_BYTES} bytes")
        source: Reader = io.BytesIO(reader) if isinstance(reader, bytes) else reader
        begin = source.tell() if _seeks(source) else None  # type: ignore[attr-defined]
        cancellation = cancellation or Cancellation()
        for is_last in (*[False] * (_ROUNDS - 1), True):
            with self._lane(cancellation) as lane:
                view = self._current_view()
                try:
                    recipe = lane.upload(File(source, key, size_hint), view, cancellation)
                    if recipe.is_overtaken:
                        self._leave(view)
                    return recipe
                except EpochBehind as error:
                    self._renew(view, error)
                    if begin is None or is_last:
                        raise
                    source.seek(begin)  # type: ignore[attr-defined]
        raise AssertionError("not reached")

    def reuse(self, recipe: Recipe) -> Recipe | None:
        """A file of a checked snapshot that has not changed, unread. None if not all of its chunks are in the store to
        stay: upload it (COL-18)."""
        view = self._current_view()
        if any(self._keeper.find(view, digest, length) is None for digest, length in wanted_by([recipe]).items()):
            return None
        return replace(recipe, seen=view.seen, new_chunks=0, new_bytes=0, untold_chunks=0, index_epoch=0)

    def snapshot(self, name: str, recipes: Iterable[Recipe]) -> None:
        """Publishes these files, durably, unless a collection has taken a chunk of them (ChunksLost): then upload them
        again. All of COL-26 to COL-32."""
        store = self._collected("snapshots")
        whole = list(recipes)
        self._keeper.sync()
        with self._keeper.lock:
            store.publish(name, encode(whole))
        try:
            view = self._keeper.view()
            if any(recipe.seen != view.seen or recipe.seen.has_plan or recipe.is_overtaken for recipe in whole):
                lost = self._keeper.lost(view, wanted_by(whole))
                if lost:
                    raise ChunksLost(lost)
        except BaseException as error:
            self._withdraw(store, name, error)
            raise
        else:
            with self._keeper.lock:
                store.confirm(name)
        finally:
            # The next snapshot begins with COL-2.
            with self._changed:
                self._view = None

    def _withdraw(self, store: CollectedStore, name: str, why: BaseException) -> None:
        """Also where it could not be looked: its name is free then for the next try."""
        try:
            with self._keeper.lock:
                store.withdraw(name)
        except Exception as failure:
            why.add_note(f"snapshot {name} could not be withdrawn: {failure}")

    def collect(self, roots: Callable[[], Iterable[bytes]], *, cancellation: Cancellation | None = None) -> Collected:
        """Deletes the chunks that nobody references. `roots` is called twice: it reads anew all that is published, pending
        snapshots before others, makes that durable, and gives the digests that they reference; what it cannot read it
        raises (COL-45 to COL-47)."""
        store = self._collected("collections")
        return Collector(store, self._index, self._settings.algorithm.size_bytes, self._keeper.lock, self._settings.retry_for_s,
                         cancellation or Cancellation()).run(roots)

    def close(self) -> None:
        """Ends the streams. Uploads that run are waited for."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: len(self._free) == len(self._lanes))
        for lane in self._lanes:
            lane.close()

    def _collected(self, what: str) -> CollectedStore:
        store = as_collected(self._store)
        if store is None:
            raise TypeError(f"{what} need a store that is collected: kerf.CollectedStore")
        return store

    @contextmanager
    def _lane(self, cancellation: Cancellation) -> Iterator[Lane]:
        with cancellation.calling(self._wake), self._changed:
            self._changed.wait_for(lambda: self._free or self._is_closed or cancellation.is_cancelled)
            if self._is_closed:
                raise ValueError("the client is closed")
            cancellation.check()
            lane = self._free.pop()
        try:
            yield lane
        finally:
            with self._changed:
                self._free.append(lane)
                self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _current_view(self) -> View:
        """COL-2: read before the first stream, and held for all of one snapshot (COL-6)."""
        with self._changed:
            if self._view is None:
                self._view = self._keeper.view()
            return self._view

    def _leave(self, behind: View) -> None:
        """COL-81: the next upload begins with COL-2, in the epoch that it finds."""
        with self._changed:
            if self._view is behind:
                self._view = None

    def _renew(self, behind: View, error: EpochBehind) -> None:
        """COL-23, COL-24: never by an epoch that anybody but the store names."""
        with self._changed:
            fresh = self._keeper.view()
            self._view = fresh
        if fresh.epoch == behind.epoch:
            error.is_set_back = True
            raise EpochBehind(f"{error}; the store's epoch is {fresh.epoch} as before: a collection has to run",
                              is_set_back=True, code=error.code, server=error.server, request_id=error.request_id) from error


def _seeks(source: Reader) -> bool:
    seekable = getattr(source, "seekable", None)
    return seekable is not None and bool(seekable())


__all__ = ["Client", "Seen", "open"]
