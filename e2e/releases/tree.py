"""The tree that a recorded store has snapshots of, in three versions; always the same for the same version."""

import os
import random
import stat
import struct
import zlib

KIB = 1024
WORDS = ("chunk digest epoch locator pack snapshot recipe stream durable commit verdict boundary "
         "profile repository index collection").split()
# Where only root can make all that is in it.
ROOT_ONLY = "root-only"
TIME_NS = 1_700_000_000_123_456_789


def text(source, size):
    words = []
    while size > 0:
        words.append(source.choice(WORDS))
        size -= len(words[-1]) + 1
    return " ".join(words).encode()


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)


def write_sparse(path, size, pieces):
    with open(path, "wb") as file:
        for offset, content in pieces:
            file.seek(offset)
            file.write(content)
        file.truncate(size)


def acl():
    """The binary form of user::rw-, user:4321:r--, group::r--, mask::rw-, other::---."""
    no_id = 0xFFFFFFFF
    entries = [(1, 6, no_id), (2, 4, 4321), (4, 4, no_id), (16, 6, no_id), (32, 0, no_id)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def make_files(root, source):
    os.mkdir(root + b"/files")
    contents = {
        b"empty": b"",
        b"one-byte": b"x",
        b"random": source.randbytes(16 * KIB),
        b"text": text(source, 30 * KIB),
        b"zeros": bytes(70 * KIB),
        b"moves": source.randbytes(9 * KIB),
        b"goes": text(source, 3 * KIB),
    }
    for size in (2047, 4096, 8193):
        contents[b"size-%d" % size] = text(source, size)
    for number in range(12):
        contents[b"small-%d" % number] = source.randbytes(number * 10)
    for name, content in contents.items():
        write(root + b"/files/" + name, content)


def make_sparse(root, source):
    os.mkdir(root + b"/sparse")
    piece = text(source, 4096)[:4096]
    write_sparse(root + b"/sparse/leading", 132 * KIB, [(128 * KIB, piece)])
    write_sparse(root + b"/sparse/inner", 196 * KIB, [(0, piece), (64 * KIB, piece), (192 * KIB, piece)])
    write_sparse(root + b"/sparse/trailing", 260 * KIB + 3, [(0, piece)])
    write_sparse(root + b"/sparse/only-a-hole", 1000 * KIB + 1, [])


def make_links(root):
    os.makedirs(root + b"/links/other")
    write(root + b"/links/a-first", b"first " * 400)
    for name in (b"links/b-second", b"links/other/third"):
        os.link(root + b"/links/a-first", root + b"/" + name)
    os.link(root + b"/sparse/inner", root + b"/links/sparse")
    for name, target in ((b"dangling", b"nowhere"), (b"absolute", b"/etc/hostname"), (b"loop", b"loop"),
                         (b"to-directory", b"other"), (b"long", b"x" * 2000), (b"odd", b"not\xffutf8\n")):
        os.symlink(target, root + b"/links/" + name)


def make_names(root):
    os.makedirs(root + b"/names/order")
    for number, name in enumerate((
            b"\xff\xfe not utf-8", b"line\nfeed", b"tab\there", b"\"double\" 'single'", b"-rf", b" blanks ",
            b"back\\slash", b"*?[a]", b"...", b".hidden", "größe".encode(), "文件".encode(), "🗄️".encode(),
            b"n" * 255, b"order/inside", b"order-", b"order.txt", b"order0", b"order\x01")):
        write(root + b"/names/" + name, b"file %d" % number)
    os.makedirs(root + b"/deep" * 60)
    write(root + b"/deep" * 60 + b"/bottom", b"deep")


def make_modes(root):
    os.mkdir(root + b"/modes")
    for mode in (0o000, 0o444, 0o777, 0o1644, 0o2755, 0o4755):
        path = root + b"/modes/file-%o" % mode
        write(path, b"mode")
        os.chmod(path, mode)
    for mode in (0o1777, 0o2775, 0o555):
        path = root + b"/modes/directory-%o" % mode
        os.mkdir(path)
        write(path + b"/inside", b"x")
        os.chmod(path, mode)
    os.mkfifo(root + b"/modes/fifo", 0o640)


def make_xattrs(root, source):
    os.mkdir(root + b"/xattrs")
    for name in (b"file", b"many", b"acl"):
        write(root + b"/xattrs/" + name, b"x")
    os.setxattr(root + b"/xattrs/file", "user.empty", b"")
    os.setxattr(root + b"/xattrs/file", "user.binary", b"\0\xff\n=")
    os.setxattr(root + b"/xattrs/file", "user.large", source.randbytes(500))
    os.setxattr(root + b"/xattrs", "user.on-directory", b"value")
    for number in range(20):
        os.setxattr(root + b"/xattrs/many", f"user.key-{number}", b"value %d" % number)
    os.setxattr(root + b"/xattrs/acl", "system.posix_acl_access", acl())


def make_root_only(root):
    folder = root + b"/" + ROOT_ONLY.encode()
    os.mkdir(folder)
    os.mknod(folder + b"/char", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(folder + b"/block", stat.S_IFBLK | 0o660, os.makedev(7, 200))
    for name in (b"owner", b"set-id", b"trusted"):
        write(folder + b"/" + name, b"x")
    os.chown(folder + b"/owner", 1234, 5678)
    os.chown(folder + b"/set-id", 1234, 5678)
    os.chmod(folder + b"/set-id", 0o6755)
    os.setxattr(folder + b"/trusted", "trusted.kerf", b"value")


def set_times(root):
    """Of everything that has another one, children first, so that what is unchanged stays so."""
    paths = [os.path.join(folder, name) for folder, folders, files in os.walk(root, topdown=False)
             for name in folders + files] + [root]
    fixed = {b"/files/one-byte": -1_000_000_000_123_456_789, b"/files/random": 0,
             b"/files/text": 7_258_118_400_000_000_005}
    for path in paths:
        inside = path.removeprefix(root)
        time_ns = fixed.get(inside, TIME_NS + zlib.crc32(inside) * 1_000_003)
        if os.lstat(path).st_mtime_ns != time_ns:
            os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)


def change(root, version):
    """What makes `version` out of the one before it."""
    source = random.Random(version)
    if version == 2:
        with open(root + b"/files/random", "rb") as file:
            content = file.read()
        write(root + b"/files/random", content[:9000] + b"inserted" + content[9000:])
        os.rename(root + b"/files/moves", root + b"/files/moved")
        os.remove(root + b"/files/goes")
        os.remove(root + b"/links/b-second")
        os.setxattr(root + b"/xattrs/file", "user.binary", b"changed")
        write(root + b"/files/new", source.randbytes(5 * KIB))
    else:
        os.chmod(root + b"/files/text", 0o600)
        with open(root + b"/files/text", "ab") as file:
            file.write(text(source, 12 * KIB))
        os.remove(root + b"/files/zeros")
        os.mkdir(root + b"/files/zeros")
        write(root + b"/files/zeros/now-a-folder", b"x")
    set_times(root)


def make(path):
    """The first version."""
    source = random.Random(1)
    root = os.fsencode(path)
    os.umask(0o022)
    os.mkdir(root)
    make_files(root, source)
    make_sparse(root, source)
    make_links(root)
    make_names(root)
    make_modes(root)
    make_xattrs(root, source)
    make_root_only(root)
    set_times(root)
