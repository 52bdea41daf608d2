"""What a case has: fake servers, a store, and clients that use both."""

import contextlib
import hashlib
import json
import pathlib
import random
import tempfile
import threading
import time

from driven import Driven, Failed, Refusal, to_bytes, to_text
from fake import CHUNK_BYTES, Fake
from kit_store import KitStore, Place

# So long a client of the kit tries; no case waits for its end.
RETRY_FOR_S = 120
SEED = 7


def content(size, seed=0):
    return random.Random(f"{SEED}/{seed}").randbytes(size)


def sha256(data):
    return hashlib.sha256(data).digest()


def sealed(text):
    """A plan or a snapshot: CLI-28, CLI-29."""
    body = json.dumps(text).encode()
    return hashlib.sha256(body).digest() + body


def plan_of(last_epoch, condemned=(), needed=0):
    return sealed({"version": 1, "last_epoch": last_epoch, "needed_epoch": needed, "has_gone_back": False,
                   "condemned": sorted(locator.hex() for locator in condemned)})


def with_another_digest(body, digest):
    """One digit of a snapshot is another."""
    text = digest.hex().encode()
    return body.replace(text, (b"1" if text[:1] == b"0" else b"0") + text[1:])


def digests_of(body):
    """The chunks of a snapshot (CLI-29), each as often as it is there."""
    if hashlib.sha256(body[32:]).digest() != body[:32]:
        raise Failed("CLI-29: a snapshot whose SHA-256 is another")
    return [bytes.fromhex(digest) for file in json.loads(body[32:])["files"] for digest, _ in file["chunks"]]


class Source:
    """What a client reads."""

    def __init__(self, data, fails_at=None, pause_s=0):
        self.data, self.offset, self.fails_at, self._pause_s = data, 0, fails_at, pause_s

    def read(self, size):
        end = min(len(self.data), self.offset + size)
        if self.fails_at is not None and end > self.fails_at:
            raise OSError("the source is cut off")
        if self.offset and self._pause_s:
            time.sleep(self._pause_s)
            self._pause_s = 0
        begin, self.offset = self.offset, end
        return self.data[begin:end]


class Recipe:
    """What a client says of an upload."""

    def __init__(self, said):
        self.number, self.size = said["recipe"], said["size"]
        self.chunks = [(bytes.fromhex(digest), length) for digest, length in said.get("chunks", [])]

    @property
    def digests(self):
        return [digest for digest, _ in self.chunks]


class Client:
    """A process of the client that is judged, and what was opened in it last."""

    def __init__(self, world, command, folder, environment=None):
        self._world = world
        self._source = None
        self.driven = Driven(command, folder, self._answer, world.patience_s, environment)
        self.can = self.driven.can

    def open(self, servers=None, **options):
        self.driven.do("open", servers=servers or [self._world.fake.address], repository="conformance", digest="sha256",
                       **{"is_collected": "snapshot" in self.can, "retry_for_s": RETRY_FOR_S, **options})
        return self

    def upload(self, data, *, key=b"file", seeks=True, fails_at=None, pause_s=0):
        """`pause_s`: so long the source takes once, where some of it was read."""
        self._source = Source(data, fails_at, pause_s)
        return Recipe(self.driven.do("upload", key=key.hex(), seeks=seeks))

    @property
    def read_bytes(self):
        """Of what it uploads."""
        return self._source.offset

    def reuse(self, recipe):
        """None: it is to be uploaded."""
        number = self.driven.do("reuse", recipe=recipe.number)["recipe"]
        return None if number is None else Recipe({"recipe": number, "size": recipe.size, "chunks": []})

    def decode(self, body):
        return [Recipe({"recipe": number, "size": 0}) for number in self.driven.do("decode", body=to_text(body))["recipes"]]

    def snapshot(self, name, *recipes):
        self.driven.do("snapshot", name=name, recipes=[recipe.number for recipe in recipes])

    def collect(self):
        return self.driven.do("collect")

    def restored(self, recipe):
        return self.driven.do("restore", recipe=recipe.number)["sha256"]

    def _answer(self, ask):
        """A callback. Under the fake's lock nothing else happens meanwhile."""
        name = ask["ask"]
        if name == "read":
            return {"data": to_text(self._source.read(ask["size"]))}
        if name == "seek":
            self._source.offset = ask["offset"]
            return {}
        store, act = self._world.store, getattr(self, f"_{name}", None)
        if act is None:
            raise Failed(f"the kit has no '{name}' to ask for")
        return act(store, ask) or {}

    @staticmethod
    def _put(store, ask):
        data = to_bytes(ask["data"])
        if sha256(data) != bytes.fromhex(ask["digest"]):
            raise Failed("COL-10: put under a digest that is not that of the bytes")
        return {"locator": store.put(bytes.fromhex(ask["digest"]), data).hex()}

    @staticmethod
    def _has(store, ask):
        return {"locators": [locator.hex() for locator in store.has(bytes.fromhex(ask["digest"]), ask.get("length"))]}

    @staticmethod
    def _sync(store, _):
        store.sync()

    @staticmethod
    def _epoch(store, _):
        return {"epoch": store.epoch()}

    @staticmethod
    def _raise_epoch(store, ask):
        if ask["epoch"] <= store.current_epoch:
            raise Failed("COL-1: an epoch that does not rise")
        store.raise_epoch(ask["epoch"])

    @staticmethod
    def _plan(store, _):
        plan = store.plan()
        return {"plan": None if plan is None else to_text(plan)}

    @staticmethod
    def _write_plan(store, ask):
        store.write_plan(to_bytes(ask["plan"]))

    @staticmethod
    def _remove_plan(store, _):
        store.remove_plan()

    @staticmethod
    def _lock(store, _):
        store.take_lock()

    @staticmethod
    def _unlock(store, _):
        store.give_lock()

    @staticmethod
    def _chunks(store, _):
        return {"places": [[place.digest.hex(), place.length, place.locator.hex()] for place in store.chunks()]}

    @staticmethod
    def _delete(store, ask):
        store.delete(Place(bytes.fromhex(ask["digest"]), ask["length"], bytes.fromhex(ask["locator"])))

    @staticmethod
    def _bodies(store, _):
        return {"bodies": [to_text(body) for body in store.bodies()]}

    @staticmethod
    def _publish(store, ask):
        if store.volatile:
            raise Failed("COL-26: a snapshot is published before its chunks are durable")
        store.publish(ask["name"], to_bytes(ask["body"]))

    @staticmethod
    def _withdraw(store, ask):
        store.withdraw(ask["name"])

    @staticmethod
    def _confirm(store, ask):
        store.confirm(ask["name"])


