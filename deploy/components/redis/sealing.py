"""Nodes that speak TLS: whom they let in, and certificates that change while everybody is connected."""

import contextlib
import pathlib
import shutil
import socket
import ssl
import tempfile

from redis_pods import PATIENCE_S, check, wait_until

# Of the bus above the port.
BUS = 10_000


def _say(pod, port, context, said):
    """What a node answers to `said` from whoever connects so; what went wrong, if it hangs up."""
    try:
        with socket.create_connection((pod.cluster.addresses[pod.number], port), timeout=PATIENCE_S) as plain, \
                context.wrap_socket(plain) if context else contextlib.nullcontext(plain) as connection:
            connection.sendall(said)
            return connection.recv(1024) or "hung up"
    except OSError as error:
        return str(error)


def _client(folder=None, version=ssl.TLSVersion.TLSv1_3):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    if folder:
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def check_strangers(cluster):
    """In the clear nobody is heard, nor by an older TLS; on the bus nobody without a certificate of the nodes' CA."""
    pod, stranger = cluster.pods[0], cluster.new_certificates()
    port, bus = cluster.port, cluster.port + BUS
    check(b"NOAUTH" in _say(pod, port, _client(), b"PING\r\n"), "over TLS a password is asked for, and no certificate")
    for what, context, at in (("in the clear", None, port), ("TLS 1.2", _client(version=ssl.TLSVersion.TLSv1_2), port),
                              ("the bus in the clear", None, bus), ("the bus without a certificate", _client(), bus),
                              ("the bus with a certificate of another CA", _client(stranger), bus)):
        said = _say(pod, at, context, b"PING\r\n\r\n")
        check(isinstance(said, str), f"{what}: is answered {said}")
    # A header of the bus's own that promises more than what follows: whoever is let in is waited for.
    with socket.create_connection((cluster.addresses[0], bus), timeout=PATIENCE_S) as plain, \
            _client(pod.certificates).wrap_socket(plain) as connection:
        connection.sendall(b"RCmb\0\0\x10\0")
        connection.settimeout(1)
        try:
            said = connection.recv(1)
        except TimeoutError:
            return
    raise AssertionError(f"the bus hangs up on a node: {said}")


def _shown_by(pod):
    """The certificate that who connects now is shown."""
    return ssl.get_server_certificate((pod.cluster.addresses[pod.number], pod.cluster.port), timeout=PATIENCE_S)


def change(cluster, rng):
    """To certificates of another CA, by way of both CAs, while connections stay; and one pod gets halves meanwhile."""
    masters = {pod.number for pod in cluster.pods if pod.is_master()}
    links = [pod.connect() for pod in cluster.pods]
    old, new = cluster.pods[0].certificates.resolve(), cluster.new_certificates()
    both = (old / "ca.crt").read_text() + (new / "ca.crt").read_text()

    def mounted(source, authorities):
        folder = pathlib.Path(tempfile.mkdtemp(dir=cluster.folder, prefix="both-tls-"))
        for name in ("tls.crt", "tls.key"):
            shutil.copy(source / name, folder)
        (folder / "ca.crt").write_text(authorities)
        return folder

    unlucky = rng.choice(cluster.pods)
    shown = _shown_by(unlucky)
    halves = mounted(old, both)
    shutil.copy(new / "tls.key", halves)
    unlucky.mount_certificates(halves)
    wait_until(lambda: "refuses the certificate that is mounted by now" in unlucky.log("keeper"), "what does not go together is said")
    check(_shown_by(unlucky) == shown, "what does not go together is shown")
    for source, authorities in ((old, both), (new, both), (new, (new / "ca.crt").read_text())):
        folder = mounted(source, authorities)
        counts = [pod.log("keeper").count("shows the certificate") for pod in cluster.pods]
        for pod in rng.sample(cluster.pods, len(cluster.pods)):
            pod.mount_certificates(folder)
        wait_until(lambda: all(pod.log("keeper").count("shows the certificate") > count
                               for pod, count in zip(cluster.pods, counts)), "each node has taken the certificate")
        check(all(_shown_by(pod).split() == (source / "tls.crt").read_text().split() for pod in cluster.pods),
              "the certificate that is mounted is not shown")
        cluster.wait_until_whole("certificates have changed")
    for link in links:
        link.sendall(b"PING\r\n")
        check(b"NOAUTH" in link.recv(1024), "who was connected stays so")
        link.close()
    check({pod.number for pod in cluster.pods if pod.is_master()} == masters, "somebody has taken over meanwhile")
    # They find each other anew by them, too.
    pod = rng.choice(cluster.pods)
    pod.stop()
    pod.start()
    cluster.wait_until_whole(f"{pod.number} started again with a certificate of another CA")
