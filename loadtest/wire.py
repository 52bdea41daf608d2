"""The messages of kerf.v1 and what gRPC needs to call it, made from proto/ when the program starts.

protoc describes the files; the classes are made from that description, so that no generated code is
kept that could be older than the files.
"""

import functools
import json
import os
import pathlib

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import descriptions

# As large as the largest answer (docs/spec/protocol.md) and some room.
MAX_ANSWER_BYTES = 4 * 1024 * 1024
# Of a name that several fronts have, each stream goes to the next one.
SERVICE_CONFIG = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})


def message_classes():
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptions.describe()).file
    pool = descriptor_pool.DescriptorPool()
    return message_factory.GetMessageClassesForFiles([file.name for file in files], _filled(pool, files))


def _filled(pool, files):
    for file in files:
        pool.Add(file)
    return pool


_classes = message_classes()
_v1 = {name.removeprefix("kerf.v1."): cls for name, cls in _classes.items() if name.startswith("kerf.v1.")}
UploadRequest, UploadResponse, CommitEntry = _v1["UploadRequest"], _v1["UploadResponse"], _v1["CommitEntry"]
UploadFrame = _v1["UploadFrame"]
IndexEntry = _v1["IndexEntry"]
LookupChunksRequest, LookupChunksResponse = _v1["LookupChunksRequest"], _v1["LookupChunksResponse"]
_LocateRequest, _LocateResponse = _v1["LocateRequest"], _v1["LocateResponse"]
_Status, _ErrorInfo = _classes["google.rpc.Status"], _classes["google.rpc.ErrorInfo"]

NEW, DUPLICATE, UNVERIFIED = 1, 2, 3
DIGEST_ALGORITHMS = {"blake3": 1, "sha256": 2, "xxh3-128": 3}


@functools.cache
def _tls():
    """What `kerf` takes from the same variables: KERF_TLS_CA, KERF_TLS_CERT, KERF_TLS_KEY. None: in the clear."""
    texts = [pathlib.Path(path).read_bytes() if (path := os.environ.get(f"KERF_TLS_{name}")) else None
             for name in ("CA", "KEY", "CERT")]
    return grpc.ssl_channel_credentials(*texts) if any(texts) else None


@functools.cache
def channel(address):
    """One connection to each address for all users of a process."""
    options = [("grpc.max_receive_message_length", MAX_ANSWER_BYTES), ("grpc.max_reconnect_backoff_ms", 2000),
               ("grpc.service_config", SERVICE_CONFIG)]
    if address.startswith("unix:") or _tls() is None:
        return grpc.insecure_channel(address, options=options)
    if name := os.environ.get("KERF_TLS_NAME"):
        options.append(("grpc.ssl_target_name_override", name))
    return grpc.secure_channel(address, _tls(), options=options)


def upload(address, requests, metadata):
    call = channel(address).stream_stream(
        "/kerf.v1.ChunkingService/Upload", request_serializer=UploadRequest.SerializeToString,
        response_deserializer=UploadResponse.FromString)
    return call(requests, metadata=metadata)


def lookup_chunks(address, request, metadata, timeout_s):
    call = channel(address).unary_unary(
        "/kerf.v1.IndexService/LookupChunks", request_serializer=LookupChunksRequest.SerializeToString,
        response_deserializer=LookupChunksResponse.FromString)
    return call(request, metadata=metadata, timeout=timeout_s)


def index_call(address, name, timeout_s, **fields):
    """Any call of the Index service, by its name."""
    request, response = _v1[f"{name}Request"], _v1[f"{name}Response"]
    call = channel(address).unary_unary(
        f"/kerf.v1.IndexService/{name}", request_serializer=request.SerializeToString,
        response_deserializer=response.FromString)
    return call(request(**fields), timeout=timeout_s)


def locate(address, shard_key, timeout_s):
    """The name of the worker that has the key, as the front at `address` sees it."""
    call = channel(address).unary_unary(
        "/kerf.v1.RoutingService/Locate", request_serializer=_LocateRequest.SerializeToString,
        response_deserializer=_LocateResponse.FromString)
    return call(_LocateRequest(shard_key=shard_key), timeout=timeout_s).worker


def error_reason(error):
    """kerf's reason (docs/spec/protocol.md) for the end of a call; empty where gRPC itself ended it."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in _Status.FromString(value).details:
                if detail.type_url.endswith("/google.rpc.ErrorInfo"):
                    return _ErrorInfo.FromString(detail.value).reason
    return ""
