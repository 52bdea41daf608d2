#!/usr/bin/env python3
"""The images of tools/package, by the word of others: the specification's own schemas, skopeo and umoci read them; made twice they are
the same bytes; and of what umoci has unpacked, as the user and with the words that it reads there, the agent backs up by its own kerfd
and by that of the other image.

usage: image_test.py [FOLDER WITH kerf, kerf-lab AND kerfd, AND THEIR DOCUMENTS]   (as root)
"""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

import deb
import image
import image_root
import processes
import version

JUDGE = ROOT / "tools/packaging/oci_judge"
BUILD_TIMEOUT_S = 600
TOOL_TIMEOUT_S = 300
START_S = 60
USER = 65532
PROGRAMS = {"kerf": "/usr/bin/kerfd", "kerf-agent": "/usr/bin/kerf", "kerf-redis": "/usr/bin/redis-server"}
# What their user may write, and all may.
HIS, EVERYBODYS = ("data", "scratch"), ("tmp",)
DOCUMENT = "usr/share/doc/kerf/sbom.spdx.json"
MANIFEST, CONFIG, LAYER = ("application/vnd.oci.image." + kind for kind in ("manifest.v1+json", "config.v1+json", "layer.v1.tar"))


def check(condition, message):
    if not condition:
        sys.exit(f"image_test: {message}")


def run(*words, **options):
    return deb.run(*words, timeout_s=TOOL_TIMEOUT_S, **options)


