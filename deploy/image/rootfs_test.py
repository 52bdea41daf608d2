#!/usr/bin/env python3
"""The images' roots: their programs run in them and nothing else of this machine, as 65532, read-only, and a backup
through a kerfd in such a root comes back. The same root is made of the same files a second time, byte for byte, and tells what it
is made of. And the Dockerfile makes the same roots. Leaves what they are made of in out/images, for tools/cve_check.

usage: rootfs_test.py [FOLDER WITH kerf, kerf-lab AND kerfd]   (as root, or where unshare --user is allowed)
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "deploy/image"
sys.path[:0] = [str(ROOT / "loadtest"), str(ROOT / "tools/python")]

import image_root
import processes
import report_log

DOCUMENT = "usr/share/doc/kerf/sbom.spdx.json"
# For tools/cve_check.
DOCUMENTS = ROOT / "out/images"
PATIENCE_S = 30
VALIDATION_S = 120
# Wheels are fetched, the first time.
INSTALL_S = 300
ASSEMBLY_S = 120
# Some seconds, and the start of two Pythons.
LOAD_S = 120
USER = "65532"


def check(condition, message):
    if not condition:
        sys.exit(f"rootfs_test: {message}")


def images():
    return sorted(path.name for path in (HERE / "contents").iterdir())


def check_dockerfile():
    text = (HERE / "Dockerfile").read_text()
    stages = {name: body for name, body in re.findall(r"^FROM scratch AS (\S+)\n(.*?)(?=^FROM|\Z)", text, re.S | re.M)}
    check(sorted(stages) == images(), f"the Dockerfile's targets are {sorted(stages)}, deploy/image/contents has {images()}")
    for name, body in stages.items():
        made = re.findall(r"rootfs (\S+) (\S+)", text)
        check((name, f"/root-of/{name}") in made, f"Dockerfile: nothing runs deploy/image/rootfs for {name}")
        check(re.search(rf"^COPY --from=\S+ /root-of/{name} /$", body, re.M), f"Dockerfile: {name} is not its root")
        check(f"USER {USER}:{USER}" in body, f"Dockerfile: {name} does not run as {USER}")
        program = re.search(r'^ENTRYPOINT \["([^" ]+)"', body, re.M)
        check(program and re.search(rf"^{program[1]} ", (HERE / "contents" / name).read_text(), re.M),
              f"Dockerfile: {name} starts what it does not have")
    for source in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.M):
        check((ROOT / source).exists(), f"Dockerfile: there is no {source}")


def run(*words, timeout=PATIENCE_S, **options):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout, **options)
    check(done.returncode == 0, f"{' '.join(map(str, words))}: exit code {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout


def check_root(root, image, version):
    owners = {path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_mode & 0o022}
    check(not owners, f"{image}: others may write {owners}")
    for path in root.rglob("*"):
        if path.is_symlink():
            check(os.path.lexists(root / "usr/bin" / os.readlink(path)) or (root / os.readlink(path)).exists(),
                  f"{image}: {path} leads nowhere")
    if image == "kerf-redis":
        check("v=7" in run(*image_root.inside(root, USER, "/usr/bin/redis-server", "--version")), "redis-server says another version")
        run(*image_root.inside(root, USER, "/usr/bin/redis-cli", "--version"))
        run(*image_root.inside(root, USER, "/usr/bin/prometheus-redis-exporter", "-version"))
        keeper = (ROOT / "deploy/components/redis/keeper.sh").read_text()
        for tool in ("awk", "cat", "grep", "head", "mkdir", "rm", "sed", "sha256sum", "sleep", "sort", "tail", "timeout", "touch", "tr", "wc"):
            check((root / "usr/bin" / tool).exists(), f"contents/kerf-redis has no {tool}")
            check(re.search(rf"\b{tool}\b", keeper), f"contents/kerf-redis has {tool}, which keeper.sh does not call")
        for script in (keeper, (ROOT / "deploy/components/redis-metrics/exporter.sh").read_text()):
            run(*image_root.inside(root, USER, "/bin/sh", "-n"), input=script)
    elif image == "kerf-loadtest":
        check("locust" in run(*image_root.inside(root, USER, "/usr/bin/python3", "-m", "locust", "--version")), "Locust says nothing of itself")
    else:
        programs = re.findall(r"^/usr/bin/(kerf[a-z-]*) ", (HERE / "contents" / image).read_text(), re.M)
        check({"kerf", "kerfd"} <= set(programs), f"contents/{image} has only {programs}")
        for program in programs:
            check(run(*image_root.inside(root, USER, f"/usr/bin/{program}", "--version")).strip() == f"{program} {version}",
                  f"{image}: {program} is another version")
        check((root / "usr/bin/sh").exists() is False, f"{image}: has a shell")


def check_again(root, image, tar, environment):
    """A second root, as a tar: of the same files with nothing of its own time or maker, in the order of their names."""
    run(HERE / "rootfs", image, tar, timeout=ASSEMBLY_S, env=environment)
    with tarfile.open(tar) as archive:
        members = archive.getmembers()
        own = [member.name for member in members if re.match(r"\./(data|scratch)$", member.name)]
        others = [member.name for member in members if member.name not in own]
        # tar sorts folder by folder.
        check(others == sorted(others, key=lambda name: name.split("/")), f"{image}: the tar is not sorted")
        first = ["."] + [f"./{path.relative_to(root)}" for path in root.rglob("*")]
        check(sorted(others + own) == sorted(first), f"{image}: the second root has other files")
        for member in members:
            check(member.mtime == 0 and not member.uname, f"{image}: {member.name} has a time or a name of who made it")
            path = root / member.name
            check(member.mode == path.stat(follow_symlinks=False).st_mode & 0o7777 or member.issym(), f"{image}: {member.name} has other rights")
            if member.isfile():
                # By the sum of their sources: by their time they would be others in the next checkout.
                check(not path.suffix == ".pyc" or path.read_bytes()[4:8] == b"\1\0\0\0", f"{image}: {member.name} has the time of its source")
                check(archive.extractfile(member).read() == path.read_bytes(), f"{image}: {member.name} is not the same a second time")


def check_documents(roots):
    """They are SPDX, and name what scanners did not see."""
    DOCUMENTS.mkdir(parents=True, exist_ok=True)
    for image, root in roots.items():
        shutil.copyfile(root / DOCUMENT, DOCUMENTS / f"{image}.spdx.json")
        parts = {entry["name"] for entry in json.loads((root / DOCUMENT).read_text(encoding="utf-8"))["packages"]}
        wanted = {"kerf-redis": {"redis-tools", "golang-1.19"}, "kerf-loadtest": {"locust", "grpcio", "python3.11-minimal"}}.get(
            image, {"libgrpc-dev", "libssl-dev", "libnghttp2-dev", "librocksdb7.8", "kerfd"})
        check(wanted <= parts, f"{image}: its document has no {', '.join(sorted(wanted - parts))}")
    run(ROOT / "tools/sbom", "validate", *sorted(ROOT.glob("out/*.spdx.json")), *sorted(DOCUMENTS.glob("*.spdx.json")), timeout=VALIDATION_S)


def check_archive(image, tar, folder):
    """The digest that is printed is that of the manifest which a registry would have."""
    said = [run(HERE / "archive", image, tar, folder / f"{name}.oci.tar").strip() for name in "ab"]
    check((folder / "a.oci.tar").read_bytes() == (folder / "b.oci.tar").read_bytes() and said[0] == said[1], f"{image}: two archives of one root")
    with tarfile.open(folder / "a.oci.tar") as archive:
        manifest = archive.extractfile(f"blobs/{said[0].replace(':', '/')}").read()
        check("sha256:" + hashlib.sha256(manifest).hexdigest() == said[0], f"{image}: {said[0]} is not its digest")
        config = json.loads(archive.extractfile(f"blobs/{json.loads(manifest)['config']['digest'].replace(':', '/')}").read())["config"]
        check(config == {"Entrypoint": ["/usr/bin/kerfd"], "User": f"{USER}:{USER}"}, f"{image}: its configuration is {config}")


def check_load(root, address):
    """A master and a worker in their roots, as pods have them, against that kerfd."""
    options = ["/usr/lib/kerf/loadtest/scenarios/smoke.toml", "--slo=/usr/lib/kerf/loadtest/smoke_slo.toml", "--out=/tmp/reports",
               f"--address={address}", "--time=3"]
    program = image_root.inside(root, USER, "/usr/bin/python3", "/usr/lib/kerf/loadtest/run.py", *options)
    port = processes.free_port()
    worker = subprocess.Popen([*program, f"--worker=127.0.0.1:{port}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        log = run(*program, "--master=1", "--reports-to-log", "--", "--master-bind-host=127.0.0.1", f"--master-bind-port={port}",
                  timeout=LOAD_S)
    except BaseException:
        worker.terminate()
        print(worker.communicate(timeout=PATIENCE_S)[0], file=sys.stderr)
        raise
    check(worker.wait(PATIENCE_S) == 0, f"the worker ends badly: {worker.stdout.read()}")
    texts, rest = report_log.read(log)
    check("report_stats.csv" in texts and "<html" in texts["report.html"], f"the reports in the log are {sorted(texts)}")
    check("each checked" in rest, "the master's log has no verdict")


def check_backup(root, folder, loadtest):
    """A kerfd in its root, with its index in /data, and the agent from the same root; then the load test on it."""
    data, store, source, target = (folder / name for name in ("data", "store", "source", "target"))
    for path in (data, store, source):
        path.mkdir()
    for number in range(20):
        (source / f"file-{number}").write_bytes(os.urandom(1 << 16) + bytes(number))
    shutil.chown(data, int(USER), int(USER))
    server = subprocess.Popen(image_root.inside(root, USER, "/usr/bin/kerfd", "--listen=127.0.0.1:0", "--data-dir=/data/index",
                                     "--ready-file=/data/ready", "--gpu=off", data=data))
    try:
        processes.wait_until((data / "ready").exists, PATIENCE_S, "rootfs_test: the start of kerfd in its root",
                             processes=[server], error=SystemExit)
        check(os.stat(f"/proc/{server.pid}/root").st_ino == root.stat().st_ino, "kerfd is not in its root")
        check(os.stat(f"/proc/{server.pid}").st_uid == int(USER), f"kerfd does not run as {USER}")
        address = (data / "ready").read_text().strip()
        kerf = root / "usr/bin/kerf"
        run(kerf, "backup", source, "--store", store, "--server", address)
        run(kerf, "restore", "latest", "--store", store, "--target", target)
        run("diff", "-r", source, target / str(source).lstrip("/"))
        check_load(loadtest, address)
    finally:
        server.terminate()
        check(server.wait(PATIENCE_S) == 0, "kerfd does not stop as it should")


def main():
    run(ROOT / "loadtest/install", timeout=INSTALL_S)
    programs = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "out").resolve()
    check_dockerfile()
    version = run(programs / "kerfd", "--version").split()[1]
    with tempfile.TemporaryDirectory(prefix="kerf-rootfs-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        environment = {**os.environ, "KERF_IMAGE_PROGRAMS": str(programs)}
        roots = {image: folder / image for image in images()}
        for image, root in roots.items():
            run(HERE / "rootfs", image, root, timeout=ASSEMBLY_S, env=environment)
            check_root(root, image, version)
            print(f"rootfs_test: {image}: its programs run in it")
        check_documents(roots)
        # The others are kerf with a file more or less.
        for image in ("kerf", "kerf-redis", "kerf-loadtest"):
            check_again(roots[image], image, folder / f"{image}.tar", environment)
        check_archive("kerf", folder / "kerf.tar", folder)
        print("rootfs_test: what they are made of is told, and made a second time they are the same bytes")
        check_backup(folder / "kerf", folder, folder / "kerf-loadtest")
        print("rootfs_test: kerf: a backup came back; kerf-loadtest: a master and a worker put load on it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
