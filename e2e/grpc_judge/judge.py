#!/usr/bin/env python3
"""kerfd's protos, health, reflection and errors, by the word of programs that know nothing of kerf: see run."""

import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import grpc
from google.protobuf import descriptor_pb2
from google.rpc import error_details_pb2, status_pb2

KERFD, BUILT = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"
PATIENCE_S = 60
COMPILE_S = 900
PROTOS = sorted(str(path.relative_to(PROTO)) for path in (PROTO / "kerf").rglob("*.proto"))
SERVICES = ["kerf.v1.ChunkingService", "kerf.v1.IndexService", "kerf.v1.RepositoryService", "kerf.v1.StatusService"]
OPEN = {"repository": "home", "profile": "fastcdc2020-8k", "digestAlgorithm": "DIGEST_ALGORITHM_BLAKE3", "storeEpoch": "1"}


def run(*command, text="", cwd=ROOT, timeout=PATIENCE_S, env=None):
    """(exit status, standard output, standard error)"""
    done = subprocess.run([str(part) for part in command], input=text, capture_output=True, text=True, check=False, cwd=cwd,
                          timeout=timeout, env={**os.environ, **(env or {})})
    return done.returncode, done.stdout, done.stderr


class Kerfd:
    """A worker, or a front, at an address of its own."""

    def __init__(self, folder, name, *flags):
        self.log = folder / f"{name}.log"
        ready = folder / f"{name}.ready"
        with self.log.open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [KERFD, "--listen", "127.0.0.1:0", "--ready-file", ready, "--metrics-listen", "127.0.0.1:0", *flags],
                stdout=log, stderr=log)
        until = time.monotonic() + PATIENCE_S
        while not ready.exists():
            assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.01)
        self.address = ready.read_text().split("\n")[0]

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE_S)


