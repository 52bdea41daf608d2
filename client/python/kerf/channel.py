"""Servers: their addresses, connections to them, and how a client proves who it is."""

from __future__ import annotations

import os
import pathlib
import re
import socket
import struct
import urllib.parse
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import grpc

from kerf.errors import Refused

DEFAULT_PORT = 7461
_HOST_PORT = re.compile(r"(?P<host>\[[^\]]+\]|[^:/\[\]\s]+):(?P<port>\d{1,5})")
# Of one answer to an Upload (PRO-71); what this client asks the Index service for is shorter.
_MAX_ANSWER_BYTES = 2 * 1024 * 1024
_OPTIONS: list[tuple[str, int | str]] = [
    # Two channels are two connections; one that broke does not keep the next one waiting.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    # A proxy of the environment is meant for web pages (CLI-32).
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.max_receive_message_length", _MAX_ANSWER_BYTES),
    ("grpc.max_send_message_length", -1),
    # A peer that is gone without a word is noticed, and no server takes these for too many (PRO-5, CLI-4).
    ("grpc.keepalive_time_ms", 40_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
]

# Of who listens at a socket, which answers at once, unless more call than it takes.
_PEER_WAIT_S = 5
# Of a token, which goes in a header; and the end of its line in a file.
_TOKEN = re.compile(r"[!-~]{1,8192}")
_TOKEN_FILE_BYTES = 8192 + 2

Secret = bytes | str | os.PathLike[str]


def _bytes_of(secret: Secret) -> bytes:
    """Bytes are the thing itself, everything else names its file, which is read each time."""
    return secret if isinstance(secret, bytes) else pathlib.Path(secret).read_bytes()


@dataclass(frozen=True)
class Tls:
    """Files (PEM), or their bytes. Files are read for each connection, so that new ones count."""

    ca: Secret | None = None
    cert: Secret | None = None
    key: Secret | None = field(default=None, repr=False)
    # The name in the server's certificate, if it is not its host.
    name: str = ""

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key go together")

    def credentials(self) -> grpc.ChannelCredentials:
        ca, key, cert = (None if part is None else _bytes_of(part) for part in (self.ca, self.key, self.cert))
        return grpc.ssl_channel_credentials(ca, key, cert)


@dataclass(frozen=True)
class Address:
    """A server, as HOST:PORT, HOST or unix:PATH."""

    text: str

    @staticmethod
    def parse(text: str) -> Address:
        if text.startswith("unix:"):
            if not text.removeprefix("unix:"):
                raise ValueError("a unix: address needs a path")
            return Address(text)
        if re.fullmatch(r"[^:/\[\]\s]+|\[[^\]]+\]", text):
            text = f"{text}:{DEFAULT_PORT}"
        if not _HOST_PORT.fullmatch(text):
            raise ValueError(f"'{text}' is no address of a server: HOST:PORT or unix:PATH")
        return Address(text)

    @property
    def is_unix(self) -> bool:
        return self.text.startswith("unix:")

    @property
    def path(self) -> str:
        """Of a socket: unix:///tmp/s is the same as unix:/tmp/s."""
        return re.sub("^//(?=/)", "", self.text.removeprefix("unix:"))

    @property
    def host(self) -> str:
        match = _HOST_PORT.fullmatch(self.text)
        return match["host"].strip("[]") if match else ""

    @property
    def is_loopback(self) -> bool:
        # Whoever connects to no address in particular meets his own machine.
        return self.host in ("localhost", "::1", "::") or re.fullmatch(r"127\.[0-9.]+|0[0-9.]*", self.host) is not None


def peer_user_of(path: str) -> int:
    """The user of whoever listens at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # Where its queue is full a socket with a timeout of Python's own would not wait.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", _PEER_WAIT_S, 0))
        probe.connect(path)
        _, user, _ = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        return int(user)


def may_be_anybody(user: int, overflow: str | os.PathLike[str] = "/proc/sys/kernel/overflowuid",
                   own: str | os.PathLike[str] = "/proc/self/uid_map") -> bool:
    """Whether this is the number by which a user namespace names all users that have none in it (user_namespaces(7))."""
    def text_of(path: str | os.PathLike[str]) -> str:
        try:
            return pathlib.Path(path).read_text(encoding="ascii")
        except OSError:
            return ""
    if user != int(text_of(overflow) or 65534):
        return False
    return text_of(own).split() != ["0", "0", "4294967295"]


Token = str | os.PathLike[str] | Callable[[], str]


def _checked(token: str) -> str:
    """What no header can carry is said, and not the token: gRPC would have it in its error."""
    if not _TOKEN.fullmatch(token):
        raise Refused("a token is one line of visible characters, 8 KiB at most, and this is none")
    return token


@dataclass(frozen=True)
class Proof:
    """How a client connects, and says who it is."""

    tls: Tls | None = None
    # A token, a file of one (a path), or what is asked for one: anew for each stream.
    token: Token | None = field(default=None, repr=False)
    # The last one that its file has had.
    _last: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def check(self, address: Address) -> None:
        """A token never goes out in the clear."""
        if self.token is not None and self.tls is None and not address.is_unix:
            raise Refused(f"{address.text}: a token is shown over TLS or a unix socket alone", server=address.text)

    def channel(self, address: Address, *, worker_name: str | None = None) -> grpc.Channel:
        """`worker_name`: of a worker past its front, the name that the front says (ROU-8), empty: its host's. The name of the
        front's own certificate stands in for none."""
        self.check(address)
        options = list(_OPTIONS)
        # gRPC takes it for a URI, and would connect to another path than it was looked who listens at.
        target = "unix:" + urllib.parse.quote(address.path) if address.is_unix else address.text
        if self.tls is None or address.is_unix:
            return grpc.insecure_channel(target, options)
        if name := self.tls.name if worker_name is None else worker_name:
            options.append(("grpc.ssl_target_name_override", name))
        return grpc.secure_channel(target, self.tls.credentials(), options)

    def metadata(self, address: Address) -> list[tuple[str, str | bytes]]:
        """Of one call: its id, and the token."""
        found: list[tuple[str, str | bytes]] = [("kerf-request-id", uuid.uuid4().hex)]
        if self.token is None:
            return found
        self.check(address)
        if address.is_unix:
            if not hasattr(socket, "SO_PEERCRED"):
                raise Refused(f"{address.text}: this system does not say who listens at a socket: a token goes over TLS alone",
                              server=address.text)
            try:
                user = peer_user_of(address.path)
            except OSError:
                # Nobody is there: the call says so, and needs no token for that.
                return found
            if may_be_anybody(user):
                raise Refused(f"{address.text}: user {user} listens there, by whom this user namespace names all users that have no "
                              "number in it: nobody can tell who that is, and the token is not shown", server=address.text)
            if user not in (0, os.geteuid()):
                raise Refused(f"{address.text}: user {user} listens there, and is not shown the token of user {os.geteuid()}",
                              server=address.text)
        found.append(("authorization", f"Bearer {self._token()}"))
        return found

    def _token(self) -> str:
        if callable(self.token):
            return _checked(self.token())
        if isinstance(self.token, str):
            return _checked(self.token)
        assert self.token is not None
        return self._of_file(pathlib.Path(self.token))

    def _of_file(self, path: pathlib.Path) -> str:
        """Where it cannot be read, or is being written, the last one counts."""
        try:
            # Of a pipe whoever opens it would wait, and the token would be read once.
            if path.exists() and not path.is_file():
                raise Refused("it is no regular file")
            with path.open("rb") as file:
                token = _checked(file.read(_TOKEN_FILE_BYTES + 1).decode("latin-1").rstrip("\r\n"))
        except (OSError, Refused) as error:
            if self._last:
                return self._last[0]
            raise Refused(f"{path} has no token: {error}") from error
        self._last[:] = [token]
        return token
