"""The users: agents that back up over the real protocol. What each does is a task; how many of each
there are is the section `users` of the settings."""

import collections
import itertools
import random
import time

import grpc
import locust
import xxhash

import checks
import corpora
import stream
import timeline
import wire

FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 5.0


class Agent(locust.User):
    abstract = True
    # Set by locustfile.py for all users of a process.
    settings = None
    ledger = None
    totals = collections.Counter()
    timeline = timeline.Timeline()
    kind = ""
    numbers = None

    def __init_subclass__(cls, **arguments):
        super().__init_subclass__(**arguments)
        cls.numbers = itertools.count()

    def __init__(self, environment):
        super().__init__(environment)
        process = getattr(environment.runner, "worker_index", 0)
        self.name = f"{self.kind}-{process}-{next(self.numbers)}"
        self.repository = f"load-{self.settings.target.run}"
        self.corpus = corpora.Corpus(self.settings.corpus, self.name)
        self.random = random.Random(self.name)
        key = self.settings.target.shard_key_metadata
        shard_key = xxhash.xxh3_64_hexdigest(f"{self.repository}\0{self.name}".encode())
        self.metadata = ((key, shard_key),) if key else ()
        self.address_index = self.random.randrange(len(self.settings.target.addresses))
        # When the stream before this one was lost; None once files go on.
        self.lost_at = None

    def wait_time(self):
        return self.random.expovariate(1 / self.settings.load.wait_s) if self.settings.load.wait_s else 0

    def fire(self, event, response_ms, length=0, error=None):
        self.environment.events.request.fire(
            request_type=self.kind, name=event, response_time=response_ms, response_length=length, exception=error,
            context={})

    def count(self, what, by=1):
        self.totals[what] += by

    def address(self):
        addresses = self.settings.target.addresses
        return addresses[self.address_index % len(addresses)]

    def upload(self, tree):
        """Backs up {name: content}. What fails is told as events; returns whether all is done."""
        transfers = [checks.Transfer(name, content) for name, content in tree.items()]
        will_break = self.random.random() < self.settings.stream.break_share
        fruitless = 0
        while left := [transfer for transfer in transfers if not transfer.is_done]:
            before = progress_of(transfers)
            try:
                self._upload_once(left, will_break)
            except checks.WrongAnswer as error:
                self.fire(f"WRONG: {error.kind}", 0, error=error)
                return False
            except stream.Lost as error:
                will_break = False
                fruitless = 0 if progress_of(transfers) > before else fruitless + 1
                if error.is_final or fruitless >= self.settings.stream.attempts:
                    for transfer in left:
                        if not transfer.is_done:
                            self.fire("whole file", stream.milliseconds(transfer.first_begun or time.perf_counter()),
                                      error=error)
                    return False
                self.count("streams lost")
                self.timeline.count("streams lost", 1)
                self.lost_at = self.lost_at or time.perf_counter()
                self.address_index += 1
                self._back_off(fruitless)
        self.lost_at = None
        return True

    def _upload_once(self, transfers, will_break):
        upload = stream.Stream(self, self.address())
        victim = self.random.choice(transfers) if will_break else None
        try:
            upload.open()
            for transfer in transfers:
                size = transfer.content.size
                upload.send(transfer, self.random.randint(1, size) if transfer is victim and size else None)
            upload.finish()
        finally:
            upload.abandon()
            upload.files_were_lost()

    def _back_off(self, fruitless):
        longest = min(LAST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** fruitless)
        time.sleep(self.random.uniform(longest / 2, longest))


def progress_of(transfers):
    return sum(transfer.durable + transfer.is_done for transfer in transfers)


class FirstBackup(Agent):
    """A tree that was never backed up."""
    abstract = True
    kind = "first backup"

    @locust.task
    def back_up(self):
        self.upload(self.corpus.tree())


class DailyIncremental(Agent):
    """A tree that is known; each task is another day, which changes some of its files. An unchanged
    file goes along, to be cut as before."""
    abstract = True
    kind = "daily incremental"

    def __init__(self, environment):
        super().__init__(environment)
        self.tree = None

    @locust.task
    def back_up(self):
        if self.tree is None:
            tree = self.corpus.tree()
            self.tree = tree if self.upload(tree) else None
            return
        changed = self.corpus.next_day(self.tree)
        changed.append(self.random.choice(sorted(self.tree)))
        self.upload({name: self.tree[name] for name in changed})


class ManySmallFiles(Agent):
    """Many small files, one after another on one stream without waiting for answers."""
    abstract = True
    kind = "many small files"

    @locust.task
    def back_up(self):
        self.upload(self.corpus.small_files())


class HugeFile(Agent):
    abstract = True
    kind = "huge file"

    @locust.task
    def back_up(self):
        self.upload({"huge": self.corpus.make(self.settings.corpus.huge_file_bytes)})


class RestoreCheck(Agent):
    """Looks up every chunk of a file that some user has finished: all must be there, with their length
    and a locator of this run. No bytes are restored: kerfd holds none."""
    abstract = True
    kind = "restore check"

    @locust.task
    def check(self):
        recipe = self.ledger.any_recipe(self.random)
        if recipe is None:
            self.upload(self.corpus.tree())
            return
        began = time.perf_counter()
        try:
            for batch in batches(recipe, self.settings.stream.commit_chunks):
                self._look_up(batch)
        except checks.WrongAnswer as error:
            self.fire(f"WRONG: {error.kind}", 0, error=error)
        except stream.Lost as error:
            self.fire("whole recipe", stream.milliseconds(began), error=error)
        else:
            self.fire("whole recipe", stream.milliseconds(began), sum(length for _, length in recipe))

    def _look_up(self, chunks):
        settings = self.settings
        request = wire.LookupChunksRequest(store_epoch=1, digests=[digest for digest, _ in chunks], repository={
            "repository": self.repository,
            "digest_algorithm": wire.DIGEST_ALGORITHMS[settings.target.digest]})
        for attempt in range(settings.stream.attempts):
            began = time.perf_counter()
            try:
                response = wire.lookup_chunks(self.address(), request, self.metadata, settings.stream.stall_s)
                break
            except grpc.RpcError as error:
                lost = stream.Lost(f"{self.address()}: {error.code().name} {wire.error_reason(error)}")
                if error.code() not in stream.RETRIED:
                    raise lost from error
                self.address_index += 1
                self._back_off(attempt)
        else:
            raise lost
        self.fire("lookup", stream.milliseconds(began))
        judge_lookup(chunks, response.answers, self.ledger)


def judge_lookup(chunks, answers, ledger):
    """`chunks`: (digest, length) of what is committed."""
    checks.require(len(answers) == len(chunks), "lookup", f"{len(answers)} answers for {len(chunks)} digests")
    for (digest, length), answer in zip(chunks, answers):
        where = f"lookup of {digest.hex()}"
        checks.require(answer.verdict != wire.NEW, "forgotten", f"{where}: NEW, but it was committed")
        entry = answer.entry
        checks.require(entry.digest == digest and entry.length_bytes == length, "lookup",
                       f"{where}: answered {entry.digest.hex()} of {entry.length_bytes} bytes, not {length}")
        problem = ledger.explain(digest, length, entry.locator)
        checks.require(problem is None, "duplicate of nothing", f"{where}: {problem}")


def batches(items, count):
    for begin in range(0, len(items), count):
        yield items[begin:begin + count]


ALL = {"first_backup": FirstBackup, "daily_incremental": DailyIncremental, "many_small_files": ManySmallFiles,
       "huge_file": HugeFile, "restore_check": RestoreCheck}
