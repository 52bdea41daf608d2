"""The Python client, driven by the conformance kit: docs/spec/conformance.md."""

import base64
import contextlib
import hashlib
import json
import sys

import kerf


def to_text(data):
    return base64.b64encode(bytes(data)).decode()


def say(said):
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


class CallbackError(Exception):
    """What the kit answers to a question that it is to fail."""


def ask(what, **arguments):
    say({"ask": what, **arguments})
    answer = json.loads(sys.stdin.readline())
    if "error" in answer:
        raise CallbackError(answer["error"])
    return answer


class Reader:
    def __init__(self, seeks):
        self._seeks, self._offset = seeks, 0

    def read(self, size):
        data = base64.b64decode(ask("read", size=size)["data"])
        self._offset += len(data)
        return data

    def seekable(self):
        return self._seeks

    def tell(self):
        return self._offset

    def seek(self, offset):
        ask("seek", offset=offset)
        self._offset = offset


class PlainStore:
    def put(self, digest, data):
        return bytes.fromhex(ask("put", digest=digest.hex(), data=to_text(data))["locator"])

    def has(self, digest):
        return [bytes.fromhex(locator) for locator in ask("has", digest=digest.hex())["locators"]]

    def has_of_length(self, digest, length):
        return [bytes.fromhex(locator) for locator in ask("has", digest=digest.hex(), length=length)["locators"]]

    def sync(self):
        ask("sync")


class Store(PlainStore):
    def epoch(self):
        return ask("epoch")["epoch"]

    def raise_epoch(self, epoch):
        ask("raise_epoch", epoch=epoch)

    def plan(self):
        plan = ask("plan")["plan"]
        return None if plan is None else base64.b64decode(plan)

    def write_plan(self, plan):
        ask("write_plan", plan=to_text(plan))

    def remove_plan(self):
        ask("remove_plan")

    @contextlib.contextmanager
    def lock(self):
        ask("lock")
        try:
            yield
        finally:
            ask("unlock")

    def chunks(self):
        return [kerf.Stored(bytes.fromhex(digest), length, bytes.fromhex(locator))
                for digest, length, locator in ask("chunks")["places"]]

    def delete(self, place):
        ask("delete", digest=place.digest.hex(), length=place.length, locator=place.locator.hex())

    def publish(self, name, body):
        ask("publish", name=name, body=to_text(body))

    def withdraw(self, name):
        ask("withdraw", name=name)

    def confirm(self, name):
        ask("confirm", name=name)

    def roots(self):
        for body in ask("bodies")["bodies"]:
            for recipe in kerf.decode(base64.b64decode(body)):
                for chunk in recipe.chunks:
                    yield chunk.digest


class Driver:
    def __init__(self):
        self._client = None
        self._recipes = []

    def _keep(self, recipe):
        self._recipes.append(recipe)
        return len(self._recipes) - 1

    def open(self, servers, repository, digest, is_collected, folder="", **options):
        self.close()
        if folder:
            self._store = kerf.FolderStore(folder, digest)
        else:
            self._store = Store() if is_collected else PlainStore()
        self._recipes = []
        self._client = kerf.open(servers, repository, self._store, digest=digest, streams=1, **options)
        return {}

    def upload(self, key, seeks):
        recipe = self._client.upload(Reader(seeks), bytes.fromhex(key))
        return {"recipe": self._keep(recipe), "size": recipe.size,
                "chunks": [[chunk.digest.hex(), chunk.length] for chunk in recipe.chunks]}

    def reuse(self, recipe):
        taken = self._client.reuse(self._recipes[recipe])
        return {"recipe": None if taken is None else self._keep(taken)}

    def decode(self, body):
        return {"recipes": [self._keep(recipe) for recipe in kerf.decode(base64.b64decode(body))]}

    def snapshot(self, name, recipes):
        self._client.snapshot(name, [self._recipes[number] for number in recipes])
        return {}

    def restore(self, recipe):
        data = hashlib.sha256()
        for piece in self._store.restore(self._recipes[recipe]):
            data.update(piece)
        return {"sha256": data.hexdigest()}

    def collect(self):
        done = self._client.collect(self._store.roots)
        return {"deleted": done.deleted_chunks, "is_index_believed": done.is_index_believed}

    def close(self):
        if self._client is not None:
            self._client.close()
            self._client = None
        return {}


CLASSES = ((kerf.ChunksLost, "chunks_lost"), (kerf.EpochBehind, "epoch_behind"), (kerf.Retryable, "retryable"),
           (kerf.StoreError, "store"), (kerf.Disagreement, "disagreement"), (kerf.Refused, "refused"))


def error_of(error):
    kind = next((name for kind, name in CLASSES if isinstance(error, kind)), "other")
    return {"class": kind, "reason": getattr(error, "reason", ""), "text": str(error) or type(error).__name__}


def main():
    say({"client": f"kerf-python/{kerf.__version__}", "protocol": 1,
         "can": ["reader", "store", "lengths", "snapshot", "collect", "folder", "silence_s", "commit_bytes", "window_bytes",
                 "direct"]})
    driver = Driver()
    while line := sys.stdin.readline():
        told = json.loads(line)
        try:
            done = getattr(driver, told.pop("do"))(**told)
        except Exception as error:  # Whatever it is, the kit judges it.
            say({"error": error_of(error)})
        else:
            say({"ok": done})


if __name__ == "__main__":
    main()