class Judge(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.worker = Kerfd(cls.folder, "worker", "--data-dir", cls.folder / "data")
        cls.front = Kerfd(cls.folder, "front", "--role", "front", "--workers", cls.worker.address)
        cls.addresses = (cls.worker.address, cls.front.address)

    @classmethod
    def tearDownClass(cls):
        cls.front.stop()
        cls.worker.stop()
        cls.scratch.cleanup()

    # PRO-3

    def test_health_probe_asks_for_each_service(self):
        def probe(address, service):
            return run(BUILT / "bin/grpc-health-probe", "-addr", address, "-service", service)

        for address in self.addresses:
            for service in ["", *SERVICES]:
                code, out, err = probe(address, service)
                self.assertEqual(code, 0, err)
                self.assertIn("SERVING", out + err)
            self.assertNotEqual(probe(address, "kerf.v1.NoService")[0], 0)
        self.assertEqual(probe(self.front.address, "kerf.v1.RoutingService")[0], 0)
        self.assertNotEqual(probe(self.worker.address, "kerf.v1.RoutingService")[0], 0)

    # PRO-4

    def grpcurl(self, *arguments, text=""):
        return run(BUILT / "bin/grpcurl", "-plaintext", *arguments, text=text)

    def test_grpcurl_learns_all_by_reflection(self):
        code, out, err = self.grpcurl(self.worker.address, "list")
        self.assertEqual(code, 0, err)
        self.assertEqual([name for name in out.split() if name.startswith("kerf.")], SERVICES)
        for address in self.addresses:
            for symbol, part in (("kerf.v1.ChunkingService", "rpc Upload"), ("kerf.v1.IndexService", "rpc AdvanceEpoch"),
                                 ("google.rpc.ErrorInfo", "string reason = 1"), ("google.rpc.RetryInfo", "retry_delay = 1"),
                                 ("google.rpc.QuotaFailure", "violations = 1")):
                code, out, err = self.grpcurl(address, "describe", symbol)
                self.assertEqual(code, 0, err)
                self.assertIn(part, out)

    def test_grpcurl_calls_and_reads_errors(self):
        for address in self.addresses:
            code, out, err = self.grpcurl(address, "kerf.v1.ChunkingService/GetCapabilities")
            self.assertEqual(code, 0, err)
            self.assertIn("DIGEST_ALGORITHM_BLAKE3", json.loads(out)["digest_algorithms"])
            code, out, err = self.grpcurl(address, "kerf.v1.IndexService/GetIndexStats")
            self.assertNotEqual(code, 0)
            for part in ("InvalidArgument", "type.googleapis.com/google.rpc.ErrorInfo", '"reason":"BAD_FIELD"', '"domain":"kerf"'):
                self.assertIn(part.replace(" ", ""), err.replace(" ", ""))

    def test_grpcurl_uploads(self):
        frames = {"frames": [{"open": {**OPEN, "repository": "grpcurl"}}]}
        code, out, err = self.grpcurl("-d", "@", self.front.address, "kerf.v1.ChunkingService/Upload", text=json.dumps(frames))
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["answers"][0]["opened"]["limits"]["max_uncommitted_chunks"], 65536)

    # The protos as they are

    def test_go_compiles_them(self):
        folder = self.folder / "go"
        folder.mkdir()
        programs = ROOT / "e2e/grpc_judge/programs"
        shutil.copy(programs / "go.sum", folder)
        (folder / "go.mod").write_text((programs / "go.mod").read_text().replace("module kerf/e2e/grpc_judge/programs", "module kerf/client/go"))
        code, _, err = run("protoc", f"-I{PROTO}", f"--plugin={BUILT}/bin/protoc-gen-go", f"--plugin={BUILT}/bin/protoc-gen-go-grpc",
                           f"--go_out={folder}", "--go_opt=module=kerf/client/go", f"--go-grpc_out={folder}",
                           "--go-grpc_opt=module=kerf/client/go", *PROTOS)
        self.assertEqual(code, 0, err)
        self.assertTrue((folder / "kerfv1/chunking_grpc.pb.go").exists())
        code, out, err = run(ROOT / "tools/kubebox/go", "build", "./...", cwd=folder, timeout=COMPILE_S,
                             env={"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"})
        self.assertEqual(code, 0, out + err)

    def test_rust_compiles_them(self):
        code, out, err = run("cargo", "test", "--quiet", "--locked", "--manifest-path", BUILT / "rust/Cargo.toml",
                             "--target-dir", BUILT / "rust/target", timeout=COMPILE_S,
                             env={"KERF_PROTO": str(PROTO), "KERF_TRANSCRIPT": str(ROOT / "docs/spec/transcript.md")})
        self.assertEqual(code, 0, out + err)

    def compile_for_python(self):
        folder = self.folder / "python"
        if not folder.exists():
            folder.mkdir()
            code, _, err = run(sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"--python_out={folder}",
                               f"--grpc_python_out={folder}", *PROTOS)
            self.assertEqual(code, 0, err)
            sys.path.append(str(folder))
        return folder

    # Classes of google.rpc and grpc.health are those of their packages, whatever of proto/ is compiled beside them.
    def test_nothing_of_others_is_among_them(self):
        self.assertEqual([path.name for path in PROTO.iterdir() if path.is_dir()], ["kerf"])
        self.assertEqual([path.name for path in self.compile_for_python().iterdir()], ["kerf"])

    def test_what_kerf_has_of_google_rpc_is_a_part_of_it(self):
        done = subprocess.run(["protoc", f"-I{ROOT}/base/rpc", "--descriptor_set_out=/dev/stdout", "google/rpc/status.proto",
                               "google/rpc/error_details.proto"], stdout=subprocess.PIPE, check=True)
        compared = 0
        for file in descriptor_pb2.FileDescriptorSet.FromString(done.stdout).file:
            whole = {module.DESCRIPTOR.name: module.DESCRIPTOR for module in (status_pb2, error_details_pb2)}[file.name]
            for message in file.message_type:
                compared += self.compare(message, whole.message_types_by_name[message.name])
        self.assertGreater(compared, 8)

    def compare(self, message, whole):
        """How many fields there are, each of which is as in the whole one."""
        known = descriptor_pb2.DescriptorProto()
        whole.CopyToProto(known)
        fields = {field.name: (field.number, field.type, field.label, field.type_name) for field in known.field}
        for field in message.field:
            self.assertEqual((field.number, field.type, field.label, field.type_name), fields.get(field.name), field.name)
        return len(message.field) + sum(self.compare(inner, whole.nested_types_by_name[inner.name]) for inner in message.nested_type)

    def test_python_uploads_and_reads_errors(self):
        self.compile_for_python()
        from kerf.v1 import chunking_pb2, chunking_pb2_grpc  # pylint: disable=import-outside-toplevel,no-name-in-module
        opening = chunking_pb2.Open(repository="python", profile=OPEN["profile"], store_epoch=1,
                                    digest_algorithm=chunking_pb2.DIGEST_ALGORITHM_BLAKE3)
        with grpc.insecure_channel(self.front.address) as channel:
            stub = chunking_pb2_grpc.ChunkingServiceStub(channel)
            # What PRO-10 says of Python.
            frames = queue.Queue(maxsize=8)

            def send(**frame):
                frames.put(chunking_pb2.UploadRequest(frames=[chunking_pb2.UploadFrame(**frame)]))

            answers = (answer for response in stub.Upload(iter(frames.get, None)) for answer in response.answers)
            send(open=opening)
            self.assertTrue(next(answers).HasField("opened"))
            send(file_begin=chunking_pb2.FileBegin())
            send(file_end=chunking_pb2.FileEnd(content_hash=bytes.fromhex("99aa06d3014798d86001c324468d497f")))
            self.assertEqual(next(answers).file_done.file_number, 1)
            send(commit=chunking_pb2.Commit(entries=[chunking_pb2.CommitEntry(digest=bytes(32), locator=b"x")]))
            with self.assertRaises(grpc.RpcError) as caught:
                next(answers)
            frames.put(None)
        error = caught.exception
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        info = error_details_pb2.ErrorInfo()
        status = status_pb2.Status.FromString(details)
        self.assertTrue(status.details[0].Unpack(info))
        self.assertEqual((info.domain, info.reason), ("kerf", "UNKNOWN_DIGEST"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
