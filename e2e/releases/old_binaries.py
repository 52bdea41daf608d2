"""The programs of an earlier release, built from its commit: out/releases/VERSION/kerf and kerfd."""

import os
import pathlib
import shutil
import subprocess

import processes

ROOT = pathlib.Path(__file__).resolve().parents[2]
# As README.md beside this says.
COMMITS = {"0.1.0": "49a072a68e921dd121372691d45759497be1db25"}
PROGRAMS = {"kerf": "//client/agent:kerf", "kerfd": "//server:kerfd"}
BUILD_TIMEOUT_S = 3 * 3600


def build(version):
    """The folder of the programs. What was built once is used again; minutes else."""
    folder = ROOT / "out/releases" / version
    if all(os.access(folder / name, os.X_OK) for name in PROGRAMS):
        return folder
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    commit = COMMITS[version]
    try:
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=True)
    except subprocess.CalledProcessError as error:
        raise processes.Failed(f"no commit {commit}, of which {version} is, in {ROOT}: fetch all of the history "
                               f"(git fetch --unshallow): {error.stderr.decode().strip()}") from error
    subprocess.run(["tar", "--extract", "--directory", str(source)], input=archive.stdout, check=True)
    if (ROOT / ".bazelrc.user").exists():
        shutil.copy(ROOT / ".bazelrc.user", source)
    bazel(source, "build", *PROGRAMS.values())
    for name, label in PROGRAMS.items():
        shutil.copy(source / "bazel-bin" / label.strip("/").replace(":", "/"), folder / name)
    bazel(source, "clean", "--expunge")
    shutil.rmtree(source)
    return folder


def bazel(source, *arguments):
    done = subprocess.run(["bazel", *arguments], cwd=source, capture_output=True, text=True, check=False,
                          timeout=BUILD_TIMEOUT_S)
    if done.returncode != 0:
        raise processes.Failed(f"bazel {' '.join(arguments)} in {source}: {done.stderr[-2000:]}")