class World:
    def __init__(self, command, patience_s):
        self._stack = contextlib.ExitStack()
        self._command, self.patience_s = command, patience_s
        self.folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="kerf-conformance-"))
        self._fakes, self._clients = [], []
        self.fake = None
        self._has_store = True
        self.begin()

    def begin(self):
        """An empty store and a server that knows nothing; processes stay. What the last ones saw is judged first."""
        self.settle()
        self.log = []
        self.store = KitStore(self.log)
        for fake in self._fakes[1:]:
            fake.close()
        del self._fakes[1:]
        if self.fake is None:
            self.fake = self.new_fake()
        self.fake.reset(self.log)
        self.judge_commits(self.fake)
        return self

    def judge_commits(self, fake):
        """Of a store of the client's own nobody here knows what is durable."""
        if self._has_store:
            fake.is_durable = self.store.is_durable

    def new_fake(self, **options):
        fake = Fake(self.log, **options)
        self.judge_commits(fake)
        self._fakes.append(fake)
        return fake

    def start(self, environment=None):
        client = Client(self, self._command, self.folder, environment)
        self._clients.append(client)
        self._stack.callback(client.driven.close)
        return client

    def client(self, number=0, **options):
        """The n-th process, opened anew."""
        while len(self._clients) <= number:
            self.start()
        return self._clients[number].open(**options)

    def kill(self, client):
        client.driven.kill()
        self._clients.remove(client)

    @property
    def can(self):
        if not self._clients:
            self._has_store = "store" in self.start().can
        return self._clients[0].can

    def settle(self):
        """Nothing of any client is under way any more."""
        for client in self._clients:
            client.driven.do("close")
        self.check()

    def violations(self):
        return [text for fake in self._fakes for text in fake.violations]

    def check(self):
        if found := self.violations():
            raise Failed("; ".join(dict.fromkeys(found)))

    def last_words(self):
        """What the clients have said on standard error."""
        path = pathlib.Path(self.folder) / "stderr"
        said = path.read_bytes()[-2000:].decode(errors="replace").strip() if path.exists() else ""
        return f" [standard error: {said}]" if said else ""

    def close(self):
        for client in self._clients:
            client.driven.kill()
        for fake in self._fakes:
            fake.close()
        self._stack.close()

    def events(self, *names):
        return [event for event in self.log if event.split()[0] in names]

    # What has to be so.

    def sound(self):
        """The chunks that can be read from the store, and their bytes."""
        return {digest: data for digest, data in self.store.content.values() if sha256(data) == digest}

    def is_whole(self, client, recipe, data):
        """The recipe is the file, and all of it is durable in the store."""
        if recipe.size != len(data):
            raise Failed(f"COL-10: a recipe of {recipe.size} bytes; the file has {len(data)}")
        if "store" not in client.can:
            if client.restored(recipe) != hashlib.sha256(data).hexdigest():
                raise Failed("COL-10: what is restored is not the file")
            return
        offset = 0
        here = self.sound()
        for digest, length in recipe.chunks:
            if length < 1 or sha256(data[offset:offset + length]) != digest:
                raise Failed(f"COL-10: the chunk of a recipe at {offset} is not the file's")
            if digest not in here:
                raise Failed(f"COL-19: a recipe was given out, and its chunk at {offset} is not durable in the store, whole")
            offset += length
        if offset != len(data):
            raise Failed(f"COL-10: the chunks of a recipe are {offset} bytes of {len(data)}")

    def is_told(self, recipe):
        """The index knows each chunk, at a place where the store has it."""
        for digest in recipe.digests:
            entry = self.fake.index.entries.get(digest)
            if entry is None:
                raise Failed("COL-11: the index was not told of a chunk that was stored")
            if not self.store.is_durable(digest, entry.locator):
                raise Failed("COL-21: the index was told of a place where the chunk is not")

    def restores(self, name, *files):
        body = self.store.snapshots.get(name)
        if body is None:
            raise Failed(f"COL-32: {name} is no snapshot, and the client has said so")
        here = self.sound()
        found = []
        for digest in digests_of(body):
            if digest not in here:
                raise Failed(f"COL-29: {name} cannot be restored: a chunk is gone")
            found.append(here[digest])
        if b"".join(found) != b"".join(files):
            raise Failed(f"COL-29: {name} is not what was backed up")

    def is_sound(self):
        """Each snapshot can be restored, and to whoever comes now the index names nothing that is gone."""
        here = {digest for digest, _ in self.store.content.values()}
        for name, body in self.store.snapshots.items():
            if set(digests_of(body)) - here:
                raise Failed(f"COL-51: {name} cannot be restored any more: a collection took a chunk of it")
        for digest, entry in self.fake.index.entries.items():
            verdict, _ = self.fake.index.verdict(digest, entry.length, self.store.current_epoch)
            if verdict == 2 and digest not in here:
                raise Failed("COL-54: the index calls a chunk a duplicate that was deleted")

    def live(self):
        return {digest for body in [*self.store.pending.values(), *self.store.snapshots.values()] for digest in digests_of(body)}

    @property
    def lock(self):
        return self.fake.lock if self.fake else threading.RLock()


