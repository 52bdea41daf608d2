"""Which worker a stream goes to: the shard key, workers to avoid, and the way past a front (docs/spec/routing.md)."""

from __future__ import annotations

from typing import NamedTuple

import grpc
import xxhash

from kerf.channel import Address, Proof
from kerf.errors import AVOIDED, Failure, Refused
from kerf.v1 import routing_pb2 as pb

_LOCATE = "/kerf.v1.RoutingService/Locate"
# A front looks at so many.
_MAX_AVOIDED = 8
# Of a certificate (routing.proto), and of a worker (ROU-7).
_MAX_NAME_BYTES = 253
REACH_S = 3.0
# Of a stream past the front that is silent the front is asked again this often.
ASK_AGAIN_S = 5.0


def shard_key(repository: str, lane: int) -> str:
    named = f"{repository}\0lane {lane}".encode()
    return f"{xxhash.xxh3_64_intdigest(named):016x}"


class Located(NamedTuple):
    address: Address
    # Of whom its certificate has to be; empty: of its address' host.
    name: str


class Place(NamedTuple):
    """Where a stream goes."""

    address: Address
    # Of a worker past its front: as in Located.
    worker_name: str | None = None

    @property
    def is_past_front(self) -> bool:
        return self.worker_name is not None


class Route:
    """Of one lane."""

    def __init__(self, repository: str, lane: int, proof: Proof, *, is_direct: bool) -> None:
        self.key = shard_key(repository, lane)
        self._proof = proof
        self._is_direct = is_direct
        self._avoided: list[bytes] = []
        # Streams past the front that came to nothing, without a reason of kerf's, one behind the other.
        self._lost_without_word = 0
        self._is_detour = False

    def metadata(self, address: Address) -> list[tuple[str, str | bytes]]:
        found = self._proof.metadata(address)
        found.append(("kerf-shard-key", self.key))
        found += [("kerf-avoid-worker-bin", worker) for worker in self._avoided]
        return found

    def choose(self, server: Address) -> Place:
        """Where the next stream goes: through the server, unless it is a front that names a worker which can be reached."""
        if not self._is_direct:
            return Place(server)
        if self._is_detour:
            self._is_detour = False
            return Place(server)
        located = self.locate(server)
        if located is None or not _means_the_same_here(located.address, server) or not self._can_be_reached(located):
            return Place(server)
        return Place(located.address, located.name)

    def locate(self, server: Address) -> Located | None:
        """What the front says. None: go through the server, which may be the worker itself."""
        request = pb.LocateRequest(shard_key=self.key, avoid=self._avoided)
        with self._proof.channel(server) as channel:
            ask = channel.unary_unary(_LOCATE, request_serializer=pb.LocateRequest.SerializeToString,
                                      response_deserializer=pb.LocateResponse.FromString)
            try:
                answer = ask(request, timeout=REACH_S, metadata=tuple(self._proof.metadata(server)))
                located = Located(Address.parse(answer.address), answer.tls_name)
                return located if len(located.name) <= _MAX_NAME_BYTES else None
            except (grpc.RpcError, ValueError):
                return None

    def _can_be_reached(self, there: Located) -> bool:
        """Also whether its certificate is of whom the front says, or else of the host of its address."""
        try:
            # A token that may not be shown there is shown to the front.
            self._proof.metadata(there.address)
        except Refused:
            return False
        channel = self._proof.channel(there.address, worker_name=there.name)
        try:
            grpc.channel_ready_future(channel).result(timeout=REACH_S)
            return True
        except grpc.FutureTimeoutError:
            return False
        finally:
            channel.close()

    def moved_away(self, server: Address, worker: Address) -> bool:
        """Whether another worker has the key by now."""
        located = self.locate(server)
        return located is not None and located.address != worker

    # What became of streams.

    def answered(self) -> None:
        self._avoided.clear()
        self._lost_without_word = 0

    def lost(self, failure: Failure, worker: str, *, is_direct: bool, was_opened: bool, was_answered: bool) -> None:
        name = (failure.worker or worker).encode()
        # A longer one no worker has, and with it no server would take the call.
        is_name = 0 < len(name) <= _MAX_NAME_BYTES
        if is_name and (failure.reason in AVOIDED or failure.is_silence) and name not in self._avoided:
            self._avoided = [*self._avoided, name][-_MAX_AVOIDED:]
        if not is_direct or failure.reason or was_answered:
            self._lost_without_word = 0
            return
        self._lost_without_word += 1
        if not was_opened or self._lost_without_word >= 2:
            self._is_detour = True
            self._lost_without_word = 0


def _means_the_same_here(address: Address, server: Address) -> bool:
    """A front may name addresses that mean another machine here than there."""
    if address.is_unix:
        return server.is_unix
    if address.is_loopback:
        return server.is_unix or server.is_loopback
    return True

