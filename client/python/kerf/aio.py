"""kerf for asyncio: the same client, its uploads in threads of their own, so that the loop never waits.

    client = kerf.aio.open(["localhost:7461"], "home", store)
    recipe = await client.upload(reader, key)

Readers and the callbacks of the store may be coroutines; they run in the loop. Whoever cancels an await ends what runs.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

from kerf import client as blocking
from kerf.channel import Tls, Token
from kerf.collect import Collected
from kerf.errors import Cancelled
from kerf.file import Reader
from kerf.patience import Cancellation
from kerf.recipe import Recipe
from kerf.store import Store

_T = TypeVar("_T")
# How soon a thread notices that its loop has ended, and nobody will answer it.
_LOOK_S = 5.0


class AsyncReader(Protocol):
    """As asyncio.StreamReader."""

    def read(self, size: int, /) -> Awaitable[bytes]: ...


class _InLoop:
    """An object whose coroutines are functions, for threads beside the loop."""

    def __init__(self, inner: object, loop: asyncio.AbstractEventLoop, cancellation: Cancellation | None = None) -> None:
        self._inner = inner
        self._loop = loop
        self._cancellation = cancellation

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._called(found) if inspect.iscoroutinefunction(found) else found

    def _called(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            future = asyncio.run_coroutine_threadsafe(function(*arguments), self._loop)
            if self._cancellation is None:
                return self._result(future)
            with self._cancellation.calling(future.cancel):
                try:
                    return self._result(future)
                except concurrent.futures.CancelledError:
                    self._cancellation.check()
                    raise

        return call

    def _result(self, future: concurrent.futures.Future[Any]) -> Any:
        while True:
            try:
                return future.result(_LOOK_S)
            except TimeoutError:
                if future.done():
                    # That of the callback, or it has come meanwhile.
                    return future.result()
                if self._loop.is_closed():
                    raise Cancelled("the loop has ended, and a callback with it") from None


def open(servers: str | Sequence[str], repository: str, store: object, *, profile: str = "mincdc-8k",  # noqa: A001
         digest: str = "blake3", tls: Tls | None = None, token: Token | None = None, direct: bool = False, streams: int = 4,
         retry_for_s: float = 300.0, silence_s: float = 120.0, late_for_s: float = 15.0, window_bytes: int = 4 << 20,
         commit_bytes: int = 16 << 20, agent: str = "") -> Client:
    """As kerf.open, in a loop that runs. `store`: a kerf.Store, or one whose callbacks are coroutines."""
    loop = asyncio.get_running_loop()
    inner = blocking.open(servers, repository, cast(Store, _InLoop(store, loop)), profile=profile, digest=digest, tls=tls, token=token,
                          direct=direct, streams=streams, retry_for_s=retry_for_s, silence_s=silence_s, late_for_s=late_for_s,
                          window_bytes=window_bytes, commit_bytes=commit_bytes, agent=agent)
    return Client(inner, loop, streams)


class Client:
    """Of one loop."""

    def __init__(self, inner: blocking.Client, loop: asyncio.AbstractEventLoop, streams: int) -> None:
        self._inner = inner
        self._loop = loop
        # A collection and a snapshot have a thread beside those of the streams.
        self._threads = concurrent.futures.ThreadPoolExecutor(streams + 2, thread_name_prefix="kerf")

    @property
    def warnings(self) -> list[str]:
        return self._inner.warnings

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.close()

    async def upload(self, reader: Reader | AsyncReader | bytes, key: bytes, *, size_hint: int = 0) -> Recipe:
        cancellation = Cancellation()
        source = reader if isinstance(reader, bytes) else cast(Reader, _InLoop(reader, self._loop, cancellation))
        return await self._run(functools.partial(self._inner.upload, source, key, size_hint=size_hint,
                                                 cancellation=cancellation), cancellation)

    async def reuse(self, recipe: Recipe) -> Recipe | None:
        return await self._run(functools.partial(self._inner.reuse, recipe))

    async def snapshot(self, name: str, recipes: Iterable[Recipe]) -> None:
        await self._run(functools.partial(self._inner.snapshot, name, recipes))

    async def collect(self, roots: Callable[[], Iterable[bytes]]) -> Collected:
        """`roots` runs in a thread."""
        cancellation = Cancellation()
        return await self._run(functools.partial(self._inner.collect, roots, cancellation=cancellation), cancellation)

    async def close(self) -> None:
        await self._run(self._inner.close)
        self._threads.shutdown(wait=False)

    async def _run(self, call: Callable[[], _T], cancellation: Cancellation | None = None) -> _T:
        """Who is cancelled waits until the thread has ended: it may be in the store's callbacks."""
        running = self._threads.submit(call)
        future = asyncio.wrap_future(running, loop=self._loop)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if cancellation is not None:
                cancellation.cancel()
            # What has not begun does not begin.
            if not running.cancel():
                await asyncio.wait([future])
                if not future.cancelled():
                    future.exception()
            raise
