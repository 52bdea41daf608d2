"""A TCP proxy that writes down the messages of all gRPC calls that go through it, byte for byte.

It reads HTTP/2 as far as gRPC uses it, without TLS, and changes nothing. A log has a line for each event, in an order
in which nothing stands before its cause:

    call N METHOD     the client has begun its N-th call
    send N HEX        one message of the client
    sent N            the client sends no more
    receive N HEX     one message of the server
"""

import dataclasses
import socket
import struct
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, CONTINUATION = 0, 1, 9
END_STREAM, END_HEADERS, PADDED, PRIORITY = 1, 4, 8, 32
# HPACK's static table, of which only the name is needed that says which method a call is of.
STATIC_ENTRIES = 61
PATH_INDEXES = (4, 5)


def hpack_number(block, at, prefix_bits):
    mask = (1 << prefix_bits) - 1
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        number += (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return number, at


def hpack_text(block, at):
    if block[at] & 128:
        # gRPC writes none of its own names so; what is skipped here is never a path.
        size, at = hpack_number(block, at, 7)
        return None, at + size
    size, at = hpack_number(block, at, 7)
    return block[at:at + size], at + size


class HeaderReader:
    """Finds :path in the header blocks of one direction of a connection (RFC 7541)."""

    def __init__(self):
        self._dynamic = []  # newest first

    def path(self, block):
        found = None
        at = 0
        while at < len(block):
            byte = block[at]
            if byte & 128:
                index, at = hpack_number(block, at, 7)
                name, value = self._entry(index)
            elif byte & 0xE0 == 0x20:
                _, at = hpack_number(block, at, 5)
                continue
            else:
                is_kept = byte & 0xC0 == 0x40
                index, at = hpack_number(block, at, 6 if is_kept else 4)
                if index:
                    name = self._entry(index)[0]
                else:
                    name, at = hpack_text(block, at)
                value, at = hpack_text(block, at)
                if is_kept:
                    self._dynamic.insert(0, (name, value))
            if name == b":path":
                found = value
        return found.decode()

    def _entry(self, index):
        if index <= STATIC_ENTRIES:
            return (b":path" if index in PATH_INDEXES else None), None
        return self._dynamic[index - STATIC_ENTRIES - 1]


@dataclasses.dataclass
class Half:
    """What has come of one call in one direction and is no whole message yet."""
    number: int
    bytes_left: bytes = b""


class Direction:
    """Reads one direction of a connection and tells the log of it."""

    def __init__(self, log, calls, is_client):
        self._log, self._calls, self._is_client = log, calls, is_client
        self._buffer = b""
        self._is_begun = not is_client
        self._headers = HeaderReader()
        self._block = b""
        self._halves = {}

    def take(self, data):
        self._buffer += data
        if not self._is_begun:
            if len(self._buffer) < len(PREFACE):
                return
            assert self._buffer.startswith(PREFACE)
            self._buffer = self._buffer[len(PREFACE):]
            self._is_begun = True
        while len(self._buffer) >= 9:
            size = int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < 9 + size:
                return
            kind, flags, stream = struct.unpack(">BBI", self._buffer[3:9])
            payload, self._buffer = self._buffer[9:9 + size], self._buffer[9 + size:]
            self._take_frame(kind, flags, stream & 0x7FFFFFFF, payload)

    def _take_frame(self, kind, flags, stream, payload):
        if kind not in (DATA, HEADERS, CONTINUATION):
            return
        if flags & PADDED and kind != CONTINUATION:
            payload = payload[1:len(payload) - payload[0]]
        if kind == DATA:
            self._take_data(stream, payload)
        elif self._is_client:
            self._block += payload[5:] if kind == HEADERS and flags & PRIORITY else payload
            if flags & END_HEADERS:
                self._calls[stream] = self._log.call(self._headers.path(self._block))
                self._block = b""
        if flags & END_STREAM and self._is_client and kind != CONTINUATION:
            self._log.add(f"sent {self._calls[stream]}")

    def _take_data(self, stream, payload):
        half = self._halves.setdefault(stream, Half(self._calls[stream]))
        half.bytes_left += payload
        while len(half.bytes_left) >= 5:
            is_compressed, size = struct.unpack(">BI", half.bytes_left[:5])
            assert not is_compressed
            if len(half.bytes_left) < 5 + size:
                return
            message, half.bytes_left = half.bytes_left[5:5 + size], half.bytes_left[5 + size:]
            self._log.add(f"{'send' if self._is_client else 'receive'} {half.number} {message.hex()}")


class Log:
    """The lines of all connections. Thread-safe."""

    def __init__(self, on_call):
        self.lines = []
        self._on_call = on_call
        self._calls = 0
        self._lock = threading.Lock()

    def add(self, line):
        with self._lock:
            self.lines.append(line)

    def call(self, method):
        with self._lock:
            self._calls += 1
            number = self._calls
            self.lines.append(f"call {number} {method}")
        self._on_call(method)
        return number


class RecordingProxy:
    """Listens on a port of loopback while it is entered."""

    def __init__(self, target_port, on_call=lambda method: None):
        """`on_call` is told of each call before the server is; with an OSError it cuts the connection to the server."""
        self.log = Log(on_call)
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target_port))
            calls = {}
            for source, sink, is_client in ((near, far, True), (far, near, False)):
                direction = Direction(self.log, calls, is_client)
                threading.Thread(target=self._forward, args=(source, sink, direction), daemon=True).start()

    @staticmethod
    def _forward(source, sink, direction):
        try:
            while data := source.recv(65536):
                direction.take(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass
