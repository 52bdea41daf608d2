"""A kerfd that is none: it cuts at fixed sizes, does the same each time, and has a switch for each verdict and failure.

It also judges its client: what docs/spec forbids is a line in `violations`.
"""

import concurrent.futures
import hashlib
import pathlib
import re
import tempfile
import threading
import time
from collections import Counter

import grpc
import xxhash
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from fake_index import NEW, UNVERIFIED, Behind, FakeIndex
from kerf.v1 import chunking_pb2 as pb, index_pb2, routing_pb2

MAX_FRAME_BYTES = 448 * 1024
CHUNK_BYTES = 1024
# Between two messages of a server that babbles.
BABBLE_S = 0.02
# Of any profile.
MAX_CHUNK_BYTES = 4 << 20
MOST_FEATURES = 64
FEATURE = re.compile(r"[a-z0-9-]{1,64}")


class Abort(Exception):
    """Ends a call."""

    def __init__(self, code, reason="", *, delay_s=None, message="as it was told", **metadata):
        super().__init__(message)
        self.code, self.reason, self.delay_s, self.metadata = code, reason, delay_s, metadata

    def trailers(self, request_id):
        if not self.reason:
            return ()
        details = [any_pb2.Any()]
        details[0].Pack(error_details_pb2.ErrorInfo(reason=self.reason, domain="kerf",
                                                    metadata={"request_id": request_id, **self.metadata}))
        if self.delay_s is not None:
            delay = duration_pb2.Duration(seconds=int(self.delay_s), nanos=int(self.delay_s % 1 * 1e9))
            details.append(any_pb2.Any())
            details[1].Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        status = status_pb2.Status(code=self.code.value[0], message=str(self), details=details)
        return (("grpc-status-details-bin", status.SerializeToString()),)


def fail(code, reason="", **options):
    """A fault: the call ends so."""
    def act(_):
        raise Abort(getattr(grpc.StatusCode, code), reason, **options)
    return act


def kill(_):
    """A fault: the connection breaks."""
    raise Abort(grpc.StatusCode.UNAVAILABLE)


def go_away(stream):
    """A fault: the server stops."""
    stream.go_away()


def silence(stream):
    """A fault: nothing more is said."""
    stream.is_silent = True


def babble(*answers):
    """A fault: nothing more is said, in one message after the other of these answers."""
    def act(stream):
        stream.is_silent = True
        stream.babble = answers
    return act


