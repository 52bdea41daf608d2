#!/usr/bin/env python3
"""kerfd's TLS, and what `kerf tls init` makes, by the word of programs that know nothing of kerf: see run."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

KERF, KERFD = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
HEALTH = "/grpc.health.v1.Health/Check"
# HealthCheckResponse{status: SERVING}.
SERVING = b"\x08\x01"
PATIENCE_S = 30
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


def run(*command, text=""):
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=PATIENCE_S, env=ENVIRONMENT)
    return done.returncode, done.stdout.decode(errors="replace")


class Judge(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        for name in ("tls", "other"):
            code, said = run(KERF, "tls", "init", str(cls.folder / name), "--name", "localhost", "--name", "127.0.0.1",
                             "--name", "::1", "--client", "judge")
            assert code == 0, said
        ready = cls.folder / "ready"
        flags = ["--listen", "127.0.0.1:0", "--data-dir", str(cls.folder / "data"), "--ready-file", str(ready),
                 "--metrics-listen", "127.0.0.1:0",
                 "--tls-cert", cls.file("kerfd.pem"), "--tls-key", cls.file("kerfd.key"), "--tls-client-ca", cls.file("ca.pem")]
        cls.log = open(cls.folder / "log", "w", encoding="utf-8")
        cls.kerfd = subprocess.Popen([KERFD, *flags], stdout=cls.log, stderr=cls.log, env=ENVIRONMENT)
        until = time.monotonic() + PATIENCE_S
        while not ready.exists():
            assert cls.kerfd.poll() is None and time.monotonic() < until, (cls.folder / "log").read_text()
            time.sleep(0.01)
        cls.address = ready.read_text().split("\n")[0]
        cls.port = cls.address.rsplit(":", 1)[1]

    @classmethod
    def tearDownClass(cls):
        cls.kerfd.terminate()
        cls.kerfd.wait(PATIENCE_S)
        cls.log.close()
        cls.scratch.cleanup()

    @classmethod
    def file(cls, name, folder="tls"):
        return str(cls.folder / folder / name)

    def own(self, folder="tls"):
        return ["-cert", self.file("judge.pem", folder), "-key", self.file("judge.key", folder)]

    def test_openssl_takes_the_certificates_for_what_they_are_for_and_nothing_else(self):
        def verify(name, purpose, ca="tls", extra=()):
            return run("openssl", "verify", "-x509_strict", "-CAfile", self.file("ca.pem", ca), "-purpose", purpose, *extra,
                       self.file(name))

        for name, purpose in (("kerfd.pem", "sslserver"), ("kerfd.pem", "sslclient"), ("judge.pem", "sslclient")):
            code, said = verify(name, purpose)
            self.assertEqual(code, 0, said)
        for name, purpose, ca in (("judge.pem", "sslserver", "tls"), ("judge.pem", "sslclient", "other"),
                                  ("kerfd.pem", "sslserver", "other")):
            code, said = verify(name, purpose, ca)
            self.assertNotEqual(code, 0, said)
        for flag, name, is_good in (("-verify_hostname", "localhost", True), ("-verify_ip", "127.0.0.1", True),
                                    ("-verify_ip", "::1", True), ("-verify_hostname", "kerfd", False),
                                    ("-verify_ip", "127.0.0.2", False)):
            code, said = verify("kerfd.pem", "sslserver", extra=(flag, name))
            self.assertEqual(code == 0, is_good, said)

    def test_openssl_reads_who_a_client_is(self):
        code, said = run("openssl", "x509", "-in", self.file("judge.pem"), "-noout", "-text")
        self.assertEqual(code, 0)
        for part in ("URI:kerf://client/judge", "CA:FALSE", "TLS Web Client Authentication", "NIST CURVE: P-256",
                     "ecdsa-with-SHA256"):
            self.assertIn(part, said)
        for name in ("ca", "kerfd", "judge"):
            code, said = run("openssl", "pkey", "-in", self.file(name + ".key"), "-noout", "-check")
            self.assertEqual(code, 0, said)
            self.assertEqual(os.stat(self.file(name + ".key")).st_mode & 0o777, 0o600)

    def shake_hands(self, *flags, own=True):
        return run("openssl", "s_client", "-connect", self.address, "-CAfile", self.file("ca.pem"), "-verify_return_error",
                   "-alpn", "h2", "-ign_eof", *(self.own() if own else ()), *flags, text="PRI * HTTP/2.0\r\n\r\nbad\r\n\r\n")

    def test_openssl_shakes_hands_by_tls_1_3_alone(self):
        _, said = self.shake_hands("-verify_ip", "127.0.0.1")
        for part in ("Verification: OK", "TLSv1.3", "ALPN protocol: h2", "Acceptable client certificate CA names"):
            self.assertIn(part, said)
        code, said = self.shake_hands("-tls1_2")
        self.assertNotEqual(code, 0)
        self.assertRegex(said, "protocol version|unsupported protocol")
        code, said = self.shake_hands("-verify_hostname", "elsewhere.example")
        self.assertNotEqual(code, 0)
        self.assertIn("mismatch", said)
        _, said = self.shake_hands(own=False)
        self.assertIn("certificate required", said)

    def curl(self, *flags, own=True, folder="tls", url=None):
        body = self.folder / "body"
        body.write_bytes(bytes(5))
        mine = ["--cert", self.file("judge.pem", folder), "--key", self.file("judge.key", folder)] if own else []
        return run("curl", "--silent", "--show-error", "--max-time", "10", "--cacert", self.file("ca.pem"), *mine, "--http2",
                   "--header", "content-type: application/grpc", "--header", "te: trailers", "--data-binary", f"@{body}",
                   "--write-out", "\n%{http_version} %{http_code} %{ssl_verify_result}", "--output", str(self.folder / "answer"),
                   *flags, url or f"https://localhost:{self.port}{HEALTH}")

    def test_curl_asks_whether_it_serves(self):
        code, said = self.curl()
        self.assertEqual((code, said.strip()), (0, "2 200 0"), said)
        self.assertEqual((self.folder / "answer").read_bytes(), b"\0\0\0\0\2" + SERVING)
        for flags, why in ((["--tls-max", "1.2"], "protocol version"), (["--cacert", self.file("ca.pem", "other")], "certificate")):
            code, said = self.curl(*flags)
            self.assertNotEqual(code, 0, flags)
            self.assertIn(why, said)
        for choice in ({"own": False}, {"folder": "other"}):
            code, said = self.curl(**choice)
            self.assertNotEqual(code, 0, choice)
        code, said = self.curl(url=f"http://localhost:{self.port}{HEALTH}")
        self.assertNotEqual((code, said.strip()[:5]), (0, "2 200"), said)

    def ask(self, ca="tls", own="tls", name=None):
        def read(folder, file):
            return pathlib.Path(self.file(file, folder)).read_bytes()

        credentials = grpc.ssl_channel_credentials(read(ca, "ca.pem"), read(own, "judge.key") if own else None,
                                                   read(own, "judge.pem") if own else None)
        options = [("grpc.ssl_target_name_override", name)] if name else []
        with grpc.secure_channel(self.address, credentials, options) as channel:
            return channel.unary_unary(HEALTH)(b"", timeout=10)

    def test_grpcio_asks_whether_it_serves(self):
        self.assertEqual(self.ask(), SERVING)
        self.assertEqual(self.ask(name="localhost"), SERVING)
        for choice in ({"own": None}, {"own": "other"}, {"ca": "other"}, {"name": "elsewhere.example"}):
            with self.assertRaises(grpc.RpcError, msg=choice) as caught:
                self.ask(**choice)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE, choice)
        with grpc.insecure_channel(self.address) as channel, self.assertRaises(grpc.RpcError):
            channel.unary_unary(HEALTH)(b"", timeout=10)

    def test_grpcio_and_curl_read_the_metrics(self):
        found = re.search(r"metrics[^\n]*?(127\.0\.0\.1:\d+)", (self.folder / "log").read_text())
        self.assertIsNotNone(found, (self.folder / "log").read_text())
        code, said = run("curl", "--silent", "--show-error", "--cacert", self.file("ca.pem"), "--max-time", "10",
                         f"https://localhost:{found.group(1).rsplit(':', 1)[1]}/metrics")
        self.assertEqual(code, 0, said)
        self.assertIn("kerf_door_connections_ended_total", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
