"""What goes wrong, by what to do about it: Retryable (later), Refused (not so), EpochBehind (upload again)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

_DETAILS = "grpc-status-details-bin"
_DOMAIN = "kerf"


class Error(Exception):
    """Of kerf. `reason` is one of docs/spec/protocol.md, or empty; `request_id` finds the call in the servers' logs."""

    def __init__(self, message: str, *, reason: str = "", code: str = "", server: str = "", worker: str = "",
                 request_id: str = "", delay_s: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = code
        self.server = server
        self.worker = worker
        self.request_id = request_id
        self.delay_s = delay_s


class Retryable(Error):
    """It may go well later, or elsewhere. The client has tried for `retry_for_s` already."""


class Refused(Error):
    """It will not go well by itself: a bug, a setting, a right that is missing, or something that an operator must mend."""


class Disagreement(Refused):
    """Twice a server has answered chunks that are not the bytes that were sent (COL-10)."""


class StoreError(Refused):
    """What the store says cannot be true, or read: nothing may go on (COL-5)."""


class DamagedPlan(StoreError):
    """Agents stop (COL-5); a collector takes it for the worst (COL-43, COL-44). One of a newer version is none (CLI-28)."""


class Cancelled(Error):
    """Somebody has asked for it."""


class EpochBehind(Error):
    """A collection has raised the store's epoch: upload again, all of it. With `is_set_back` that helps nothing: the
    store's epoch is what it was, and a collection has to run first (COL-24)."""

    def __init__(self, message: str, *, is_set_back: bool = False, reason: str = "EPOCH_BEHIND", code: str = "",
                 server: str = "", request_id: str = "") -> None:
        super().__init__(message, reason=reason, code=code, server=server, request_id=request_id)
        self.is_set_back = is_set_back


class ChunksLost(Retryable):
    """A collection took chunks that the snapshot references: it was withdrawn. Upload its files again."""

    def __init__(self, digests: Sequence[bytes]) -> None:
        super().__init__(f"a collection has taken {len(digests)} chunks of the snapshot; it was withdrawn")
        self.digests = tuple(digests)


class Action(enum.Enum):
    """What a client does about a call that failed."""

    RETRY = "again, elsewhere if there is one"
    ONCE = "again, once"
    FINAL = "not again"
    BEHIND = "read the epoch, and begin with the verdicts"


CONTENT_MISMATCH = "CONTENT_MISMATCH"
# docs/spec/protocol.md, Errors. What does not stand here is final.
_BY_REASON = {
    "EPOCH_BEHIND": Action.BEHIND, CONTENT_MISMATCH: Action.ONCE, "INTERNAL": Action.ONCE,
    **dict.fromkeys((
        "TOO_MANY_UNCOMMITTED_CHUNKS", "TOO_MANY_UNCOMMITTED_FILES", "TOO_MANY_STREAMS", "NO_WORKER", "WORKER_UNREACHABLE",
        "TOO_MANY_CALLS", "MEMORY_EXHAUSTED", "DRAINING", "OPEN_TIMEOUT", "IDLE_TIMEOUT", "IDLE_EVICTED", "READ_STALLED",
        "INDEX_UNAVAILABLE", "INDEX_FULL", "AUDIT_UNAVAILABLE"), Action.RETRY),
}
# A status without details is gRPC's own, or a proxy's: these say that a connection broke, or was too slow. By the code alone:
# each implementation has texts of its own.
_BY_CODE = {
    grpc.StatusCode.UNAVAILABLE: Action.RETRY, grpc.StatusCode.CANCELLED: Action.RETRY,
    grpc.StatusCode.INTERNAL: Action.RETRY, grpc.StatusCode.UNKNOWN: Action.RETRY,
    grpc.StatusCode.DEADLINE_EXCEEDED: Action.RETRY, grpc.StatusCode.ABORTED: Action.RETRY,
}
# Which worker to do without for a while: docs/spec/routing.md, "Workers that a client avoids".
AVOIDED = frozenset(("AUDIT_UNAVAILABLE", "INDEX_UNAVAILABLE", "WORKER_UNREACHABLE"))


class Failure:
    """A call that failed, and what follows."""

    def __init__(self, action: Action, text: str, *, code: str = "", reason: str = "", server: str = "", worker: str = "",
                 request_id: str = "", delay_s: float | None = None, is_silence: bool = False) -> None:
        self.action = action
        self.text = text
        self.code = code
        self.reason = reason
        self.server = server
        self.worker = worker
        self.request_id = request_id
        self.delay_s = delay_s
        # The server owed an answer, and said nothing for too long.
        self.is_silence = is_silence

    def final(self) -> Failure:
        """The same, and not to be tried again."""
        return Failure(Action.FINAL, self.text, code=self.code, reason=self.reason, server=self.server, worker=self.worker,
                       request_id=self.request_id)

    def error(self, note: str = "") -> Error:
        """What the caller is told of it, once nothing more is tried."""
        text = f"{self.server}: {self.text}" if self.server else self.text
        if self.reason:
            text = f"{text} ({self.reason}, request {self.request_id})"
        if note:
            text = f"{text}; {note}"
        if self.action is Action.BEHIND:
            return EpochBehind(text, code=self.code, server=self.server, request_id=self.request_id)
        kind = Refused if self.action is Action.FINAL else Retryable
        return kind(text, reason=self.reason, code=self.code, server=self.server, worker=self.worker,
                    request_id=self.request_id, delay_s=self.delay_s)


def failure_of(error: grpc.RpcError, server: str = "") -> Failure:
    """Of a call that gRPC says has failed."""
    code: grpc.StatusCode = error.code()
    text: str = error.details() or code.name
    info, delay_s = _details(error)
    if info is None:
        return Failure(_BY_CODE.get(code, Action.FINAL), text, code=code.name, server=server)
    action = _BY_REASON.get(info.reason, Action.FINAL)
    if info.reason == "QUOTA_EXCEEDED" and delay_s is not None:
        action = Action.RETRY
    return Failure(action, text, code=code.name, reason=info.reason, server=server, worker=info.metadata.get("worker", ""),
                   request_id=info.metadata.get("request_id", ""), delay_s=delay_s)


def _details(error: grpc.RpcError) -> tuple[error_details_pb2.ErrorInfo | None, float | None]:
    trailers: Any = error.trailing_metadata() or ()
    packed = next((value for key, value in trailers if key == _DETAILS), None)
    if packed is None:
        return None, None
    try:
        status = status_pb2.Status.FromString(packed)
    except Exception:  # protobuf's own class differs between its implementations.
        return None, None
    found, delay_s = None, None
    for detail in status.details:
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info) and info.domain == _DOMAIN:
            found = info
        elif detail.Unpack(retry):
            delay_s = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    return found, delay_s