class Fake:
    """`faults`: {(event, n): what happens at the n-th such event, from 1}. Events: open, opened, data, chunks, end, commit,
    committed (it is carried out, and not answered yet), report, half_close, and the calls of the Index service by their names. `change(chunk)` may change an answer, or return None."""

    def __init__(self, log=None, address=None, *, chunk_bytes=CHUNK_BYTES, worker="fake-worker"):
        self.worker = worker
        self.chunk_bytes = chunk_bytes
        self.is_closed = False
        self.lock = threading.RLock()
        self.reset(log)
        self._folder = tempfile.TemporaryDirectory(prefix="kerf-fake-")
        self.address = address or f"unix:{pathlib.Path(self._folder.name) / 'socket'}"
        self._threads = concurrent.futures.ThreadPoolExecutor(64)
        self._server = grpc.server(self._threads, options=[
            ("grpc.max_receive_message_length", (4 << 20) + (64 << 10)), ("grpc.http2.min_ping_interval_without_data_ms", 5000)])
        self._server.add_generic_rpc_handlers((self._handlers(),))
        port = self._server.add_insecure_port(self.address)
        if self.address.endswith(":0"):
            self.address = f"{self.address.removesuffix(':0')}:{port}"
        self._server.start()

    def reset(self, log=None):
        """As if it had just been started, at the same address."""
        self.log = [] if log is None else log
        self.violations = []
        self.faults = {}
        self.counts = Counter()
        self.opens = []
        self.metadata = []
        self.commits = []
        self.reports = []
        self.late_commits = []
        self.index = FakeIndex()
        # So much is there before the first chunk of it is answered: the longest, and twice as much behind it.
        self.lag_bytes = 3 * self.chunk_bytes
        self.limits = pb.Limits(max_message_bytes=4 << 20, max_uncommitted_chunks=65_536, max_uncommitted_files=16_384,
                                max_commit_entries=4_096)
        self.verdict = lambda digest, verdict: verdict
        self.change = lambda chunk: chunk
        self.change_done = lambda done: done
        self.change_committed = lambda committed: committed
        # One of 0.1.0 does not.
        self.tells_epoch = True
        self.is_durable = lambda digest, locator: True
        self.most_unanswered_bytes = 0
        # What Locate says: an address; None: this server has no such service.
        self.located = None

    def close(self):
        if self.is_closed:
            return
        self.is_closed = True
        self._server.stop(0).wait()
        self._threads.shutdown(wait=False)
        self._folder.cleanup()

    def event(self, name, stream=None):
        with self.lock:
            self.counts[name] += 1
            act = self.faults.get((name, self.counts[name]))
        if act is not None:
            act(stream)

    def told_epoch(self):
        return self.index.epoch if self.tells_epoch else 0

    def violation(self, text):
        self.violations.append(text)

    def _handlers(self):
        def of(service, **methods):
            return grpc.method_handlers_generic_handler(service, methods)

        def unary(name, call, module):
            request = getattr(module, f"{name}Request")
            return grpc.unary_unary_rpc_method_handler(
                lambda message, context: self._unary(name, call, message, context), request_deserializer=request.FromString,
                response_serializer=getattr(module, f"{name}Response").SerializeToString)

        calls = {name: unary(name, getattr(self, f"_{name}"), index_pb2) for name in (
            "GetIndexStats", "CommitChunks", "ForgetChunks", "ForgetOlderChunks", "AdvanceEpoch")}
        services = [of("kerf.v1.ChunkingService", Upload=grpc.stream_stream_rpc_method_handler(
            self._upload, response_serializer=pb.UploadResponse.SerializeToString)),
            of("kerf.v1.IndexService", **calls),
            of("kerf.v1.RoutingService", Locate=unary("Locate", self._Locate, routing_pb2))]

        class Handlers(grpc.GenericRpcHandler):
            def service(self, details):
                return next((found for one in services if (found := one.service(details)) is not None), None)

        return Handlers()

    def _hear(self, context, *, is_stream):
        metadata = context.invocation_metadata()
        self.metadata.append([(key, value) for key, value in metadata])
        known = dict(self.metadata[-1])
        if not 0 < len(known.get("kerf-request-id", "")) <= 64:
            self.violation("PRO-67: a call without a request id")
        if not is_stream and not context.time_remaining() < 3600:
            self.violation("CLI-18: a call without a deadline")
        return known.get("kerf-request-id", "")

    def _abort(self, context, abort, request_id):
        context.set_trailing_metadata(abort.trailers(request_id))
        context.abort(abort.code, str(abort))

    # The Index service.

    def _unary(self, name, call, request, context):
        request_id = self._hear(context, is_stream=False)
        try:
            self.event(name)
            with self.lock:
                return call(request)
        except Behind:
            self._abort(context, Abort(grpc.StatusCode.FAILED_PRECONDITION, "EPOCH_BEHIND"), request_id)
        except Abort as abort:
            self._abort(context, abort, request_id)

    def _GetIndexStats(self, _):
        self.log.append("stats")
        return index_pb2.GetIndexStatsResponse(entry_count=len(self.index.entries), epoch=self.index.epoch)

    def _CommitChunks(self, request):
        self.log.append(f"commit_chunks {request.store_epoch}")
        for entry in request.entries:
            self._judge_commit(request.store_epoch, entry.digest, entry.locator)
            if not 1 <= entry.length_bytes <= MAX_CHUNK_BYTES:
                self.violation(f"PRO-71: BAD_FIELD: length_bytes {entry.length_bytes}")
        self.late_commits += [(request.store_epoch, entry.digest, entry.locator) for entry in request.entries]
        count = self.index.commit(request.store_epoch, [(entry.digest, entry.length_bytes, entry.locator)
                                                        for entry in request.entries], replaces=True)
        return index_pb2.CommitChunksResponse(entry_count=count)

    def _ForgetChunks(self, request):
        self.log.append("forget")
        if any(entry.locator for entry in request.entries):
            self.violation("COL-52: a collector's locators are empty")
        gone = self.index.remove([entry.digest for entry in request.entries])
        return index_pb2.ForgetChunksResponse(forgotten_count=gone, epoch=self.index.epoch, removed_count=self.index.removed)

    def _ForgetOlderChunks(self, request):
        self.log.append(f"forget_older {request.before_epoch}")
        gone, last = self.index.forget_older(request.before_epoch, request.after, request.limit)
        return index_pb2.ForgetOlderChunksResponse(forgotten_count=gone, epoch=self.index.epoch,
                                                   removed_count=self.index.removed, last=last)

    def _AdvanceEpoch(self, request):
        self.log.append(f"advance {request.store_epoch}")
        return index_pb2.AdvanceEpochResponse(previous_epoch=self.index.advance(request.store_epoch,
                                                                                request.min_previous_epoch))

    def _Locate(self, request):
        self.log.append("locate")
        if self.located is None:
            raise Abort(grpc.StatusCode.UNIMPLEMENTED)
        return routing_pb2.LocateResponse(worker="located", address=self.located)

    def _judge_commit(self, epoch, digest, locator):
        if not 1 <= len(locator) <= 64:
            self.violation(f"PRO-20: a locator of {len(locator)} bytes")
        # What the fence refuses may be gone already.
        if epoch >= self.index.epoch and not self.is_durable(digest, locator):
            self.violation("COL-19: a commit of what is not durable")

    # The Upload service.

    def _upload(self, requests, context):
        request_id = self._hear(context, is_stream=True)
        if not 0 < len(dict(self.metadata[-1]).get("kerf-shard-key", "")) <= 128:
            self.violation("PRO-46, ROU-1: a stream without a shard key")
        stream = _Stream(self)
        try:
            for request in requests:
                if len(request) > self.limits.max_message_bytes:
                    self.violation(f"PRO-71: a message of {len(request)} bytes")
                for frame in pb.UploadRequest.FromString(request).frames:
                    with self.lock:
                        stream.on_frame(frame)
                    if answers := stream.take():
                        yield pb.UploadResponse(answers=answers)
                    while stream.babble is not None and context.is_active():
                        yield pb.UploadResponse(answers=stream.babble)
                        time.sleep(BABBLE_S)
            self.event("half_close", stream)
            if stream.file is not None and not stream.is_draining:
                # gRPC may tell of the end of the requests a moment before it tells that the call was cancelled.
                time.sleep(0.3)
                if context.is_active():
                    self.violation("CLI-30: a half-close in a file")
            if stream.is_draining:
                raise Abort(grpc.StatusCode.UNAVAILABLE, "DRAINING", delay_s=0)
        except Behind:
            self._abort(context, Abort(grpc.StatusCode.FAILED_PRECONDITION, "EPOCH_BEHIND"), request_id)
        except Abort as abort:
            # What was answered before it is read first.
            if answers := stream.take():
                yield pb.UploadResponse(answers=answers)
            self._abort(context, abort, request_id)


