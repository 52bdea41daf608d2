"""A tree of all that Linux lets a file be, made with programs and system calls that are not kerf's. What a file system
does not take is left out, and counted."""

import contextlib
import errno
import os
import stat
import struct

import processes

NANO = 1_000_000_000
HUGE_ID = 2**32 - 2
MIB = 1024 * 1024
NOT_TAKEN = (errno.EOPNOTSUPP, errno.ENOSPC, errno.ENAMETOOLONG, errno.ERANGE, errno.E2BIG, errno.EINVAL, errno.EFBIG)
NAMES = (b"-rf", b"*", b"a\nb", b" leading", b"trailing ", b"\\", b"\x01\x7f", b"\xff\xfe", b"caf\xe9", "café".encode(),
         b"cafe\xcc\x81", b"\xed\xa0\x80", b"...", b"\"'`$(x)", b"CASE", b"case", b"n" * 255, b"\xe2\x82\xac" * 85, b"\x80" * 255)
TIMES_NS = {"epoch": 0, "negative": -1, "half before": -NANO - NANO // 2, "1901": -2_147_483_000 * NANO + 7,
            "nanoseconds": 1_600_000_000 * NANO + 123_456_789, "2100": 4_102_444_800 * NANO + 1, "2400": 13_569_465_600 * NANO + 999_999_999}


