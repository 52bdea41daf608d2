"""Addresses, tokens, and the way past a front."""

import contextlib
import os
import pathlib
import socket
import tempfile
import threading
import unittest
from unittest import mock

import kerf
from fake import fail, kill, silence
from kerf import routing
from kerf.channel import Address, Proof, may_be_anybody, peer_user_of
from testing import CHUNK_BYTES, ClientTest, Reader, content

DATA = content(40 * CHUNK_BYTES)


class AddressTest(unittest.TestCase):
    def test_forms(self):
        for text, host, is_unix, is_loopback in (
                ("backup.example:7461", "backup.example", False, False), ("backup.example", "backup.example", False, False),
                ("127.0.0.1:1", "127.0.0.1", False, True), ("[::1]:7461", "::1", False, True), ("[::1]", "::1", False, True),
                ("localhost:7461", "localhost", False, True), ("unix:/tmp/s", "", True, False),
                ("unix:///tmp/s", "", True, False)):
            address = Address.parse(text)
            self.assertEqual((address.host, address.is_unix, address.is_loopback), (host, is_unix, is_loopback), text)
        self.assertEqual(Address.parse("host").text, "host:7461")
        self.assertEqual(Address.parse("unix:///tmp/s").path, "/tmp/s")
        for text in ("", ":7461", "host:port", "::1", "a b:1", "unix:"):
            with self.assertRaises(ValueError, msg=text):
                Address.parse(text)

    def test_addresses_that_mean_another_machine_here_than_there(self):
        for there, server, is_same in (("unix:/a", "unix:/b", True), ("unix:/a", "front:1", False),
                                       ("127.0.0.1:1", "front:1", False), ("127.0.0.1:1", "127.0.0.1:2", True),
                                       ("127.0.0.1:1", "unix:/b", True), ("worker:1", "front:1", True),
                                       ("0.0.0.0:1", "front:1", False), ("[::]:1", "front:1", False), ("127.1:1", "front:1", False)):
            found = routing._means_the_same_here(Address.parse(there), Address.parse(server))
            self.assertEqual(found, is_same, (there, server))

    def test_shard_keys_are_those_of_the_specification(self):
        self.assertEqual(routing.shard_key("home", 0), "fc6e2038dd48d4c2")


class ProxyTest(unittest.TestCase):
    def test_that_of_the_environment_is_not_used(self):
        # This machine, by a name for which no proxy is left out; nobody listens there.
        with socket.create_server(("127.0.0.1", 0)) as proxy:
            proxy.settimeout(0.5)
            address = "http://127.0.0.1:%d" % proxy.getsockname()[1]
            names = {name: address for name in ("grpc_proxy", "https_proxy", "http_proxy")}
            with mock.patch.dict(os.environ, {**names, "no_grpc_proxy": "", "no_proxy": ""}), \
                    Proof().channel(Address.parse("0.0.0.0:1")) as channel:
                channel.subscribe(lambda _: None, try_to_connect=True)
                with self.assertRaises(TimeoutError):
                    proxy.accept()


