"""A Redis Cluster of six nodes, with an exporter beside each, as the manifests have them. Here a node is a process, and what the
pages do with a pod is done to that."""

import os
import pathlib
import shutil
import subprocess
import urllib.error
import urllib.request

import processes
import prometheus
import world

NODES = 6
PASSWORD = "of-this-test"


class RedisTest(world.RunbookTest):
    def start_cluster(self, *flags):
        self.cluster = self.redis(*flags, password=PASSWORD)
        self.ports = processes.free_ports(NODES)
        for number, address in enumerate(self.cluster.addresses()):
            command = ["prometheus-redis-exporter", "-web.listen-address", f"127.0.0.1:{self.ports[number]}", "-redis.addr",
                       f"redis://{address}", "-set-client-name=false"]
            log = open(self.folder / f"exporter-{number}.log", "ab")
            self.addCleanup(log.close)
            exporter = subprocess.Popen(command, env={"PATH": os.environ["PATH"], "REDIS_PASSWORD": PASSWORD},
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.addCleanup(processes.stop, exporter)
        for number in range(NODES):
            self.until(lambda pod=number: self.shown(pod), "an exporter to answer")

    def shown(self, number):
        """What Prometheus would read; empty: nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[number]}/metrics", timeout=world.HTTP_TIMEOUT_S) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, OSError):
            return ""

    def state(self, *without):
        """Of all pods but those that are away."""
        return {f"kerf-redis-{number}": self.shown(number) for number in range(NODES) if number not in without}

    def replica(self):
        """(its number, its master's), from 0."""
        ports = [address.rpartition(":")[2] for address in self.cluster.addresses()]
        for number in range(NODES):
            if self.cluster.info("role", number + 1) == "slave":
                return number, ports.index(self.cluster.info("master_port", number + 1))
        self.fail("there is no replica")

    def expect_covered(self):
        said = self.cluster.ask("--cluster", "check", self.cluster.addresses()[0])
        self.assertIn("All 16384 slots covered", said)

    def kerfd_with_cluster(self):
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o600)
        return self.start("kerfd", *self.cluster.flags(replicas=1), "--redis-password-file", password)

    def test_KerfRedisDown(self):
        self.start_cluster()
        kerfd = self.kerfd_with_cluster()
        self.back_up(kerfd, ends=world.OK)
        before = self.state()
        number, _ = self.replica()
        self.cluster.kill(number + 1)
        self.until(lambda: prometheus.value(self.shown(number), "redis_up") == 0, "the exporter to see it")
        self.says("`redis_up`")
        self.expect_fires("KerfRedisDown", before, self.state())
        self.says("Its shard takes no commits until it, or its replica, is back")
        self.cluster.start(number + 1)
        self.until(lambda: prometheus.value(self.shown(number), "redis_up") == 1, "it to be back")
        self.says("`redis_up` of all six is 1")
        self.expect_silent("KerfRedisDown", self.state(), self.state())
        self.says("`redis-cli --cluster check` says that all slots are covered")
        self.expect_covered()
        self.until(lambda: self.back_up(kerfd).returncode == world.OK, "commits to be taken")

    def test_KerfRedisMissing(self):
        self.start_cluster()
        kerfd = self.kerfd_with_cluster()
        before = self.state()
        _, master = self.replica()
        self.cluster.kill(master + 1)
        self.expect_fires("KerfRedisMissing", before, self.state(master))
        self.says("takes no commits until its replica has taken over")
        # The pod that is made anew has its old volume.
        self.cluster.start(master + 1)
        self.until(lambda: prometheus.value(self.shown(master), "redis_up") == 1, "it to be back")
        self.says("`count(redis_up)` is 6")
        self.assertEqual(sum(prometheus.value(text, "redis_up") for text in self.state().values()), NODES)
        self.expect_silent("KerfRedisMissing", self.state(), self.state())
        self.until(lambda: "All 16384 slots covered" in self.cluster.ask("--cluster", "check", self.cluster.addresses()[master]),
                   "the cluster to be whole")
        self.until(lambda: self.back_up(kerfd).returncode == world.OK, "commits to be taken")

    def test_KerfRedisReplicaCutOff(self):
        self.start_cluster()
        before = self.state()
        number, master = self.replica()
        self.says("WRONGPASS")
        self.cluster.ask("CONFIG", "SET", "masterauth", "another", node=number + 1)
        self.cluster.ask("CLIENT", "KILL", "TYPE", "replica", node=master + 1)
        self.until(lambda: self.cluster.info("master_link_status", number + 1) == "down", "it to be cut off")
        self.says("`redis_master_link_up` is 0 for that pod")
        self.expect_fires("KerfRedisReplicaCutOff", before, self.state())
        log = pathlib.Path(self.folder / f"redis/node{number + 1}/log").read_text(errors="replace")
        self.assertIn(self.says("WRONGPASS"), log)
        # What `deploy/redis-password keeper` does in the end.
        self.says("run `deploy/redis-password keeper` once more")
        self.cluster.ask("CONFIG", "SET", "masterauth", PASSWORD, node=number + 1)
        self.until(lambda: self.cluster.info("master_link_status", number + 1) == "up", "it to follow again")
        self.expect_silent("KerfRedisReplicaCutOff", self.state(), self.state())
        self.expect_covered()

    def test_KerfRedisMemoryFull(self):
        self.start_cluster()
        self.says("`maxmemory`")
        for node in range(1, NODES + 1):
            self.cluster.ask("CONFIG", "SET", "maxmemory", 256 * world.MIB, node=node)
        before = self.state()
        self.expect_silent("KerfRedisMemoryFull", before, before)
        used = int(self.cluster.info("used_memory", 1))
        self.cluster.ask("CONFIG", "SET", "maxmemory", used * 105 // 100)
        self.expect_fires("KerfRedisMemoryFull", before, self.state())
        kerfd = self.kerfd_with_cluster()
        self.step("kerf repo list --server FRONT", FRONT=kerfd.address)
        self.says("Raise `maxmemory`")
        self.cluster.ask("CONFIG", "SET", "maxmemory", 256 * world.MIB)
        self.expect_silent("KerfRedisMemoryFull", self.state(), self.state())

    def make_certificates(self, folder, *more):
        self.kerf("tls", "init", folder, "--name", "127.0.0.1", *more, ends=world.OK)
        for kind in ("pem", "key"):
            shutil.copyfile(folder / f"kerfd.{kind}", folder / f"redis.{kind}")

    def test_KerfRedisCertificateEnds(self):
        folder = self.folder / "tls"
        self.make_certificates(folder, "--days", "10")
        redis = self.redis("--masters", "1", "--replicas", "0", "--single", "--tls", folder)
        flags = (*redis.flags(), "--redis-tls-ca", folder / "ca.pem", "--tls-cert", folder / "kerfd.pem", "--tls-key",
                 folder / "kerfd.key")
        kerfd = self.start("kerfd", *flags)
        self.says("kerf_redis_certificate_expires_seconds")
        during = kerfd.metrics(folder / "ca.pem")
        self.expect_fires("KerfRedisCertificateEnds", during, during)
        self.says("move `redis-tls/kerfd.pem` and `.key` away, run the same `kerf tls init redis-tls` again")
        for kind in ("pem", "key"):
            (folder / f"kerfd.{kind}").unlink()
        self.make_certificates(folder)
        tls = ("--tls", "--cert", folder / "redis.pem", "--key", folder / "redis.key", "--cacert", folder / "ca.pem")
        # As the keeper does, who sees what the kubelet has written.
        redis.ask(*tls, "CONFIG", "SET", "tls-cert-file", folder / "redis.pem", "tls-key-file", folder / "redis.key")
        self.says("Workers look at a new connection")
        kerfd = self.restart(kerfd, *flags)
        after = kerfd.metrics(folder / "ca.pem")
        self.expect_silent("KerfRedisCertificateEnds", after, after)
        self.back_up(kerfd, ends=world.OK)