class OddTree:
    """`left_out` are what the file system did not take."""

    def __init__(self, root):
        self.root = root
        self.left_out = []
        os.mkdir(root)

    def path(self, *parts):
        return os.path.join(os.fsencode(self.root), *(part if isinstance(part, bytes) else part.encode() for part in parts))

    @contextlib.contextmanager
    def if_taken(self, what):
        try:
            yield
        except OSError as error:
            if error.errno not in NOT_TAKEN:
                raise
            self.left_out.append(what)

    def file(self, *parts, data=b"some bytes\n"):
        path = self.path(*parts)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def folder(self, *parts):
        path = self.path(*parts)
        os.mkdir(path)
        return path

    def make(self):
        self.bytes_and_holes()
        self.names()
        self.links()
        self.symlinks_and_nodes()
        self.modes_and_owners()
        self.attributes()
        self.acls()
        self.capabilities()
        self.flags()
        self.times()

    def bytes_and_holes(self):
        self.folder("bytes")
        for size in (0, 1, 4095, 4096, 4097, 300_000, 3 * MIB + 17):
            self.file("bytes", str(size), data=os.urandom(size))
        self.file("bytes", "text", data=b"the same line again\n" * 20_000)
        self.file("bytes", "zeros", data=bytes(MIB))
        for name, size, pieces in (("hole", 10 * MIB, ()), ("middle", 64 * MIB, (20 * MIB, 40 * MIB)), ("end", MIB, (0,)),
                                   ("front", 5 * MIB, (5 * MIB - 4096,)), ("large", 200 * MIB, (0, 100 * MIB))):
            with open(self.path("bytes", f"sparse {name}"), "wb") as file:
                for offset in pieces:
                    file.seek(offset)
                    file.write(os.urandom(4096))
                file.truncate(size)
        with self.if_taken("preallocated bytes"), open(self.path("bytes", "preallocated"), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, MIB)

    def names(self):
        self.folder("names")
        for number, name in enumerate(NAMES):
            self.file("names", name, data=b"%d" % number)
        deep = self.folder("deep")
        for _ in range(12):
            deep = os.path.join(deep, b"d" * 250)
            os.mkdir(deep)
        with open(os.path.join(deep, b"file"), "wb") as file:
            file.write(b"deep")

    def links(self):
        """Of every kind, also between folders."""
        self.folder("links")
        self.folder("links", "more")
        firsts = {"file": self.file("links", "a file", data=os.urandom(5000)), "empty": self.file("links", "an empty file", data=b"")}
        firsts["fifo"], firsts["symlink"] = self.path("links", "fifo"), self.path("links", "symlink")
        os.mkfifo(firsts["fifo"])
        os.symlink("a file", firsts["symlink"])
        for name, kind in (("character", stat.S_IFCHR), ("block", stat.S_IFBLK), ("socket", stat.S_IFSOCK)):
            firsts[name] = self.path("links", name)
            os.mknod(firsts[name], kind | 0o640, os.makedev(1, 3) if kind != stat.S_IFSOCK else 0)
        for name, first in firsts.items():
            os.link(first, self.path("links", "more", f"{name} 2"), follow_symlinks=False)
            os.link(first, self.path("links", f"{name} 3"), follow_symlinks=False)

    def symlinks_and_nodes(self):
        self.folder("nodes")
        for name, target in (("dangling", b"nowhere"), ("absolute", b"/etc/passwd"), ("loop", b"loop"), ("up", b"../.."),
                             ("odd", b"\xff\n\x01"), ("thousand", b"t" * 1000), ("longest", b"t" * 4095)):
            with self.if_taken(f"symlink {name}"):
                os.symlink(target, self.path("nodes", name))
        os.mkfifo(self.path("nodes", "fifo"), 0o604)
        for major, minor in ((1, 3), (255, 1048575), (200, 200_000), (4095, 255)):
            with self.if_taken(f"device {major}:{minor}"):
                os.mknod(self.path("nodes", f"block {major}"), stat.S_IFBLK | 0o660, os.makedev(major, minor))
                os.mknod(self.path("nodes", f"character {major}"), stat.S_IFCHR | 0o606, os.makedev(major, minor))

    def modes_and_owners(self):
        self.folder("modes")
        for mode in (0o000, 0o400, 0o111, 0o644, 0o4755, 0o2755, 0o1644, 0o6711, 0o7777):
            os.chmod(self.file("modes", f"{mode:o}"), mode)
            os.chmod(self.folder("modes", f"{mode:o} folder"), mode)
        self.file("modes", "0 folder", "in it")
        self.folder("owners")
        for owner in (1, 1000, 65534, 65536, 2**31, HUGE_ID):
            os.chown(self.file("owners", f"{owner}"), owner, owner)
            os.chown(self.folder("owners", f"{owner} folder"), owner, HUGE_ID)
            setuid = self.file("owners", f"{owner} setuid")
            os.chown(setuid, owner, owner)
            os.chmod(setuid, 0o6755)
        os.symlink("x", self.path("owners", "symlink"))
        os.lchown(self.path("owners", "symlink"), HUGE_ID, 1)

    def attributes(self):
        self.folder("attributes")
        values = {"empty": b"", "binary": bytes(range(256)), "text": b"value"}
        for name, value in values.items():
            for kind, path in (("file", self.file("attributes", f"{name} file")), ("folder", self.folder("attributes", f"{name} folder"))):
                for space in ("user", "trusted", "security"):
                    with self.if_taken(f"{space} attribute of a {kind}"):
                        os.setxattr(path, f"{space}.kerf.{name}", value)
        many = self.file("attributes", "many")
        for number in range(12):
            with self.if_taken("12 attributes"):
                os.setxattr(many, f"user.number.{number}", b"%d" % number)
        with self.if_taken("a name of 255 bytes"):
            os.setxattr(self.file("attributes", "long name"), "user." + "n" * 250, b"x")
        for size in (3000, 16_000, 65_536):
            with self.if_taken(f"a value of {size} bytes"):
                os.setxattr(self.file("attributes", f"value of {size}"), "user.large", os.urandom(size))
        os.symlink("x", self.path("attributes", "symlink"))
        os.mkfifo(self.path("attributes", "fifo"))
        for node in ("symlink", "fifo"):
            for space in ("trusted", "security"):
                with self.if_taken(f"{space} attribute of a {node}"):
                    os.setxattr(self.path("attributes", node), f"{space}.kerf", node.encode(), follow_symlinks=False)
        os.chmod(self.path("attributes", "many"), 0o444)

    def acls(self):
        """In folders with defaults also files that have none: those are inherited by what is made there."""
        self.folder("acls")
        for name, entries in (("users", "u:1:rwx,u:1000:r,u:4294967294:-"), ("groups", "g:5:rw,g:1000:---"), ("mask", "u:7:rwx,m::r")):
            path = self.file("acls", name)
            processes.run(["setfacl", "-m", entries, os.fsdecode(path)])
            folder = self.folder("acls", f"{name} folder")
            plain = [self.file("acls", f"{name} folder", "plain"), self.folder("acls", f"{name} folder", "plain folder")]
            os.chmod(plain[0], 0o600)
            processes.run(["setfacl", "-m", entries, os.fsdecode(folder)])
            processes.run(["setfacl", "-d", "-m", entries, os.fsdecode(folder)])
        inherited = self.file("acls", "users folder", "inherited")
        os.chmod(inherited, 0o640)
        self.folder("acls", "users folder", "inherited folder")

    def capabilities(self):
        self.folder("capabilities")
        for name, words in (("raw", ["cap_net_raw+ep"]), ("two", ["cap_sys_admin,cap_chown=eip"])):
            processes.run(["setcap", *words, os.fsdecode(self.file("capabilities", name))])
        # Each of these clears the other ones if it comes too late.
        path = self.file("capabilities", "with all")
        os.chown(path, 1000, HUGE_ID)
        os.chmod(path, 0o6755)
        processes.run(["setfacl", "-m", "u:3:rx", os.fsdecode(path)])
        processes.run(["setcap", "cap_net_bind_service+ep", os.fsdecode(path)])
        os.link(path, self.path("capabilities", "with all, again"))
        # Revision 3: of a user namespace whose root is 1000.
        with self.if_taken("capabilities of a namespace"):
            os.setxattr(self.file("capabilities", "namespace"), "security.capability", struct.pack("<6I", 0x03000001, 1 << 10, 0, 0, 0, 1000))

    def flags(self):
        """They are not kept, but what has them can be read."""
        self.folder("flags")
        self.file("flags", "immutable")
        self.file("flags", "append")
        self.folder("flags", "immutable folder")
        self.file("flags", "immutable folder", "in it")
        for name, flag in (("immutable", "+i"), ("append", "+a"), ("immutable folder", "+i")):
            done = processes.run(["chattr", flag, os.fsdecode(self.path("flags", name))], check=False)
            if done.returncode != 0:
                self.left_out.append(f"chattr {flag}")

    def unflag(self):
        processes.run(["chattr", "-R", "-f", "-ia", os.fsdecode(self.path("flags"))], check=False)

    def times(self):
        self.folder("times")
        for name, time_ns in TIMES_NS.items():
            for path in (self.file("times", name), self.folder("times", f"{name} folder")):
                os.utime(path, ns=(time_ns, time_ns))
            os.symlink("x", self.path("times", f"{name} symlink"))
            os.utime(self.path("times", f"{name} symlink"), ns=(time_ns, time_ns), follow_symlinks=False)
        for name in ("bytes", "names", "links", "acls"):
            os.utime(self.path(name), ns=(1, 1_234_567_890_123_456_789))
