#!/usr/bin/env python3
"""The packages, as an administrator meets them: a small Debian with systemd, which has nothing else of this machine, is booted in a
container; they are installed, started, backed up with, reloaded, upgraded, downgraded, removed, installed again and purged. A
program in C is made with libkerf-dev's files, and runs there. And they are made twice, and their pages say what --help says.

usage: package_test.py [FOLDER WITH kerf, kerf-lab, kerfd AND libkerf.so.0, AND THEIR DOCUMENTS]   (as root)
"""

import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python"))

import bare_root
import container
import deb
import library
import man
import package
import processes

TIMEOUT_S = 60
CHANGE_S = 30
# As tools/package names today's, and one before it.
OLDER = "0.0.9~test"
# What `systemd-analyze security` gives at most: of ten, in tenths.
MOST_EXPOSED = 20
LIMIT = 524288
# A program that is linked with libkerf.
LINKED = "/usr/local/bin/upload_twice"
TREE = "/srv/tree"
STORE = "/srv/store"
# What the bare root has beside what boots: what kerf's packages need of others.
LIBRARIES = ("librocksdb7.8", "libstdc++6", "libisal2")


def check(condition, message):
    if not condition:
        sys.exit(f"package_test: {message}")


def words(text):
    return re.findall(r"[A-Za-z0-9_.:/=-]+", text)


def check_pages(programs):
    """Nothing of --help is left out, and troff has nothing to say."""
    with tempfile.TemporaryDirectory(prefix="kerf-pages-") as name:
        folder = pathlib.Path(name)
        count = 0
        for program, section in (("kerf", 1), ("kerfd", 8)):
            for page, text in man.pages(programs / program, section, "2026-01-01", "0").items():
                (folder / page).write_text(text, encoding="utf-8")
                verbs = page.removesuffix(f".{section}")
                told = words(man.help_of(programs / program, tuple(verbs_of(programs / program, verbs))))
                shown = words(text.replace("\\-", "-").replace("\\e", "\\").replace("\\&", ""))
                missing = set(told) - set(shown) - {"Usage:", "Positionals:", "Options:", "Subcommands:", "Examples:"}
                check(not missing, f"{page} leaves out {sorted(missing)}")
                count += 1
        header = (ROOT / "client/c/kerf.h").read_text(encoding="utf-8")
        (folder / "libkerf.3").write_text(man.header_page("libkerf", header, "2026-01-01", "0"), encoding="utf-8")
        check_shows(folder / "libkerf.3", header)
        said = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-Kutf8", "-z", *sorted(folder.iterdir())], capture_output=True,
                              text=True, check=False, timeout=TIMEOUT_S)
        check(said.returncode == 0 and not said.stderr, f"groff: {said.stderr}")
    check(count > 40, f"there are {count} pages alone")
    print(f"package_test: {count} manual pages have all that --help says")


def check_shows(page, text):
    """A reader of the page sees the text as it is, line for line."""
    shown = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", "-rLL=200n", page], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    lines = {line.strip() for line in shown.stdout.splitlines()}
    missing = [line for line in map(str.strip, text.splitlines()) if line not in lines]
    check(shown.returncode == 0 and not missing, f"{page.name} leaves out {missing}, {shown.stderr}")


def verbs_of(program, page):
    """The words of a page's name: verbs have a - of their own (reset-epoch)."""
    left, found = page.removeprefix(program.name), []
    while left:
        known = man.Help(man.help_of(program, tuple(found))).verbs()
        verb = max((verb for verb in known if left == f"-{verb}" or left.startswith(f"-{verb}-")), key=len)
        found.append(verb)
        left = left.removeprefix(f"-{verb}")
    return found


def needed_by_library(packages):
    """The packages that libkerf0 names."""
    (path,) = packages.glob(f"{library.RUNTIME}_*.deb")
    return [one.split()[0] for one in deb.run("dpkg-deb", "--field", path, "Depends").split(",")]


def make_all(programs, folder):
    """The folders of today's packages and of older ones."""
    first, second, older = (folder / name for name in ("packages", "again", "older"))
    package.make(programs, first, False, False)
    second.mkdir()
    somebodys, earlier = second / "kerf-notes.txt", second / "kerf_0.0.1_amd64.deb"
    for path in (somebodys, earlier):
        path.write_text("x", encoding="utf-8")
    package.make(programs, second, False, False)
    check(somebodys.is_file() and not earlier.exists(), "what is somebody's goes, or packages of before stay")
    check((first / "SHA256SUMS").read_text() == (second / "SHA256SUMS").read_text(), "made twice, they are not the same bytes")
    older.mkdir()
    for name in (*package.PACKAGES, *package.libraries(programs)):
        package.debian_package(name, programs, older, OLDER, package.epoch_s())
    print("package_test: made twice, they are the same bytes")
    return first, older