def judge_program():
    """Built once for its sources, into out/tools."""
    sources = b"".join((JUDGE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    program = ROOT / "out/tools" / f"oci_judge-{hashlib.sha256(sources).hexdigest()[:16]}"
    if not program.is_file():
        print("image_test: building the judge of the OCI image specification", flush=True)
        program.parent.mkdir(parents=True, exist_ok=True)
        deb.run(ROOT / "tools/kubebox/go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, ".", cwd=JUDGE,
                timeout_s=BUILD_TIMEOUT_S, env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"})
    return program


def make_twice(programs, folder):
    """The folder of the images."""
    first, second = folder / "images", folder / "again"
    elsewhere = folder / "a-folder-of-another-length-for-what-is-temporary"
    for path in (first, second, elsewhere):
        path.mkdir()
    image.make(programs, first, version.of_tree(ROOT))
    before = os.umask(0o077)
    os.environ |= {"TMPDIR": str(elsewhere), "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"}
    image.make(programs, second, version.of_tree(ROOT))
    os.umask(before)
    names = sorted(path.name for path in first.iterdir())
    check(names == sorted(path.name for path in second.iterdir()) and len(names) == 2 * len(image.IMAGES) + 1, f"there are {names}")
    for name in names:
        check((first / name).read_bytes() == (second / name).read_bytes(), f"{name} is not the same a second time")
    shutil.rmtree(second)
    print("image_test: made twice, they are the same bytes")
    return first


class Layout:
    """An image's archive, extracted: a layout of the specification."""

    def __init__(self, folder):
        self.folder = folder
        self.seen = {"oci-layout", "index.json"}
        self.index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        check(len(self.index["manifests"]) == 1, "the index has more than one image")
        self.digest = self.index["manifests"][0]["digest"]
        self.manifest_path = self.blob(self.index["manifests"][0], MANIFEST)
        self.manifest = json.loads(self.manifest_path.read_text(encoding="utf-8"))
        self.config_path = self.blob(self.manifest["config"], CONFIG)
        self.config = json.loads(self.config_path.read_text(encoding="utf-8"))
        check(len(self.manifest["layers"]) == 1, "it has more layers than one")
        self.layer = self.blob(self.manifest["layers"][0], LAYER)
        check(self.config["rootfs"]["diff_ids"] == [self.manifest["layers"][0]["digest"]], "the configuration has another layer")
        there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        check(there == self.seen, f"nothing leads to {sorted(there - self.seen)}")

    def blob(self, descriptor, kind):
        """The file that it leads to, which is what it says."""
        algorithm, _, digest = descriptor["digest"].partition(":")
        path = self.folder / "blobs" / algorithm / digest
        data = path.read_bytes()
        check(algorithm == "sha256" and hashlib.sha256(data).hexdigest() == digest, f"{path} is not what it is called")
        check(descriptor["size"] == len(data), f"{path} has {len(data)} bytes, and {descriptor['size']} in its descriptor")
        check(descriptor["mediaType"] == kind, f"{path} is {descriptor['mediaType']}, and not {kind}")
        self.seen.add(str(path.relative_to(self.folder)))
        return path

    def documents(self):
        return [("layout", self.folder / "oci-layout"), ("index", self.folder / "index.json"), ("manifest", self.manifest_path), ("config", self.config_path)]


def extracted(archive, folder):
    folder.mkdir()
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            check(member.isreg() and member.mtime == 0 and not member.uname, f"{archive.name}: {member.name} has a time, a maker, or is no file")
        tar.extractall(folder, filter="data")
    return Layout(folder)


def check_layer(name, layout, document):
    """What nobody but root writes, and nothing that would be more than its user."""
    with tarfile.open(layout.layer) as tar:
        members = {os.path.normpath(member.name): member for member in tar.getmembers()}
        for path, member in members.items():
            check(member.isreg() or member.isdir() or member.issym(), f"{name}: {path} is a device, or a second name of a file")
            owner = USER if path in HIS else 0
            check((member.uid, member.gid) == (owner, owner), f"{name}: {path} belongs to {member.uid}")
            check(not member.mode & (stat.S_ISUID | stat.S_ISGID), f"{name}: {path} gives whoever starts it more than he has")
            check(member.issym() or path in EVERYBODYS or not member.mode & 0o022, f"{name}: others may write {path}")
        program = members[PROGRAMS[name].lstrip("/")]
        check(program.mode & 0o111 == 0o111, f"{name}: its user may not start {program.name}")
        check(tar.extractfile(members[DOCUMENT]).read() == document.read_bytes(), f"{name}: the document beside it is another one")
        has_shell = "usr/bin/sh" in members
    check(has_shell == (name == "kerf-redis"), f"{name}: a shell is there, or the one that keeper.sh needs is not")
    parts = {part["name"] for part in json.loads(document.read_text(encoding="utf-8"))["packages"]}
    check(f"{name}-image" in parts and ("redis-tools" if name == "kerf-redis" else "libgrpc-dev") in parts, f"{name}: its document leaves out parts")


def check_config(name, layout):
    config = layout.config["config"]
    check(config["User"] == f"{USER}:{USER}", f"{name}: its user is {config['User']}")
    check(config["Entrypoint"] == [PROGRAMS[name]], f"{name}: it starts {config['Entrypoint']}")
    check((layout.config["architecture"], layout.config["os"]) == (deb.architecture(), "linux"), f"{name}: it is for another machine")


def check_judge(judge, layout, folder):
    """Nothing is wrong, and what is wrong is found."""
    said = subprocess.run([judge, *(f"{kind}={path}" for kind, path in layout.documents())], capture_output=True, text=True, check=False, timeout=TOOL_TIMEOUT_S)
    check(said.returncode == 0, f"the specification's schemas say: {said.stdout}{said.stderr}")
    wrong = folder / "wrong.json"
    for kind, document, change in (("layout", {"imageLayoutVersion": "1.0.0"}, lambda it: it.pop("imageLayoutVersion")),
                                   ("index", layout.index, lambda it: it["manifests"][0].update(size=str(it["manifests"][0]["size"]))),
                                   ("manifest", layout.manifest, lambda it: it["layers"][0].update(digest="md5")),
                                   ("manifest", layout.manifest, lambda it: it.pop("config")),
                                   ("config", layout.config, lambda it: it["rootfs"].pop("diff_ids")),
                                   ("config", layout.config, lambda it: it["config"].update(Env="HOME=/"))):
        changed = json.loads(json.dumps(document))
        change(changed)
        wrong.write_text(json.dumps(changed), encoding="utf-8")
        said = subprocess.run([judge, f"{kind}={wrong}"], capture_output=True, text=True, check=False, timeout=TOOL_TIMEOUT_S)
        check(said.returncode == 1, f"the judge finds nothing wrong with the {kind} {wrong.read_text(encoding='utf-8')[:300]}")


def check_skopeo(name, archive, layout, folder):
    """It knows the image by our digest, makes of it what `docker load` takes, and does not take one of whose layer a byte is another."""
    told = json.loads(run("skopeo", "inspect", f"oci-archive:{archive}"))
    check(told["Digest"] == layout.digest, f"{name}: skopeo calls it {told['Digest']}, and we {layout.digest}")
    loadable = folder / f"{name}.docker.tar"
    run("skopeo", "--insecure-policy", "copy", "--quiet", f"oci-archive:{archive}", f"docker-archive:{loadable}:localhost/{name}:x")
    loadable.unlink()
    damaged = folder / f"{name}-damaged"
    shutil.copytree(layout.folder, damaged)
    with open(damaged / layout.layer.relative_to(layout.folder), "r+b") as layer:
        layer.seek(layer.seek(0, os.SEEK_END) // 2)
        byte = layer.read(1)
        layer.seek(-1, os.SEEK_CUR)
        layer.write(bytes([byte[0] ^ 1]))
    said = subprocess.run(["skopeo", "--insecure-policy", "copy", "--quiet", f"oci:{damaged}", f"dir:{folder / name}-taken"], capture_output=True, text=True,
                          check=False, timeout=TOOL_TIMEOUT_S)
    check(said.returncode != 0 and "digest" in said.stderr.lower(), f"{name}: skopeo takes a damaged layer: {said.stderr}")
    shutil.rmtree(damaged)


class Unpacked:
    """What umoci makes of an image for a runtime of containers: a root, and how to start the program."""

    def __init__(self, name, layout, bundle):
        run("umoci", "unpack", "--image", f"{layout.folder}:{version.of_tree(ROOT)}", bundle)
        self.root = bundle / "rootfs"
        process = json.loads((bundle / "config.json").read_text(encoding="utf-8"))["process"]
        check((process["user"]["uid"], process["user"]["gid"]) == (USER, USER), f"{name}: umoci reads the user {process['user']}")
        check(process["args"] == [PROGRAMS[name]], f"{name}: umoci starts {process['args']}")
        self.args = process["args"]
        # The image's own last: umoci 0.4 takes HOME of etc/passwd in its place, which the specification does not want. PATH is for those
        # who make the root, and has nothing in there.
        told = [*process["env"], *layout.config["config"].get("Env", []), f"PATH={os.environ['PATH']}"]
        self.env = dict(entry.split("=", 1) for entry in told)

    def words(self, *arguments, data=None):
        return image_root.inside(self.root, USER, *self.args, *arguments, data=data)

    def run(self, *arguments, data):
        return run(*self.words(*arguments, data=data), env=self.env)


@contextlib.contextmanager
def served(kerfd, data):
    """The address of a kerfd in its root."""
    server = subprocess.Popen(kerfd.words("--listen=127.0.0.1:0", "--data-dir=/data/index", "--ready-file=/data/ready", "--gpu=off", data=data), env=kerfd.env)
    try:
        processes.wait_until((data / "ready").exists, START_S, "the start of kerfd in its image", processes=[server])
        status = pathlib.Path(f"/proc/{server.pid}/status").read_text(encoding="utf-8")
        check(os.stat(f"/proc/{server.pid}/root").st_ino == kerfd.root.stat().st_ino, "kerfd is not in its root")
        check(f"\nUid:\t{USER}\t{USER}\t{USER}\t{USER}\n" in status and "\nCapEff:\t0000000000000000\n" in status, f"kerfd runs as somebody else: {status}")
        yield (data / "ready").read_text(encoding="utf-8").strip()
    finally:
        server.terminate()
        check(server.wait(START_S) == 0, "kerfd does not stop as it should")


def check_backups(kerfd, agent, folder):
    """By the agent's own kerfd, and by that of the other image."""
    data, servers = folder / "data", folder / "servers"
    for path in (data, servers, data / "source"):
        path.mkdir()
    for number in range(20):
        (data / "source" / f"file-{number}").write_bytes(os.urandom(1 << 16) + bytes(number))
    for path in (data, servers, *data.rglob("*")):
        os.chown(path, USER, USER)
    with served(kerfd, servers) as address:
        for store, more in (("own", ()), ("shared", ("--server", address))):
            agent.run("backup", "/data/source", "--store", f"/data/{store}", *more, data=data)
            agent.run("restore", "latest", "--store", f"/data/{store}", "--target", f"/data/{store}-restored", data=data)
            run("diff", "-r", data / "source", data / f"{store}-restored/data/source")
    check((data / ".local/state/kerf").is_dir(), "the agent does not keep what it remembers in its volume")


def main():
    programs = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "out").resolve()
    check(os.geteuid() == 0, "as root: it starts programs in roots of their own")
    judge = judge_program()
    with tempfile.TemporaryDirectory(prefix="kerf-image-test-") as temporary:
        folder = pathlib.Path(temporary)
        folder.chmod(0o755)
        made = make_twice(programs, folder)
        listed = dict(line.split(" ", 1) for line in (made / image.LIST).read_text(encoding="utf-8").splitlines())
        unpacked = {}
        for name in image.IMAGES:
            archive = made / image.archive_name(name, version.of_tree(ROOT))
            layout = extracted(archive, folder / f"{name}-layout")
            check(listed[f"{name}:{version.of_tree(ROOT)}"] == f"{layout.digest} {archive.name}", f"{image.LIST} says something else of {name}")
            check_layer(name, layout, archive.with_suffix(".spdx.json"))
            check_config(name, layout)
            check_judge(judge, layout, folder)
            check_skopeo(name, archive, layout, folder)
            unpacked[name] = Unpacked(name, layout, folder / f"{name}-bundle")
            shutil.rmtree(layout.folder)
            print(f"image_test: {name}: {layout.digest}, by the specification's schemas, skopeo and umoci")
        check("v=7" in unpacked["kerf-redis"].run("--version", data=None), "redis-server says another version")
        check_backups(unpacked["kerf"], unpacked["kerf-agent"], folder)
        print("image_test: what they start runs as their user, and backups come back")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (deb.Failed, processes.Failed) as failure:
        sys.exit(f"image_test: {failure}")
