"""Calls of the Index service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from kerf.channel import Address, Proof
from kerf.errors import failure_of
from kerf.patience import Cancellation, Patience, Servers
from kerf.store import Stored
from kerf.v1 import index_pb2 as pb

_SERVICE = "/kerf.v1.IndexService/"
# A front gives a call 120 s, and kerfd its index 60.
CALL_S = 120.0
# 65,536 are allowed, and do not fit into a message with the longest locators.
ENTRIES_A_CALL = 16_384
# Of an entry of CommitChunks: the longest chunk of any profile (PRO-71).
LONGEST_CHUNK_BYTES = 4 << 20

_Answer = TypeVar("_Answer", bound=Message)
_Item = TypeVar("_Item")


def batches(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    batch: list[_Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


class Index:
    """Of one repository. All calls may be made twice, and are."""

    def __init__(self, servers: Servers, proof: Proof, repository: str, digest_algorithm: int, shard_key: str) -> None:
        self._servers = servers
        self._proof = proof
        self._shard_key = shard_key
        self._ref = pb.RepositoryRef(repository=repository, digest_algorithm=digest_algorithm)  # type: ignore[arg-type]

    def commit(self, epoch: int, places: Iterable[Stored], retry_for_s: float, cancellation: Cancellation) -> None:
        for batch in batches(places, ENTRIES_A_CALL):
            request = pb.CommitChunksRequest(repository=self._ref, store_epoch=epoch, entries=[
                pb.IndexEntry(digest=place.digest, length_bytes=place.length, locator=place.locator) for place in batch])
            self._call("CommitChunks", request, pb.CommitChunksResponse, retry_for_s, cancellation)

    def stats(self, retry_for_s: float, cancellation: Cancellation) -> pb.GetIndexStatsResponse:
        return self._call("GetIndexStats", pb.GetIndexStatsRequest(repository=self._ref), pb.GetIndexStatsResponse,
                          retry_for_s, cancellation)

    def forget(self, digests: list[bytes], retry_for_s: float, cancellation: Cancellation) -> pb.ForgetChunksResponse:
        """Whatever their locators are (COL-52); at most ENTRIES_A_CALL."""
        request = pb.ForgetChunksRequest(repository=self._ref, entries=[pb.IndexEntry(digest=digest) for digest in digests])
        return self._call("ForgetChunks", request, pb.ForgetChunksResponse, retry_for_s, cancellation)

    def forget_older(self, before_epoch: int, after: bytes, retry_for_s: float,
                     cancellation: Cancellation) -> pb.ForgetOlderChunksResponse:
        request = pb.ForgetOlderChunksRequest(repository=self._ref, before_epoch=before_epoch, after=after,
                                              limit=ENTRIES_A_CALL)
        return self._call("ForgetOlderChunks", request, pb.ForgetOlderChunksResponse, retry_for_s, cancellation)

    def advance(self, epoch: int, min_previous: int, retry_for_s: float, cancellation: Cancellation) -> int:
        """The epoch that it had; less than `min_previous`: it has it still."""
        request = pb.AdvanceEpochRequest(repository=self._ref, store_epoch=epoch, min_previous_epoch=min_previous)
        return self._call("AdvanceEpoch", request, pb.AdvanceEpochResponse, retry_for_s, cancellation).previous_epoch

    def _call(self, method: str, request: Message, answer: type[_Answer], retry_for_s: float,
              cancellation: Cancellation) -> _Answer:
        patience = Patience(self._servers, retry_for_s, cancellation)
        while True:
            cancellation.check()
            server: Address = patience.server
            try:
                with self._proof.channel(server) as channel:
                    call = channel.unary_unary(_SERVICE + method, request_serializer=type(request).SerializeToString,
                                               response_deserializer=answer.FromString)
                    metadata = (*self._proof.metadata(server), ("kerf-shard-key", self._shard_key))
                    pending = call.future(request, timeout=CALL_S, metadata=metadata)
                    with cancellation.calling(pending.cancel):
                        found: _Answer = pending.result()
                    patience.met()
                    return found
            except grpc.FutureCancelledError:
                cancellation.check()
                raise
            except grpc.RpcError as error:
                patience.next(failure_of(error, server.text))