class Machine:
    """The container, with what is asked of it here again and again."""

    def __init__(self, inside, root):
        self.inside, self.root, self.run = inside, root, inside.run

    def install(self, folder):
        target = self.root / "packages"
        target.mkdir(exist_ok=True)
        for old in target.iterdir():
            old.unlink()
        for path in (*folder.glob("*.deb"), *folder.glob("*.tar.gz")):
            shutil.copyfile(path, target / path.name)
        self.run("sh", "-c", "dpkg --install --force-confold /packages/*.deb")

    def show(self, unit, name):
        return self.run("systemctl", "show", unit, f"--property={name}", "--value").stdout.strip()

    def is_active(self, unit):
        return self.run("systemctl", "is-active", unit, check=False).stdout.strip() == "active"

    def await_active(self, what, other_than=None):
        processes.wait_until(lambda: self.is_active("kerfd") and self.show("kerfd", "MainPID") not in ("0", other_than), CHANGE_S, what,
                             lambda: self.run("journalctl", "--no-pager", "-u", "kerfd").stdout[-3000:])
        return self.show("kerfd", "MainPID")

    def backup(self, *more):
        """The summary."""
        said = self.run("kerf", "--json", "backup", TREE, "--store", STORE, *more).stdout
        return [message for message in map(json.loads, said.splitlines()) if message["message_type"] == "summary"][-1]

    def check_whole(self):
        # Elsewhere: what is new beside the tree would be new in the next snapshot.
        target = f"/var/tmp/restored-{time.monotonic_ns()}"
        self.run("kerf", "restore", "latest", "--store", STORE, "--target", target)
        self.run("diff", "-r", TREE, f"{target}{TREE}")

    def exists(self, path):
        return os.path.lexists(self.root / path.lstrip("/"))


def check_first(machine):
    """Installed, and a backup without another file."""
    first = machine.await_active("kerfd's start by its installation")
    check(machine.show("kerfd", "Type") == "notify" and machine.show("kerfd", "StatusText") == "serves", "kerfd does not tell systemd that it serves")
    status = machine.run("cat", f"/proc/{first}/status", f"/proc/{first}/limits").stdout
    user = machine.run("id", "-u", "kerfd").stdout.strip()
    check(re.search(rf"^Uid:\s+{user}\s", status, re.M) and user != "0", "kerfd does not run as the user kerfd")
    check(re.search(r"^CapEff:\s+0+$", status, re.M) and re.search(r"^NoNewPrivs:\s+1$", status, re.M), "kerfd has capabilities")
    # No higher than whoever started this may have them.
    limit = min(LIMIT, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    check(re.search(rf"^Max open files\s+{limit}\s+{limit}\s", status, re.M), f"kerfd may not have {limit} files open: {status}")
    summary = machine.backup()
    check(summary["new_chunks"] > 0, f"the first backup has nothing new: {summary}")
    machine.check_whole()
    # Of any user, at the socket of the unit.
    machine.run("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "env", "HOME=/nonexistent", "kerf", "ping", "--server", "unix:/run/kerfd/kerfd.sock")
    print("package_test: installed, it serves, and the first backup comes back")
    return first


def check_units(machine):
    machine.run("systemd-analyze", "verify", "--man=no", "kerfd.service", "kerf-backup@home.service", "kerf-backup@home.timer")
    said = machine.run("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}",
                       "/usr/lib/systemd/system/kerfd.service", check=False)
    score = re.search(r"exposure level for kerfd.service: (\S+)", said.stdout)
    check(said.returncode == 0 and score, f"systemd-analyze security: {said.stdout[-2000:]}{said.stderr}")
    print(f"package_test: the unit's exposure is {score[1]} of 10, by systemd-analyze")


def check_watched(machine, first):
    """Reloaded by systemctl; started anew where it has died, or is stuck, and not where its settings are wrong."""
    machine.run("systemctl", "reload", "kerfd")
    log = machine.run("journalctl", "--no-pager", "-u", "kerfd").stdout
    check("SIGHUP: " in log and machine.await_active("its reload") == first, f"a reload is none: {log[-2000:]}")
    machine.run("kill", "-KILL", first)
    second = machine.await_active("its start after a kill", first)
    (machine.root / "etc/systemd/system/kerfd.service.d").mkdir(parents=True)
    drop_in = machine.root / "etc/systemd/system/kerfd.service.d/test.conf"
    drop_in.write_text("[Service]\nWatchdogSec=2\n", encoding="utf-8")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "kerfd")
    stuck = machine.await_active("its restart", second)
    time.sleep(3)
    check(machine.show("kerfd", "MainPID") == stuck, "its watchdog ends a kerfd that lives")
    machine.run("kill", "-STOP", stuck)
    machine.await_active("its start after it was stuck", stuck)
    settings = machine.root / "etc/kerf/kerfd.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(f"{text}\nnobody-knows-this = 1\n", encoding="utf-8")
    check(machine.run("systemctl", "restart", "kerfd", check=False).returncode != 0, "it starts with wrong settings")
    time.sleep(3)
    check(machine.show("kerfd", "ActiveState") == "failed" and machine.show("kerfd", "NRestarts") in ("0", "1", "2"), "wrong settings are tried again")
    settings.write_text(text, encoding="utf-8")
    drop_in.unlink()
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "kerfd")
    machine.await_active("its start with good settings again")
    print("package_test: it reloads; it is started anew where it was killed or stuck, and not where its settings are wrong")