class OptionsTest(unittest.TestCase):
    def options_of(self, proof, address, **more):
        with mock.patch("grpc.insecure_channel") as plain, mock.patch("grpc.secure_channel") as secure:
            proof.channel(Address.parse(address), **more)
        return dict((plain.call_args or secure.call_args)[0][-1])

    def test_cli_4_pings_are_sent_and_not_too_often(self):
        for address in ("host:1", "unix:/tmp/s"):
            options = self.options_of(Proof(), address)
            self.assertEqual((options["grpc.keepalive_time_ms"], options["grpc.keepalive_timeout_ms"]), (40_000, 20_000))

    def test_a_socket_is_where_its_path_says_whatever_is_in_it(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
            path = f"{folder}/a b%41?c#d"
            server.bind(path)
            server.listen()
            server.settimeout(20)
            with Proof().channel(Address.parse(f"unix:{path}")) as channel:
                channel.subscribe(lambda _: None, try_to_connect=True)
                server.accept()[0].close()

    def test_rou_8_whom_a_certificate_has_to_be_of(self):
        name = "grpc.ssl_target_name_override"
        for own, worker_name, wanted in (("", None, None), ("front.example", None, "front.example"), ("front.example", "", None),
                                         ("front.example", "worker.example", "worker.example")):
            options = self.options_of(Proof(kerf.Tls(name=own)), "host:1", worker_name=worker_name)
            self.assertEqual(options.get(name), wanted, (own, worker_name))


class TokenTest(ClientTest):
    def shown(self):
        return [dict(metadata).get("authorization") for metadata in self.fake.metadata]

    def test_over_a_socket_of_the_user(self):
        self.open(token="kerf_nightly_secret").upload(b"x", b"file")
        self.assertEqual(self.shown(), ["Bearer kerf_nightly_secret"])

    def test_never_in_the_clear(self):
        with self.assertRaisesRegex(kerf.Refused, "TLS or a unix socket"):
            self.open(["127.0.0.1:7461"], token="t")
        with self.assertRaisesRegex(kerf.Refused, "TLS or a unix socket"):
            Proof(token="t").channel(Address.parse("127.0.0.1:7461"))

    def test_not_at_a_socket_of_another_user(self):
        with mock.patch("kerf.channel.peer_user_of", lambda _: os.geteuid() + 1), \
                self.assertRaisesRegex(kerf.Refused, "is not shown the token"):
            self.open(token="t").upload(b"x", b"file")
        self.assertEqual(self.fake.metadata, [])

    def test_not_at_a_socket_of_whoever_has_no_number(self):
        with mock.patch("kerf.channel.may_be_anybody", lambda user: user == os.geteuid()), \
                self.assertRaisesRegex(kerf.Refused, "the token is not shown"):
            self.open(token="t").upload(b"x", b"file")
        self.assertEqual(self.fake.metadata, [])

    def test_who_may_be_anybody(self):
        with tempfile.TemporaryDirectory() as folder:
            overflow, own = pathlib.Path(folder) / "overflowuid", pathlib.Path(folder) / "uid_map"
            overflow.write_text("65534\n", encoding="ascii")
            for users, anybody in (("0 0 4294967295\n", False), ("0 1000 1\n", True), ("0 0 65536\n", True), ("", True)):
                own.write_text(users, encoding="ascii")
                self.assertEqual(may_be_anybody(65534, overflow, own), anybody, users)
                self.assertFalse(may_be_anybody(0, overflow, own))
                self.assertFalse(may_be_anybody(1000, overflow, own))
            overflow.write_text("99\n", encoding="ascii")
            self.assertTrue(may_be_anybody(99, overflow, own))
            overflow.unlink()
            own.unlink()
            self.assertTrue(may_be_anybody(65534, overflow, own))

    def test_root_may_see_it_and_the_own_user(self):
        for user in (0, os.geteuid()):
            with mock.patch("kerf.channel.peer_user_of", lambda _, user=user: user):
                self.open(token="t").upload(b"x", b"file")
        self.assertEqual(self.shown(), ["Bearer t"] * 2)

    def test_it_is_read_anew_for_each_stream(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "token"
            file.write_text("one\n", encoding="ascii")
            self.fake.faults = {("data", 1): lambda _: (file.write_text("two\n", encoding="ascii"), kill(_))}
            self.open(token=file).upload(Reader(DATA), b"file")
        tokens = iter(("a", "b"))
        self.open(token=lambda: next(tokens)).upload(b"x", b"file")
        self.assertEqual(self.shown(), ["Bearer one", "Bearer two", "Bearer a"])

    def test_while_its_file_is_written_anew_the_last_one_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "token"
            file.write_text("one\r\n", encoding="ascii")
            proof = Proof(token=file)
            self.assertEqual(proof._token(), "one")
            for spoil in (lambda: file.write_bytes(b""), lambda: file.write_bytes(b"\xff\xff"), file.unlink):
                spoil()
                self.assertEqual(proof._token(), "one")
            with self.assertRaisesRegex(kerf.Refused, "has no token"):
                Proof(token=file)._token()

    def test_one_that_is_none_is_said_and_not_shown(self):
        for bad in ("", "two SECRETS", "SECRET\n", "SECR\u00c9T", "SECRET" * 2_000):
            for token in (bad, lambda bad=bad: bad):
                with self.assertRaisesRegex(kerf.Refused, "this is none") as caught:
                    self.open(token=token).upload(b"x", b"file")
                self.assertNotIn("SECR", str(caught.exception))
        self.assertEqual(self.fake.metadata, [])

    def test_a_socket_whose_queue_is_full_is_waited_for(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server, contextlib.ExitStack() as stack:
            path = f"{folder}/s"
            server.bind(path)
            server.listen(0)
            with self.assertRaises(BlockingIOError):
                while True:
                    one = stack.enter_context(socket.socket(socket.AF_UNIX))
                    one.setblocking(False)
                    one.connect(path)
            later = threading.Timer(0.2, lambda: server.accept()[0].close())
            later.start()
            self.assertEqual(peer_user_of(path), os.geteuid())
            later.join()

    def test_a_pipe_is_not_waited_for(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = pathlib.Path(folder) / "token"
            os.mkfifo(pipe)
            with self.assertRaisesRegex(kerf.Refused, "no regular file"):
                self.open(token=pipe).upload(b"x", b"file")

    def test_it_is_in_no_message_of_ours(self):
        proof = Proof(kerf.Tls(ca=b"ca", cert=b"cert", key=b"PRIVATE"), "SECRET")
        self.assertNotRegex(repr(proof), "SECRET|PRIVATE")

    def test_certificates_come_with_their_keys(self):
        with self.assertRaises(ValueError):
            kerf.Tls(cert="cert.pem")


class DirectTest(ClientTest):
    def setUp(self):
        super().setUp()
        # The server is the front; the worker has an index of its own here.
        self.worker = self.new_fake()
        self.fake.located = self.worker.address

    def tearDown(self):
        super().tearDown()
        self.assertEqual(self.worker.violations, [])

    def upload(self, **options):
        recipe = self.open(direct=True, **options).upload(Reader(DATA), b"file")
        self.assertEqual(self.store.restore(recipe), DATA)

    def test_past_the_front(self):
        self.upload()
        self.assertEqual((len(self.fake.opens), len(self.worker.opens)), (0, 1))

    def test_not_unless_it_is_asked_for(self):
        self.open().upload(DATA, b"file")
        self.assertEqual((len(self.fake.opens), len(self.worker.opens)), (1, 0))
        self.assertEqual(self.events("locate"), [])

    def test_a_server_that_is_no_front_is_the_worker(self):
        self.fake.located = None
        self.upload()
        self.assertEqual(len(self.fake.opens), 1)

    def test_a_worker_that_cannot_be_reached_or_is_none(self):
        for located in (f"{self.worker.address}.nobody", "no address at all", "127.0.0.1:1"):
            with self.subTest(located), mock.patch("kerf.routing.REACH_S", 0.3):
                self.setUp()
                self.fake.located = located
                self.upload()
                self.assertEqual(len(self.fake.opens), 1)

    def test_a_worker_that_opens_nothing_costs_one_try(self):
        self.worker.faults = {("open", 1): kill}
        self.upload()
        self.assertEqual((len(self.fake.opens), len(self.worker.opens)), (1, 1))

    def test_a_worker_that_says_why_is_asked_again(self):
        self.worker.faults = {("open", 1): fail("UNAVAILABLE", "DRAINING", delay_s=0.01)}
        self.upload()
        self.assertEqual((len(self.fake.opens), len(self.worker.opens)), (0, 2))

    def test_two_streams_that_came_to_nothing_are_a_detour(self):
        self.worker.faults = {("data", 1): kill, ("data", 2): kill}
        # Opened is an answer: what is counted are streams from which nothing else came.
        self.upload()
        self.assertEqual((len(self.fake.opens), len(self.worker.opens)), (1, 2))

    def test_a_silent_worker_is_left_once_another_one_has_the_key(self):
        other = self.new_fake()
        self.worker.faults = {("data", 1): lambda stream: (silence(stream), setattr(self.fake, "located", other.address))}
        with mock.patch("kerf.lane.ASK_AGAIN_S", 0.1):
            self.upload(silence_s=30)
        self.assertEqual((len(self.fake.opens), len(other.opens)), (0, 1))


if __name__ == "__main__":
    unittest.main()
