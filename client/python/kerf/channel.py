"""Servers: their addresses, connections to them, and how a client proves who it is."""

from __future__ import annotations

import os
import pathlib
import re
import socket
import struct
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
    # A peer that is gone without a word is noticed, and no server takes these for too many (CLI-4).
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
]

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
        probe.settimeout(5)
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


@dataclass(frozen=True)
class Proof:
    """How a client connects, and says who it is."""

    tls: Tls | None = None
    # A token, a file of one (a path), or what is asked for one: anew for each stream.
    token: Token | None = field(default=None, repr=False)

    def check(self, address: Address) -> None:
        """A token never goes out in the clear."""
        if self.token is not None and self.tls is None and not address.is_unix:
            raise Refused(f"{address.text}: a token is shown over TLS or a unix socket alone", server=address.text)

    def channel(self, address: Address, *, is_named: bool = False) -> grpc.Channel:
        """`is_named`: a front says that it is there, so no other name stands in for its host's."""
        self.check(address)
        options = list(_OPTIONS)
        target = "unix:" + address.path if address.is_unix else address.text
        if self.tls is None or address.is_unix:
            return grpc.insecure_channel(target, options)
        if self.tls.name and not is_named:
            options.append(("grpc.ssl_target_name_override", self.tls.name))
        return grpc.secure_channel(target, self.tls.credentials(), options)

    def metadata(self, address: Address) -> list[tuple[str, str | bytes]]:
        """Of one call: its id, and the token."""
        found: list[tuple[str, str | bytes]] = [("kerf-request-id", uuid.uuid4().hex)]
        if self.token is None:
            return found
        self.check(address)
        if address.is_unix:
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
            return self.token()
        if isinstance(self.token, str):
            return self.token
        assert self.token is not None
        path = pathlib.Path(self.token)
        # Of a pipe whoever opens it would wait, and the token would be read once.
        if path.exists() and not path.is_file():
            raise Refused(f"{path} is no regular file, and has no token")
        return path.read_text(encoding="ascii").strip()