class _File:
    def __init__(self, number, begin):
        self.number, self.offset, self.durable = number, begin.start_offset, begin.start_offset
        self.buffer = bytearray()
        self.content = xxhash.xxh3_128()
        self.end = begin.start_offset
        self.is_ended = False
        # Digests in their order, with the ends of their chunks; those at the front that are resolved are gone.
        self.unresolved = []


class _Stream:
    """The state of one Upload call."""

    def __init__(self, fake):
        self.fake = fake
        self.open = None
        self.file = None
        # Files before it of which chunks are not resolved yet.
        self.ended = []
        self.files = 0
        self.pending = Counter()
        self.lengths = {}
        self.stale, self.stale_uncommitted = set(), set()
        self.is_draining = self.is_silent = False
        self.babble = None
        self._answers = []

    def take(self):
        answers, self._answers = self._answers, []
        return [] if self.is_silent else answers

    def _answer(self, **answer):
        self._answers.append(pb.UploadAnswer(**answer))

    def on_frame(self, frame):
        kind = frame.WhichOneof("frame")
        if kind != "data" and frame.ByteSize() > MAX_FRAME_BYTES:
            self.fake.violation(f"PRO-71: a frame of {frame.ByteSize()} bytes")
        if (kind == "open") == (self.open is not None):
            self.fake.violation(f"CLI-2: {kind} in the wrong place")
        if self.is_draining and kind in ("file_begin", "data", "file_end"):
            return
        getattr(self, f"_on_{kind}")(getattr(frame, kind))

    def _on_open(self, frame):
        self.fake.log.append(f"open {frame.store_epoch}")
        self.fake.opens.append(frame)
        if len(frame.features) > MOST_FEATURES or not all(FEATURE.fullmatch(name) for name in frame.features):
            self.fake.violation(f"PRO-92: BAD_FIELD: features {list(frame.features)}")
        self.fake.event("open", self)
        self.open = frame
        profile = f"fixed:size={self.fake.chunk_bytes}"
        self._answer(opened=pb.Opened(session_id="1", limits=self.fake.limits, worker=self.fake.worker, profile=profile,
                                      features=["index-epoch"] if self.fake.tells_epoch else []))
        self.fake.event("opened", self)

    def _on_file_begin(self, frame):
        if self.file is not None and not self.file.is_ended:
            self.fake.violation("FRAME_ORDER: a file within a file")
        if self.file is not None:
            self.ended.append(self.file)
        self.files += 1
        self.file = _File(self.files, frame)

    def _on_data(self, data):
        file = self.file
        file.buffer += data
        file.content.update(data)
        file.end += len(data)
        self.fake.event("data", self)
        self._cut(self.fake.lag_bytes)

    def _on_file_end(self, frame):
        file = self.file
        if frame.size_bytes != file.end:
            self.fake.violation(f"SIZE_MISMATCH: {frame.size_bytes}, and {file.end} came")
        if frame.content_hash != file.content.digest():
            self.fake.violation("CONTENT_MISMATCH")
        file.is_ended = True
        self.fake.event("end", self)
        self._cut(0)
        self._resolve()

    def _cut(self, lag):
        file, size = self.file, self.fake.chunk_bytes
        self.fake.most_unanswered_bytes = max(self.fake.most_unanswered_bytes, len(file.buffer))
        chunks = []
        while len(file.buffer) >= max(size, lag) or (file.is_ended and file.buffer):
            data = bytes(file.buffer[:size])
            del file.buffer[:size]
            chunks.append(self._chunk(data))
        if chunks:
            changed = [changed for chunk in chunks if (changed := self.fake.change(chunk)) is not None]
            self._answer(chunks=pb.Chunks(file_number=file.number, chunks=changed))
            self.fake.event("chunks", self)

    def _chunk(self, data):
        fake, file = self.fake, self.file
        file.offset += len(data)
        digest = hashlib.sha256(data).digest()
        verdict, locator = fake.index.verdict(digest, len(data), self.open.store_epoch)
        told = fake.verdict(digest, verdict)
        if told != verdict:
            verdict, locator = told, (locator or b"told") if told != NEW else b""
        self.lengths[digest] = len(data)
        if verdict in (NEW, UNVERIFIED) or verdict > 3:
            self.pending[digest] += 1
            file.unresolved.append((digest, file.offset))
            if sum(self.pending.values()) > fake.limits.max_uncommitted_chunks:
                fake.violation("PRO-11: TOO_MANY_UNCOMMITTED_CHUNKS")
        elif not file.unresolved:
            file.durable = file.offset
        return pb.Chunk(end_offset=file.offset, digest=digest, verdict=verdict, locator=locator,
                        check=xxhash.xxh3_64_intdigest(data))

    def _on_commit(self, frame):
        fake = self.fake
        fake.log.append("commit")
        fake.event("commit", self)
        if len(frame.entries) > fake.limits.max_commit_entries:
            fake.violation(f"PRO-71: a Commit of {len(frame.entries)} entries")
        for entry in frame.entries:
            if entry.digest not in self.pending and entry.digest not in self.stale and entry.digest not in fake.index.entries:
                fake.violation("PRO-20: UNKNOWN_DIGEST")
            fake._judge_commit(self.open.store_epoch, entry.digest, entry.locator)
        fake.commits += [(self.open.store_epoch, entry.digest, entry.locator) for entry in frame.entries]
        if any(entry.digest in self.pending for entry in frame.entries) or self.stale:
            count = fake.index.commit(self.open.store_epoch, [(entry.digest, self.lengths[entry.digest], entry.locator)
                                                              for entry in frame.entries], replaces=False)
        else:
            count = 0
        fake.event("committed", self)
        for entry in frame.entries:
            self.pending.pop(entry.digest, None)
            self.stale_uncommitted.discard(entry.digest)
        self._answer(committed=fake.change_committed(pb.Committed(entry_count=count, index_epoch=fake.told_epoch())))
        self._resolve()

    def _on_report_stale(self, frame):
        self.fake.log.append("report")
        self.fake.event("report", self)
        for entry in frame.entries:
            self.fake.reports.append((entry.digest, entry.locator))
            self.stale.add(entry.digest)
            self.stale_uncommitted.add(entry.digest)
            if len(self.stale_uncommitted) > self.fake.limits.max_uncommitted_chunks:
                self.fake.violation("CLI-7: TOO_MANY_UNCOMMITTED_CHUNKS that were reported stale")
            there = self.fake.index.entries.get(entry.digest)
            if there is not None and there.locator == entry.locator:
                self.fake.index.remove([entry.digest])

    def _resolve(self):
        for file in [*self.ended, self.file]:
            while file is not None and file.unresolved and file.unresolved[0][0] not in self.pending:
                file.durable = file.unresolved.pop(0)[1]
            if file is not None and file.is_ended and not file.buffer and not file.unresolved:
                done = self.fake.change_done(pb.FileDone(
                        file_number=file.number, size_bytes=file.end, index_epoch=self.fake.told_epoch()))
                if done is not None:
                    self._answer(file_done=done)
                if file is self.file:
                    self.file = None
                else:
                    self.ended.remove(file)

    def go_away(self):
        self.is_draining = True
        files = [pb.FileProgress(file_number=file.number, durable_offset=file.durable)
                 for file in (*self.ended, self.file) if file is not None]
        self._answer(go_away=pb.GoAway(files=files, drain_ms=1000))