def check_nightly(machine):
    machine.run("sh", "-c", "sed -e 's|^KERF_BACKUP_PATHS=.*|KERF_BACKUP_PATHS=\"/srv/tree --one-file-system\"|' "
                            f"-e 's|^KERF_STORE=.*|KERF_STORE={STORE}|' /usr/share/doc/kerf/examples/backup.conf >/etc/kerf/backup/home.conf")
    machine.run("systemctl", "start", "kerf-backup@home.service")
    check(machine.show("kerf-backup@home.service", "Result") == "success", "the backup of the unit fails")
    machine.run("systemctl", "enable", "--now", "kerf-backup@home.timer")
    check("kerf-backup@home" in machine.run("systemctl", "list-timers").stdout, "no timer waits for the night")
    # root's memory of the store, not another one.
    check(machine.exists("/root/.local/state/kerf"), "the unit's kerf remembers the store elsewhere")
    snapshots = machine.run("kerf", "--json", "snapshots", "--store", STORE).stdout
    check(snapshots.count("\"message_type\"") >= 2, f"there are too few snapshots: {snapshots}")
    print("package_test: the unit of the night backs up")


def check_library(machine):
    """A program that libkerf-dev's files make, at the kerfd of the unit: compiled here, for there is no compiler there."""
    flags = deb.run("pkg-config", "--cflags", "--libs", "kerf", env={**os.environ, **library.pkg_config(machine.root)}).split()
    example = machine.root / f"usr/share/doc/{library.DEVELOPMENT}/examples/upload_twice.c"
    program = machine.root / LINKED.lstrip("/")
    program.parent.mkdir(parents=True, exist_ok=True)
    deb.run("cc", "-std=c11", example, *flags, "-o", program)
    said = machine.run(LINKED, "unix:/run/kerfd/kerfd.sock", f"{TREE}/file-0").stdout
    size = (machine.root / TREE.lstrip("/") / "file-0").stat().st_size
    check(re.fullmatch(rf"{size} bytes in \d+ chunks, {size} new\n{size} bytes in \d+ chunks, 0 new\n", said), f"the example says {said!r}")
    # Which package it needs, dpkg knows of the library's.
    told = (machine.root / f"var/lib/dpkg/info/{library.RUNTIME}.shlibs").read_text(encoding="utf-8")
    check(told == f"libkerf 0 libkerf0 (>= {OLDER})\n", f"libkerf0 says {told!r} of itself")
    print("package_test: a program in C is made with libkerf-dev, and runs with libkerf0")


def check_upgrade(machine, packages, older, libraries):
    """There and back, with data and settings that somebody has changed, and of a service that somebody has disabled."""
    settings = machine.root / "etc/kerf/kerfd.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + "# somebody's\n", encoding="utf-8")
    for folder, version in ((packages, deb.debian_version(package.version())), (older, OLDER)):
        before = machine.show("kerfd", "MainPID")
        machine.install(folder)
        check(machine.run("dpkg-query", "-W", "-f=${Version}", "kerfd").stdout == version, f"{version} is not installed")
        machine.await_active(f"its restart by {version}", before)
        check(settings.read_text(encoding="utf-8").endswith("# somebody's\n"), f"{version} changes settings that were changed")
        check(machine.backup()["new_chunks"] == 0, f"the index is not what it was with {version}")
        check(machine.is_active("kerf-backup@home.timer"), f"{version} stops timers")
        if libraries:
            check(machine.run(LINKED, "unix:/run/kerfd/kerfd.sock", f"{TREE}/file-0").stdout.count(" 0 new\n") == 2,
                  f"a program with libkerf0 does not go on with {version}")
    machine.run("systemctl", "disable", "--now", "kerfd")
    machine.install(packages)
    check(not machine.is_active("kerfd"), "an upgrade starts what somebody has stopped and disabled")
    machine.run("systemctl", "enable", "--now", "kerfd")
    machine.await_active("its start")
    machine.check_whole()
    print("package_test: upgraded and downgraded, data and settings are what they were")


