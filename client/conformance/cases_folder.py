"""Cases of a store in a folder, as client/python and client/go have one, whose files are looked at, and damaged, from outside."""

import fcntl
import hashlib
import os
import pathlib
import tempfile

from case import case
from world import CHUNK_BYTES, Failed, Refusal, content, expect, refused, sha256

LIVE, DEAD = content(2 * CHUNK_BYTES, 21), content(3 * CHUNK_BYTES, 22)
ONE = content(CHUNK_BYTES, 23)
NEEDS = "folder snapshot"


def epoch_line(number, sum_of=None):
    digits = str(number if sum_of is None else sum_of).encode()
    return f"{number} {hashlib.sha256(digits).hexdigest()}"


class Folder:
    """An empty one, and a server that knows nothing."""

    def __init__(self, world):
        self._world = world.begin()
        self.path = pathlib.Path(tempfile.mkdtemp(dir=world.folder)) / "store"
        world.fake.is_durable = self._is_durable

    def _is_durable(self, digest, locator):
        name = f"{digest.hex()}.{locator[len(digest):].hex()}"
        return (self.path / "chunks" / name[:3] / name).is_file()

    def client(self):
        return self._world.client(folder=str(self.path))

    def places(self):
        return sorted(path for path in self.path.glob("chunks/*/*") if not path.name.startswith("."))

    def restores(self, client, name, data, says):
        (recipe,) = client.decode((self.path / "snapshots" / name).read_bytes())
        try:
            found = client.restored(recipe)
        except Refusal as error:
            raise Failed(f"{says}: it is not restored: {error}") from error
        expect(found == sha256(data).hex(), f"{says}: what is restored is not the file")


@case(120, "in a folder: a chunk is read where it is sound, whatever its other places have", "COL-14", NEEDS)
def another_place(world):
    folder = Folder(world)
    client = folder.client()
    client.snapshot("one", client.upload(ONE))
    (first,) = folder.places()
    second = first.with_name(first.name.partition(".")[0] + "." + 8 * "5a")
    for rotten, sound in ((first, second), (second, first)):
        sound.write_bytes(ONE)
        rotten.write_bytes(ONE[::-1])
        folder.restores(folder.client(), "one", ONE, "COL-14: a place has other bytes")
        rotten.unlink()
        rotten.mkdir()
        folder.restores(folder.client(), "one", ONE, "COL-14: a place cannot be read")
        rotten.rmdir()


@case(121, "in a folder: pending snapshots are roots", "COL-45", f"{NEEDS} collect")
def pending(world):
    folder = Folder(world)
    client = folder.client()
    client.upload(DEAD)
    client.snapshot("one", client.upload(LIVE))
    pending, checked = folder.path / "pending/one", folder.path / "snapshots/one"
    checked.rename(pending)
    folder.client().collect()
    pending.rename(checked)
    folder.restores(folder.client(), "one", LIVE, "COL-45: a collection while it was pending")


@case(122, "in a folder: a snapshot that cannot be read stops a collection", "COL-45 COL-46", f"{NEEDS} collect")
def unreadable(world):
    folder = Folder(world)
    client = folder.client()
    client.upload(DEAD)
    client.snapshot("one", client.upload(LIVE))
    there = folder.places()
    for where in ("snapshots", "pending"):
        bad = folder.path / where / "bad"
        bad.mkdir()
        with refused(None, f"COL-45: a file in {where} cannot be read"):
            folder.client().collect()
        expect(folder.places() == there, "COL-45: chunks were deleted, though a root cannot be read")
        bad.rmdir()


@case(123, "in a folder: one that lacks a folder is damaged, and not begun anew", "CLI-34", NEEDS)
def lacks_a_folder(world):
    folder = Folder(world)
    client = folder.client()
    client.snapshot("one", client.upload(LIVE))
    for name in ("snapshots", "pending", "chunks"):
        (folder.path / name).rename(folder.path / "elsewhere")
        with refused(None, f"CLI-34: {name} is gone"):
            folder.client()
        (folder.path / "elsewhere").rename(folder.path / name)
    folder.restores(folder.client(), "one", LIVE, "CLI-34: whole again")


@case(124, "in a folder: an epoch that is damaged is none", "CLI-35 COL-5", f"{NEEDS} collect", is_advice=True)
def damaged_epoch(world):
    folder = Folder(world)
    folder.client().upload(LIVE)
    there, opened = folder.places(), len(world.fake.opens)
    for text in (epoch_line(3, 7), "7", "", "x", epoch_line(7)[:-1], "-1"):
        (folder.path / "epoch").write_text(text)
        for name, act in (("upload", lambda client: client.upload(ONE)), ("collect", lambda client: client.collect())):
            with refused(None, f"CLI-35: {name}, with the epoch '{text}'"):
                act(folder.client())
        expect((folder.path / "epoch").read_text() == text, "CLI-35: an epoch that is damaged was raised")
    expect(len(world.fake.opens) == opened, "COL-5: a stream was opened without an epoch")
    expect(folder.places() == there, "CLI-35: chunks were deleted")


@case(125, "in a folder: who begins a store leaves the epoch that another one has made meanwhile", "COL-1", NEEDS)
def begun_by_two(world):
    folder = Folder(world)
    folder.client()
    # As it is between the two files of whoever was first, but later.
    (folder.path / "epoch").write_text(epoch_line(7))
    (folder.path / "config").unlink()
    try:
        client = folder.client()
    except Refusal:
        return
    client.upload(ONE)
    expect(world.fake.opens[-1].store_epoch == 7, f"COL-1: the store's epoch was 7, and is {world.fake.opens[-1].store_epoch}")


@case(126, "in a folder: one collection at a time", "COL-40", f"{NEEDS} collect")
def locked(world):
    folder = Folder(world)
    folder.client().upload(DEAD)
    there = folder.places()
    with open(folder.path / "lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with refused(None, "COL-40: another process has the lock"):
            folder.client().collect()
    expect(folder.places() == there, "COL-40: chunks were deleted without the lock")
    folder.client().collect()
    expect(not folder.places(), "COL-56: garbage that has stayed")


@case(127, "in a folder: a snapshot's name is taken once", "COL-26 COL-31", NEEDS)
def name_is_taken(world):
    folder = Folder(world)
    client = folder.client()
    client.snapshot("one", client.upload(LIVE))
    with refused(None, "COL-26: there is a snapshot of that name"):
        client.snapshot("one", client.upload(ONE))
    folder.restores(folder.client(), "one", LIVE, "COL-26: another one of its name was to be published")
    expect(not os.listdir(folder.path / "pending"), "COL-26: what cannot become a snapshot has stayed pending")


@case(128, "in a folder: a file that has been cut short, or is empty, is no place of its chunk", "CLI-36 COL-10", NEEDS, is_advice=True)
def cut_short(world):
    for left in (CHUNK_BYTES - 1, 0):
        folder = Folder(world)
        folder.client().upload(ONE)
        (place,) = folder.places()
        os.truncate(place, left)
        client = folder.client()
        client.snapshot("one", client.upload(ONE))
        folder.restores(folder.client(), "one", ONE, f"CLI-36: a file of {left} bytes")
