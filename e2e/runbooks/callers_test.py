"""Who calls, what he may do and how much of it, and certificates that end."""

import os
import re
import shutil
import time

import prometheus
import upload
import world

EVERYBODY = f"user/{os.geteuid()}"
DAY_S = 86400
MANY_ENTRIES = 1_000_000


class CallersTest(world.RunbookTest):
    def write(self, text):
        path = self.folder / "access.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def new_token(self, path):
        """The lines that let it in."""
        return self.summary("token", "new", "nightly", "--output", path, "--repository", "*", "--role", "admin")["access"]

    def until_ends(self, kerfd, code, *flags):
        """A backup ends so once the file of --access is in force."""
        self.until(lambda: self.back_up(kerfd, *flags).returncode == code, f"a backup to end with {code}", world.RELOAD_S)

    def make_certificates(self, *more):
        """The folder of `kerf tls init`."""
        folder = self.folder / "tls"
        self.kerf("tls", "init", folder, "--name", "127.0.0.1", "--client", "laptop", *more, ends=world.OK)
        return folder

    def start_tls(self, folder, *flags):
        return self.start("kerfd", "--tls-cert", folder / "kerfd.pem", "--tls-key", folder / "kerfd.key", *flags,
                          listen="127.0.0.1:0")

    def test_UNKNOWN_CALLER(self):
        folder = self.make_certificates()
        token = self.folder / "token"
        lines = self.new_token(token)
        access = self.write(lines)
        kerfd = self.start_tls(folder, *self.flags("--access", access), "--tls-client-ca", folder / "ca.pem",
                               "--tls-client-optional", "true")
        ca = ("--tls-ca", folder / "ca.pem")
        self.back_up(kerfd, *ca, ends=world.REFUSED)
        self.assertGreater(self.metric_of_refused(kerfd, "no_proof"), 0)
        self.says("or `--token-file`")
        self.back_up(kerfd, *ca, "--token-file", token, ends=world.OK)
        self.says("give `kerf` `--tls-cert` and `--tls-key`")
        own = (*ca, "--tls-cert", folder / "laptop.pem", "--tls-key", folder / "laptop.key")
        access.write_text(lines + "\n" + self.identity("kerf://client/laptop", "admin"), encoding="utf-8")
        self.until_ends(kerfd, world.OK, *own)
        # A token that is not the one whose SHA-256 stands there.
        text = token.read_text()
        token.write_text(text[:-3] + ("AA" if text[-3:-1] != "AA" else "BB") + "\n")
        self.back_up(kerfd, *ca, "--token-file", token, ends=world.REFUSED)
        self.assertGreater(self.metric_of_refused(kerfd, "bad_token"), 0)
        self.says("make one with `kerf token new`, and put what it prints into the file")
        other = self.folder / "other"
        access.write_text(self.new_token(other))
        with_other = (*ca, "--token-file", other)
        self.until_ends(kerfd, world.OK, *with_other)
        self.step("kerf ping --server ADDR", *ca, "--token-file", other, ADDR=kerfd.address)
        expired = re.sub(r"^(sha256 = .*)$", r"\1\nexpires = 2020-01-01T00:00:00Z", access.read_text(), flags=re.MULTILINE)
        access.write_text(expired)
        self.until_ends(kerfd, world.REFUSED, *with_other)
        self.assertGreater(self.metric_of_refused(kerfd, "expired"), 0)
        self.says("move `expires`")
        access.write_text(expired.replace("2020-01-01", "2120-01-01"))
        self.until_ends(kerfd, world.OK, *with_other)

    def metric_of_refused(self, kerfd, reason):
        """With TLS, and without a certificate of one's own."""
        self.says("kerf_access_refused_total")
        self.says(reason)
        return prometheus.value(self.tls_metrics(kerfd), "kerf_access_refused_total", reason=reason)

    def tls_metrics(self, kerfd):
        return kerfd.metrics(self.folder / "tls/ca.pem")

    def test_NOT_YOURS(self):
        access = self.write(self.identity(EVERYBODY, "read"))
        kerfd = self.start("kerfd", "--access", access)
        self.assertEqual(upload.whole(kerfd.address), "NOT_YOURS")
        self.back_up(kerfd, ends=world.REFUSED)
        self.assertGreater(self.metric(kerfd, "kerf_access_refused_total", reason="forbidden"), 0)
        self.says("`write` for backups")
        self.says("kerfd sees the file within seconds")
        self.write(self.identity(EVERYBODY, "write"))
        self.until(lambda: self.back_up(kerfd).returncode == world.OK, "the role to be seen", world.RELOAD_S)
        self.says("`gc` for `kerf gc`")
        self.kerf("gc", "--store", self.store, "--server", kerfd.address, "--retry-for", "0s", ends=world.REFUSED)
        self.write(self.identity(EVERYBODY, "gc"))
        gc = ("gc", "--store", self.store, "--server", kerfd.address, "--retry-for", "0s")
        self.until(lambda: self.run_kerf(*gc).returncode == world.OK, "the role to be seen", world.RELOAD_S)
        self.says("`admin` for `kerf repo`")
        self.write(self.identity(EVERYBODY, "admin"))
        self.until(lambda: self.run_kerf("repo", "list", "--server", kerfd.address).returncode == world.OK, "the role to be seen",
                   world.RELOAD_S)
        self.assertIn(self.repository(), self.step("kerf repo list --server ADDR", ADDR=kerfd.address).stdout)
        kerfd = self.restart(kerfd, *self.flags("--repositories created"))
        self.back_up(kerfd, ends=world.REFUSED)
        self.step("kerf repo create --store DIR --server ADDR", DIR=self.store, ADDR=kerfd.address)
        self.back_up(kerfd, ends=world.OK)

    def test_QUOTA_EXCEEDED(self):
        rights = self.identity(EVERYBODY, "admin")
        access = self.write(rights + '[[repository]]\nname = "*"\nmax_entries = 60\n')
        kerfd = self.start("kerfd", "--access", access)
        self.says("or 3 with a word of a quota")
        done = self.back_up(kerfd, ends=world.PARTIAL)
        self.assertIn("quota", done.stdout + done.stderr)
        name = self.repository()
        self.assertIn("60", self.step("kerf repo quota NAME --server ADDR", NAME=name, ADDR=kerfd.address).stdout)
        self.assertGreater(self.metric(kerfd, "kerf_quota_exceeded_total", quota="entries"), 0)
        self.says("or raise the quota in the file")
        self.write(rights + f'[[repository]]\nname = "*"\nmax_entries = {MANY_ENTRIES}\n')
        self.until(lambda: self.back_up(kerfd).returncode == world.OK, "the quota to be seen", world.RELOAD_S)
        quota = self.summary("repo", "quota", name, "--server", kerfd.address)
        self.assertLess(quota["index_entries"], quota["max_entries"])
        # As many streams as a backup needs at least: one who holds them leaves none for another.
        self.write(self.identity(EVERYBODY, "admin", "max_streams = 2"))
        held = []

        def is_refused():
            made = self.upload(kerfd)
            held.append(made)
            try:
                made.until("opened")
                return False
            except upload.Ended as error:
                return error.reason == "QUOTA_EXCEEDED"

        self.until(is_refused, "the quota of streams to be seen", world.RELOAD_S)
        for made in held:
            made.cancel()
        self.says("`kerf backup --streams`")
        self.until(lambda: self.back_up(kerfd, "--streams", "1").returncode == world.OK, "a backup of few streams")

    def expect_ends(self, alert, days):
        """A certificate of so many days is told of, and renewed as the page of KerfCertificateEnds says."""
        folder = self.make_certificates("--days", str(days))
        kerfd = self.start_tls(folder)
        during = self.tls_metrics(kerfd)
        self.expect_fires(alert, during, during)
        for name in ("kerfd.pem", "kerfd.key"):
            shutil.move(folder / name, self.folder / f"old-{name}")
        self.make_certificates()
        self.until(lambda: self.days_left(kerfd) > 14, "the new one to be shown", world.RELOAD_S)
        after = self.tls_metrics(kerfd)
        self.expect_silent(alert, after, after)
        self.kerf("ping", "--server", kerfd.address, "--tls-ca", folder / "ca.pem", ends=world.OK)

    def days_left(self, kerfd):
        return (prometheus.value(self.tls_metrics(kerfd), "kerf_tls_certificate_expires_seconds") - time.time()) / DAY_S

    def test_KerfCertificateEnds(self):
        self.says("move `kerfd.pem` and `kerfd.key` of its folder away, run the same `kerf tls init` again")
        self.says("kerfd sees it within seconds")
        self.says("kerf_tls_certificate_expires_seconds")
        self.expect_ends("KerfCertificateEnds", 10)

    def test_KerfCertificateEndsNow(self):
        self.says("Do what the page of that alert says, now")
        self.expect_ends("KerfCertificateEndsNow", 1)
