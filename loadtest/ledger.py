"""What this process knows to be committed: by it, and by other processes of the same run."""

import collections
import struct

import blake3

MAX_DIGESTS = 500_000
MAX_RECIPES = 20_000
MAX_RECIPE_CHUNKS = 2_000_000
_HEAD = struct.Struct("<3sII")
_MARK = b"kl1"
_SIGNATURE_BYTES = 16


class Ledger:
    """A locator is made at the moment of a Commit and signed for its digest and length. So what kerfd
    answers as DUPLICATE proves with its locator that some user of this run has committed that chunk,
    whichever process that user was in, and however long ago. What this process alone remembers is
    bounded; what was dropped is not checked."""

    def __init__(self, run, writer):
        self._key = blake3.blake3(f"kerf load test {run}".encode()).digest()
        self._writer = writer
        # digest -> when its commit was answered; None: it was only sent.
        self._committed = collections.OrderedDict()
        self._dropped_digest = False
        self._cuts = collections.OrderedDict()
        self._recipes = collections.deque()
        self._recipe_chunks = 0

    def _signature(self, head, digest):
        return blake3.blake3(head + digest, key=self._key).digest(length=_SIGNATURE_BYTES)

    def commit_sent(self, digest, length):
        """The locator under which the chunk is committed."""
        self._committed.setdefault(digest, None)
        if len(self._committed) > MAX_DIGESTS:
            self._committed.popitem(last=False)
            self._dropped_digest = True
        head = _HEAD.pack(_MARK, self._writer, length)
        return head + self._signature(head, digest)

    def commit_answered(self, digest, now):
        if self._committed.get(digest, now) is None:
            self._committed[digest] = now

    def was_committed_before(self, digest, moment):
        """Whether a commit of it was answered before `moment`, as far as is remembered."""
        answered = self._committed.get(digest)
        return answered is not None and answered < moment

    def explain(self, digest, length, locator):
        """Why the locator is none of this run's for that chunk; None where it is."""
        if len(locator) != _HEAD.size + _SIGNATURE_BYTES or not locator.startswith(_MARK):
            return f"locator {locator.hex() or '(empty)'} is none that a user has committed"
        head = locator[:_HEAD.size]
        _, writer, committed_length = _HEAD.unpack(head)
        if locator[_HEAD.size:] != self._signature(head, digest):
            return f"locator {locator.hex()} was committed for another chunk, or by nobody"
        if committed_length != length:
            return f"the chunk has {length} bytes; {committed_length} were committed"
        if writer == self._writer and digest not in self._committed and not self._dropped_digest:
            return "the locator is this process's, which has never committed the chunk"
        return None

    def other_cuts(self, content, ends):
        """Whether the same content was cut otherwise before."""
        key, cuts = hash(content.stretches), hash(tuple(ends))
        known = self._cuts.setdefault(key, cuts)
        if len(self._cuts) > MAX_RECIPES:
            self._cuts.popitem(last=False)
        return known != cuts

    def keep_recipe(self, recipe):
        """`recipe`: [(digest, length)] of a file that is done."""
        self._recipes.append(recipe)
        self._recipe_chunks += len(recipe)
        while self._recipe_chunks > MAX_RECIPE_CHUNKS or len(self._recipes) > MAX_RECIPES:
            self._recipe_chunks -= len(self._recipes.popleft())

    def any_recipe(self, choose):
        return choose.choice(self._recipes) if self._recipes else None
