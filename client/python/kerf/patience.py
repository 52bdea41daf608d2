"""When a call that failed is made again, where, and for how long (docs/spec/protocol.md, Resume)."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator

from kerf.channel import Address
from kerf.errors import Action, Cancelled, Failure

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 20.0


class Cancellation:
    """Ends what it was given to, from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._listeners: list[Callable[[], object]] = []

    def cancel(self) -> None:
        self._event.set()
        for listener in list(self._listeners):
            listener()

    @property
    def is_cancelled(self) -> bool:
        return self._event.is_set()

    def check(self) -> None:
        if self._event.is_set():
            raise Cancelled("cancelled")

    def sleep(self, seconds: float) -> None:
        self._event.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def calling(self, listener: Callable[[], object]) -> Iterator[None]:
        """Within, `cancel` calls it, and so does this where that was earlier."""
        self._listeners.append(listener)
        try:
            if self._event.is_set():
                listener()
            yield
        finally:
            self._listeners.remove(listener)


class Servers:
    """Of a client: tried in their order, from the one that served last."""

    def __init__(self, addresses: list[Address]) -> None:
        self.addresses = addresses
        # Whether any has answered yet: who has met nobody waits for nobody, for an address may be mistyped.
        self.is_met = False
        self.first_index = 0


class Patience:
    """Of one upload, or one call."""

    def __init__(self, servers: Servers, retry_for_s: float, cancellation: Cancellation) -> None:
        self._servers = servers
        self._retry_for_s = retry_for_s
        self._cancellation = cancellation
        self._index = servers.first_index
        self._tries = 0
        self._failing_since: float | None = None
        self._once: set[str] = set()

    @property
    def server(self) -> Address:
        return self._servers.addresses[self._index % len(self._servers.addresses)]

    def progress(self) -> None:
        """A chunk was answered, or a call was."""
        self._tries = 0
        self._failing_since = None

    def met(self) -> None:
        """The server has answered: what follows begins with it."""
        self._servers.is_met = True
        self._servers.first_index = self._index

    def next(self, failure: Failure) -> None:
        """Waits, and goes on to the next server; raises what failed where there is no more to try. Time counts from the
        first failure behind the last answer: what the reader or the store took is not the server's."""
        if failure.reason:
            # Only a kerfd has a reason.
            self._servers.is_met = True
        self.allow(failure)
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        self._tries += 1
        if not self._servers.is_met and self._tries >= len(self._servers.addresses):
            raise failure.error("no server has answered yet")
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (self._tries - 1)) * random.uniform(0.5, 1.0)
        wait_s = max(wait_s, failure.delay_s or 0.0)
        if not self._servers.is_met:
            # Each address is tried once, and nobody is waited for (CLI-15).
            wait_s = 0.0
        if now + wait_s - self._failing_since > self._retry_for_s:
            raise failure.error(f"given up after {now - self._failing_since:.0f} s")
        self._index += 1
        self._cancellation.sleep(wait_s)

    def allow(self, failure: Failure) -> None:
        """Raises what is not to be tried again."""
        if failure.action in (Action.FINAL, Action.BEHIND):
            raise failure.error()
        if failure.action is Action.ONCE:
            kind = failure.reason
            if kind in self._once:
                raise failure.final().error("for the second time")
            self._once.add(kind)