def check_removal(machine, packages, libraries):
    (machine.root / "var/lib/kerfd/somebodys").write_text("x", encoding="utf-8")
    machine.run("dpkg", "--remove", "kerfd", "kerf", *libraries)
    check(not list((machine.root / library.folder()).glob("libkerf*")), "libkerf was not removed")
    for unit in ("kerfd", "kerf-backup@home.timer"):
        check(not machine.is_active(unit), f"{unit} runs though it is removed")
    check(not machine.exists("/usr/bin/kerfd") and not machine.exists("/usr/lib/systemd/system/kerfd.service"), "something was not removed")
    stays = ("/var/lib/kerfd/index", "/var/lib/kerfd/somebodys", "/etc/kerf/kerfd.toml", "/etc/kerf/backup/home.conf", STORE)
    check(all(map(machine.exists, stays)), f"of {stays} not all stays behind a removal")
    machine.install(packages)
    machine.await_active("its start by another installation")
    check(machine.backup()["new_chunks"] == 0, "the index is not what it was before the removal")
    changed = machine.run("dpkg", "--verify", "kerf", "kerfd", *libraries, check=False).stdout.splitlines()
    check(all(line.endswith(" c /etc/kerf/kerfd.toml") for line in changed), f"the files are not those of the packages: {changed}")
    machine.run("dpkg", "--purge", "kerfd", "kerf", *libraries)
    goes = ("/var/lib/kerfd/index", "/etc/kerf/kerfd.toml", "/etc/systemd/system/timers.target.wants/kerf-backup@home.timer",
            "/etc/systemd/system/multi-user.target.wants/kerfd.service")
    check(not any(map(machine.exists, goes)), f"of {goes} something stays behind a purge")
    stays = ("/var/lib/kerfd/somebodys", "/etc/kerf/backup/home.conf", STORE)
    check(all(map(machine.exists, stays)), f"of {stays} not all stays behind a purge")
    left = [path.name for path in (machine.root / "var/lib/kerfd").iterdir()]
    check(left == ["somebodys"], f"a purge leaves {left} of the index")
    check("kerf" not in machine.run("dpkg", "--audit", check=False).stdout, "dpkg finds packages half there")
    print("package_test: what stays and what goes is as deploy/package/README.md says")


def check_tarball(machine, libraries):
    """By the words of the page."""
    page = (ROOT / "deploy/package/README.md").read_text(encoding="utf-8")
    block = re.search(r"^## Without Debian's packages\n[^#]*?((?:^    .*\n)+)", page, re.M)[1]
    if not libraries:
        # The folder of its header.
        block = block.replace(" include ", " ")
    machine.run("sh", "-e", "-c", f"cd /packages\n{block}")
    machine.await_active("its start of the tarball")
    machine.backup()
    machine.check_whole()
    if libraries:
        machine.run("ldconfig")
        machine.run(LINKED, "127.0.0.1:7461", f"{TREE}/file-0")
    print("package_test: the tarball is installed as deploy/package/README.md says")


def main():
    programs = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "out").resolve()
    check(os.geteuid() == 0, "as root: it boots a container")
    check_pages(programs)
    libraries = package.libraries(programs)
    if not libraries:
        print(f"package_test: without the library's packages: there is no {library.SONAME}")
    with tempfile.TemporaryDirectory(prefix="kerf-package-test-") as name:
        folder = pathlib.Path(name)
        packages, older = make_all(programs, folder)
        root = folder / "root"
        root.mkdir()
        bare_root.make(root, (*LIBRARIES, *(needed_by_library(packages) if libraries else ())))
        tree = root / TREE.lstrip("/")
        tree.mkdir(parents=True)
        for number in range(20):
            (tree / f"file-{number}").write_bytes(os.urandom(1 << 17))
        with container.Container(root, folder / "boot.log") as inside:
            machine = Machine(inside, root)
            machine.install(older)
            first = check_first(machine)
            check_units(machine)
            check_watched(machine, first)
            check_nightly(machine)
            if libraries:
                check_library(machine)
            check_upgrade(machine, packages, older, libraries)
            check_removal(machine, packages, libraries)
            check_tarball(machine, libraries)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (bare_root.Failed, container.Failed, deb.Failed, man.Failed, processes.Failed) as failure:
        sys.exit(f"package_test: {failure}")
