"""An Upload call, frame by frame: what no client sends that keeps the rules."""

import itertools
import os
import queue

import grpc
import xxhash
from google.rpc import error_details_pb2, status_pb2
from kerf.v1 import chunking_pb2 as pb, index_pb2

_METHOD = "/kerf.v1.ChunkingService/Upload"
_DETAILS = "grpc-status-details-bin"
# A guard against a hang, not a measure.
TIMEOUT_S = 60
_MESSAGE_BYTES = 256 << 10
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0), ("grpc.max_send_message_length", -1)]
_AGENT = "runbooks"


class Ended(Exception):
    """The stream has ended before what was waited for."""

    def __init__(self, reason, message, metadata):
        super().__init__(f"{reason}: {message}")
        self.reason, self.message, self.metadata = reason, message, metadata


def ended(error):
    """Of a grpc.RpcError; the code where it is not kerf's own."""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS:
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info) and info.domain == "kerf":
                    return Ended(info.reason, error.details(), dict(info.metadata))
    return Ended(error.code().name, error.details(), {})


class Upload:
    """One stream, open unless `profile` is None."""

    def __init__(self, address, profile="fixed-8k", *, epoch=1, repository="tests", metadata=()):
        self._channel = grpc.insecure_channel(address, _OPTIONS)
        self._requests = queue.Queue()
        call = self._channel.stream_stream(_METHOD, request_serializer=None, response_deserializer=pb.UploadResponse.FromString)
        self._call = call(iter(self._requests.get, None), timeout=TIMEOUT_S, metadata=metadata)
        self._answers = itertools.chain.from_iterable(response.answers for response in self._call)
        if profile is not None:
            self.send(open=pb.Open(repository=repository, profile=profile, digest_algorithm=pb.DIGEST_ALGORITHM_BLAKE3,
                                   store_epoch=epoch, agent=_AGENT))

    def send_bytes(self, message):
        self._requests.put(message)

    def send(self, **frame):
        self.send_bytes(pb.UploadRequest(frames=[pb.UploadFrame(**frame)]).SerializeToString())

    def babble(self):
        """A sign of life, which means nothing else."""
        self.send_bytes(pb.UploadRequest().SerializeToString())

    def begin(self, start_offset=0, key=b"file"):
        self.send(file_begin=pb.FileBegin(file_key=key, start_offset=start_offset))

    def data(self, data):
        for at in range(0, len(data), _MESSAGE_BYTES):
            self.send(data=data[at:at + _MESSAGE_BYTES])

    def finish(self, data, size=None, content=None):
        """file_end, true unless it is told otherwise."""
        self.send(file_end=pb.FileEnd(size_bytes=len(data) if size is None else size,
                                      content_hash=xxhash.xxh3_128_digest(data if content is None else content)))

    def close(self):
        self._requests.put(None)

    def answers(self):
        """Each answer; raises Ended where the stream ends with an error."""
        try:
            yield from self._answers
        except grpc.RpcError as error:
            raise ended(error) from None

    def until(self, what):
        """The first answer that has it."""
        for answer in self.answers():
            if answer.WhichOneof("answer") == what:
                return getattr(answer, what)
        raise Ended("OK", "the stream ended well", {})

    def end(self):
        """How it ends, if nobody does anything more: Ended."""
        try:
            for _ in self.answers():
                pass
        except Ended as error:
            return error
        return Ended("OK", "", {})

    def commit_until_done(self, key=b"file"):
        """Commits what is answered NEW or UNVERIFIED, until the file is done."""
        for answer in self.answers():
            if answer.HasField("file_done"):
                return
            digests = [chunk.digest for chunk in answer.chunks.chunks if chunk.verdict != pb.VERDICT_DUPLICATE]
            if digests:
                self.send(commit=pb.Commit(entries=[pb.CommitEntry(digest=digest, locator=key) for digest in digests]))

    def cancel(self):
        self._call.cancel()
        self.close()
        self._channel.close()


def whole(address, *, profile="fixed-8k", data=None, **options):
    """How an upload ends that keeps all rules: of some bytes that nobody has seen."""
    data = os.urandom(100_000) if data is None else data
    upload = Upload(address, profile, **options)
    try:
        upload.begin()
        upload.data(data)
        upload.finish(data)
        upload.commit_until_done()
        upload.close()
        return upload.end().reason
    except Ended as error:
        return error.reason
    finally:
        upload.cancel()


def call(address, method, request=None):
    """A call that is no upload, under way: about the repository of the streams above."""
    channel = grpc.insecure_channel(address, _OPTIONS)
    reference = index_pb2.RepositoryRef(repository="tests", digest_algorithm=pb.DIGEST_ALGORITHM_BLAKE3)
    request = request or index_pb2.GetIndexStatsRequest(repository=reference)
    made = channel.unary_unary(f"/{method}", request_serializer=lambda message: message.SerializeToString(),
                               response_deserializer=None).future(request, timeout=TIMEOUT_S)
    # Whoever waits for the call holds its channel, too.
    made.channel = channel
    return made


def end_of_call(made):
    """How it ends: Ended."""
    try:
        made.result()
        return Ended("OK", "", {})
    except grpc.RpcError as error:
        return ended(error)
    finally:
        made.channel.close()