def expect(is_so, says):
    if not is_so:
        raise Failed(says)


@contextlib.contextmanager
def refused(kind, says, reason=None):
    """The client has to say that it could not: by a class of docs/spec/conformance.md, None for any."""
    try:
        yield
    except Refusal as error:
        if kind is not None and error.kind not in kind.split():
            raise Failed(f"{says}: the error is '{error}', not of class {kind}") from error
        if reason is not None and error.reason != reason:
            raise Failed(f"{says}: the reason is '{error.reason}', not {reason}") from error
        return
    raise Failed(f"{says}: the client says that all went well")


def whole_collection(world):
    for _ in collection(world):
        pass


def collection(world):
    """Another agent's collector, a step at a time, by the rules (COL-40 to COL-57), where the index is sound."""
    store, index = world.store, world.fake.index
    epoch = max(store.current_epoch, index.epoch)
    live = world.live()
    doomed = {locator: digest for locator, (digest, _) in store.content.items() if digest not in live}
    store.current_plan = plan_of(epoch + 2, doomed)
    yield "plan"
    store.current_epoch = epoch + 1
    yield "store's epoch"
    index.advance(epoch + 1, index.epoch)
    yield "fence"
    live = world.live()
    doomed = {locator: digest for locator, digest in doomed.items() if digest not in live}
    index.remove(set(doomed.values()))
    yield "forgotten"
    while True:
        store.current_epoch += 1
        index.advance(store.current_epoch, index.epoch)
        if index.remove(set(doomed.values())) == 0:
            break
    yield "advanced"
    store.current_plan = plan_of(epoch + 2, doomed, store.current_epoch)
    for locator in doomed:
        store.content.pop(locator, None)
    yield "deleted"
    store.current_plan = None
    yield "done"


__all__ = ["CHUNK_BYTES", "Failed", "Refusal", "World", "collection", "content", "digests_of", "expect", "plan_of", "refused", "sealed",
           "sha256", "whole_collection", "with_another_digest"]
