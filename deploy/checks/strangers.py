"""Who comes to a port without being whom it is for: in the clear, by an older TLS, with no certificate, or with another's.

They know nothing of who listens, and say to each port what kerfd's, Redis' and the exporter's understand. Whatever they are
answered is a finding, but for what ANSWERS names.
"""

import concurrent.futures
import re
import socket
import ssl
import subprocess

# For a connection and its handshake; for what is answered first, and for more of it.
PATIENCE_S, FIRST_WORD_S, NEXT_WORD_S = 10, 3, 0.1
AT_ONCE = 8
HEALTH, STATUS, CAPABILITIES = ("/grpc.health.v1.Health/Check", "/kerf.v1.StatusService/GetStatus",
                                "/kerf.v1.ChunkingService/GetCapabilities")
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
# The last one is the beginning of a message of Redis' bus.
WORDS = (_HTTP2, b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n", b"GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n",
         b"GET /scrape?target=redis://127.0.0.1:1 HTTP/1.1\r\nHost: h\r\n\r\n", b"CLUSTER NODES\r\n", b"AUTH default x\r\n",
         b"RCmb\0\0\x08\0" + bytes(2038) + b"\r\n")
# That of a message of Redis' bus which promises more than what is there.
BEGUN = b"RCmb\0\0\x10\0"
_ALERT = re.compile(rb"\x15\x03[\x00-\x04]", re.S)
# What a TLS server of Go's says to those who speak HTTP.
_OF_GO = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
# What whoever is over TLS 1.3 may hear without having said who he is.
ANSWERS = (re.compile(rb"-(NOAUTH|WRONGPASS|ERR unknown command) "), re.compile(rb"HTTP/1\.[01] (400|403|404|405) "),
           # To probes, which have no certificate: one word of whether it is so, and why not.
           re.compile(rb"HTTP/1\.1 (200|503) [^\r]*\r\n.*\r\n\r\n(ready|not ready: [^\n]*)\n$", re.S))


def tls(certificate=None, key=None, is_old=False, protocols=()):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if is_old else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_2 if is_old else ssl.TLSVersion.MAXIMUM_SUPPORTED
    if certificate:
        context.load_cert_chain(certificate, key)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def ask(port, said, context=None):
    """All that is answered until they hang up, or have nothing more to say; nothing if they do not even shake hands."""
    heard = b""
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
            connection = context.wrap_socket(plain) if context else plain
            with connection:
                connection.sendall(said)
                connection.settimeout(FIRST_WORD_S)
                while part := connection.recv(65536):
                    heard += part
                    connection.settimeout(NEXT_WORD_S)
    except OSError:
        pass
    return heard


def is_waited_for(port, context=None, time_s=PATIENCE_S):
    """Whether whoever has begun to say something is let go on: so does who asks nobody who he is, and answers nothing yet."""
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
            with context.wrap_socket(plain) if context else plain as connection:
                connection.sendall(BEGUN)
                connection.settimeout(time_s)
                return connection.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def _told(heard):
    return repr(heard[:60])


def findings(port, name, others, friend=(None, None)):
    """`others` are those whom nobody here knows: (who, certificate, key). `friend` is let in, but by no older TLS."""
    def over_tls(words, certificate, key, is_old=False):
        return ask(port, words, tls(certificate, key, is_old, ["h2"] if words == _HTTP2 else []))

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for heard in pool.map(lambda words: ask(port, words), WORDS):
            if heard and not _ALERT.match(heard) and heard != _OF_GO:
                yield f"{name} answers in the clear: {_told(heard)}"
                return
        for heard in pool.map(lambda words: over_tls(words, *friend, True), WORDS):
            if heard:
                yield f"{name} speaks TLS 1.2: {_told(heard)}"
                break
        for whom, certificate, key in (("whoever has no certificate", None, None), *others):
            for heard in pool.map(lambda words: over_tls(words, certificate, key), WORDS):
                if heard and not any(pattern.match(heard) for pattern in ANSWERS):
                    yield f"{name} answers {whom}: {_told(heard)}"
                    break


def waiting(port, name, others):
    """The same of a port that strangers are not even heard at."""
    for whom, context in (("whoever speaks in the clear", None), ("whoever has no certificate", tls()),
                          *((whom, tls(*who)) for whom, *who in others)):
        if is_waited_for(port, context):
            yield f"{name} listens to {whom}"
            return


def call(port, method, folder=None, whose=None, ca=None, host="localhost"):
    """The number of gRPC's status, by the word of curl; None if there is none."""
    command = ["curl", "--silent", "--max-time", str(PATIENCE_S), "--http2", "--resolve", f"{host}:{port}:127.0.0.1", "--dump-header",
               "-", "--output", "/dev/null", "--header", "content-type: application/grpc", "--header", "te: trailers",
               "--data-binary", "@-", f"https://{host}:{port}{method}"]
    command += ["--cacert", ca] if ca else ["--insecure"]
    command += ["--cert", f"{folder}/{whose}.pem", "--key", f"{folder}/{whose}.key"] if folder else []
    done = subprocess.run(command, input=bytes(5), capture_output=True, check=False, timeout=PATIENCE_S + 5)
    found = re.search(rb"^grpc-status: (\d+)", done.stdout, re.M)
    return int(found[1]) if found else None


def read(port, path, folder, whose, ca, host):
    """What who has that certificate is shown at the path."""
    done = subprocess.run(["curl", "--silent", "--show-error", "--max-time", str(PATIENCE_S), "--resolve", f"{host}:{port}:127.0.0.1",
                           "--cacert", ca, "--cert", f"{folder}/{whose}.pem", "--key", f"{folder}/{whose}.key",
                           f"https://{host}:{port}{path}"], capture_output=True, text=True, check=False, timeout=PATIENCE_S + 5)
    return done.stdout + done.stderr
