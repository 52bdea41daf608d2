"""Nodes that speak TLS: whom they let in, and certificates that change while everybody is connected."""

import contextlib
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
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
    check(pod.run("alive").wait(PATIENCE_S) == 0, "a node that answers is not alive")
    pod.signal(signal.SIGSTOP)
    check(pod.run("alive").wait(PATIENCE_S) != 0, "a node that does not answer is alive")
    pod.signal(signal.SIGCONT)
    cluster.wait_until_whole(f"{pod.number} was stopped")
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


def _mixed(cluster, source, authorities):
    """What to mount: certificate and key of `source`, and these CAs."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=cluster.folder, prefix="mixed-tls-"))
    for name in ("tls.crt", "tls.key"):
        shutil.copy(source / name, folder)
    (folder / "ca.crt").write_text(authorities)
    return folder


def _expired(cluster, source):
    """The same key, with a certificate of the same CA that is over."""
    folder = _mixed(cluster, source, (source / "ca.crt").read_text())
    ca = ["-CA", source / "ca.crt", "-CAkey", source / "made/ca.key"]
    request = subprocess.run(["openssl", "req", "-new", "-key", source / "tls.key", "-subj", "/CN=over"], check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    (folder / "tls.crt").write_bytes(subprocess.run(["openssl", "x509", "-req", "-days", "0", *ca], input=request, check=True,
                                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    return folder


def _mount(pods, folder):
    """Until each of them shows it."""
    wanted = (folder / "tls.crt").read_text().split()
    for pod in pods:
        pod.mount_certificates(folder)
    wait_until(lambda: all(_shown_by(pod).split() == wanted for pod in pods), "the certificate that is mounted is shown")


def change(cluster, rng):
    """To certificates of another CA, by way of both CAs, while connections stay."""
    masters = {pod.number for pod in cluster.pods if pod.is_master()}
    links = [pod.connect() for pod in cluster.pods]
    old, new = cluster.pods[0].certificates.resolve(), cluster.new_certificates()
    both = (old / "ca.crt").read_text() + (new / "ca.crt").read_text()
    for source, authorities in ((old, both), (new, both), (new, (new / "ca.crt").read_text())):
        folder = _mixed(cluster, source, authorities)
        counts = [pod.log("keeper").count("shows the certificate") for pod in cluster.pods]
        _mount(rng.sample(cluster.pods, len(cluster.pods)), folder)
        wait_until(lambda: all(pod.log("keeper").count("shows the certificate") > count
                               for pod, count in zip(cluster.pods, counts)), "each node has taken all of it")
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


def go_wrong(cluster, rng):
    """What an operator should not do, and what a node comes out of by itself all the same."""
    good, pod = cluster.new_certificates(), rng.choice(cluster.pods)
    # Another CA at once: who has it and who has not do not know each other until all have.
    _mount(cluster.pods, good)
    cluster.wait_until_whole("another CA, without a time for both")
    shown, refused = _shown_by(pod), "refuses the certificate that is mounted by now"
    halves = _mixed(cluster, good, (good / "ca.crt").read_text())
    shutil.copy(cluster.new_certificates() / "tls.key", halves)
    for folder in (halves, _mixed(cluster, good, "no certificate\n")):
        count = pod.log("keeper").count(refused)
        pod.mount_certificates(folder)
        wait_until(lambda count=count: pod.log("keeper").count(refused) > count, "what does not go together is said")
        check(_shown_by(pod) == shown, "what does not go together is shown")
        pod.mount_certificates(good)
    # Of which the node itself says nothing.
    _mount([pod], _expired(cluster, good))
    wait_until(lambda: "tls.crt of this node ends within 14 days, has ended" in pod.log("keeper"), "that it is over is said")
    _mount([pod], good)
    cluster.wait_until_whole(f"{pod.number} showed a certificate that was over")
