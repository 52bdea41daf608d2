"""One round: a tree, a store, and some steps of backups, restores, collections and trouble. Each step ends with what must
hold; the last one restores everything that anybody was promised."""

import copy
import os
import pathlib
import shutil

import edits
import faults
import judge
import manifest
import runs
import trees
from runs import Wrong

THEMES = {"source": 4, "store": 4, "target": 3, "together": 5, "power": 3, "clock": 1, "damage": 3}
PROFILES = ("mincdc-8k", "mincdc-8k", "fastcdc2020-4k", "fixed-8k", "gear-8k")
GRANULARITIES_NS = (1, 1, 1, 1_000_000_000, 2_000_000_000)
CLOCKS_S = (0, 0, 3600, -3600, 86_400 * 40, -86_400 * 400, 1, -2)
# What of a round is on a file system with faults; the rest is beside it, for each operation there is worth two switches of
# processes.
AT_SOURCE, AT_STORE, AT_TARGET = ("source", "clock"), ("store", "together", "power", "clock", "damage"), ("target",)
# How many rounds have parity of their packs.
PARITY = {"damage": 0.5, "store": 0.25, "together": 0.25, "power": 0.25}
PARITY_PERCENTS = ("1", "5", "20")
# Which of these a backup has must make no difference to what comes back.
COMPRESSIONS = ("auto", "auto", "off", "fast", "default", "9")
READERS, READ_ORDERS = (0, 1, 2, 8, 8, 64), ("path", "inode", "physical")
# How long one that waits for another's lock is waited for.
LOCKED_PATIENCE_S = 1.0
NANO = 1_000_000_000


class Round:
    """Of a seed and a number: the same steps each time."""

    def __init__(self, world, random, folder, counts, theme=None):
        self.world, self.random, self.folder, self.counts = world, random, folder, counts
        self.theme = theme or random.choices(list(THEMES), list(THEMES.values()))[0]
        self.granularity_ns = random.choice(GRANULARITIES_NS) if self.theme == "source" else 1
        self.name = folder.name
        source, store, self.targets = [files.mount if self.theme in themes else files.backing for files, themes in
                                       ((world.source, AT_SOURCE), (world.store, AT_STORE), (world.target, AT_TARGET))]
        self.source = os.fsencode(source / self.name / "tree")
        self.backing = os.fsencode(world.source.backing / self.name / "tree")
        self.store, self.other_store = store / self.name, store / f"{self.name}-copy"
        # Of its own, so that a seed makes the same steps as before there were such settings.
        self.ways = copy.deepcopy(random)
        self.maker = trees.Maker(random, self.backing, self.granularity_ns)
        # What must be there, what may be, and backups that did not say how they ended.
        self.known, self.maybe, self.attempts = {}, {}, []
        # Those of the known that nobody can forget; forgotten ones that can be brought back, and that perhaps can; what the
        # other store holds.
        self.pinned, self.forgotten, self.fading, self.copied = set(), {}, {}, {}
        # Those that may be there and among the forgotten as well.
        self.in_both = set()
        self.has_parity = False
        self.log = []
        self._next = 0

    # Small things.

    def number(self):
        self._next += 1
        return self._next

    def count(self, what, times=1):
        self.counts[what] = self.counts.get(what, 0) + times

    def clock(self):
        return self.random.choice(CLOCKS_S) if self.theme == "clock" else 0

    def tree(self):
        return manifest.read(self.backing, self.granularity_ns)

    def start(self, *words):
        run = self.world.start(self.folder / f"run-{self.number()}", *words, clock_s=self.clock())
        self.log.append(str(run))
        return run

    def over(self, run):
        run.finish()
        self.count(f"{run.arguments[0]}: {'killed' if run.was_killed else run.code}")
        self.log.append(f"  ended with {run.code}")
        self.world.check_kerfd()
        return run

    def clear(self, *files):
        hits = sum(one.clear() for one in files)
        self.count("operations that went wrong", hits)
        return hits

    def fault(self, files, fault):
        self.log.append(f"  fault of {files.mount.parent.name}: {fault}")
        files.arm(fault)

    # Backups.

    def start_backup(self, *options):
        return self.start("backup", self.source, "--store", self.store, "--server", self.world.server, "--streams",
                          str(self.random.randint(1, 3)), "--compression", self.ways.choice(COMPRESSIONS), "--readers",
                          str(self.ways.choice(READERS)), "--read-order", self.ways.choice(READ_ORDERS), *options)

    def judge_backup(self, run, states, editor=None, well=False):
        """`well`: nothing has disturbed it."""
        snapshot = judge.Snapshot(None, states, run.warned(self.source), editor)
        if run.code not in (runs.OK, runs.PARTIAL):
            self.attempts.append(snapshot)
            if well:
                raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
            return None
        if run.summary is None:
            raise Wrong(f"{run}: ended with {run.code} without a summary")
        if run.code == runs.OK and run.warned(self.source) or well and run.code != runs.OK and editor is None:
            raise Wrong(f"{run}: ended with {run.code} and warns: {run.tell()}")
        snapshot.name = run.summary["snapshot"]
        self.known[snapshot.name] = snapshot
        return snapshot

    def backup(self, *options):
        """In peace."""
        states = [self.tree()]
        return self.judge_backup(self.over(self.start_backup(*options)), states, well=True)

    def backup_with_fault(self, files, fault):
        states = [self.tree()]
        self.fault(files, fault)
        run = self.over(self.start_backup())
        hits = self.clear(files)
        snapshot = self.judge_backup(run, states, well=hits == 0)
        if run.code == runs.DAMAGED and files is not self.world.store:
            raise Wrong(f"{run}: calls a store damaged that is not: {run.tell()}")
        return snapshot

    def backup_with_edits(self):
        """It is stopped at some operations on the tree, and that is edited meanwhile."""
        editor = edits.Editor(self.maker)
        states = [self.tree()]
        files = self.world.source
        self.fault(files, faults.stop(self.random, faults.SOURCE))
        run = self.start_backup()
        for _ in range(self.random.randint(1, 3)):
            if not run.until_stopped():
                break
            self.count("edits while a backup was stopped")
            done = []
            for _ in range(self.random.randint(1, 5)):
                done += editor.edit(1)
                # Of what is written twice, a reader that was not the one that was stopped may find the first.
                states.append(self.tree())
            self.log.append("  edited meanwhile: " + ", ".join(done))
            files.clear()
            self.fault(files, faults.stop(self.random, faults.SOURCE))
            run.go_on()
        files.clear()
        self.over(run)
        return self.judge_backup(run, states, editor, well=True)

    # Restores.

    def target_of(self, target):
        """Where the tree is restored to, as runs see it."""
        return os.fsencode(self.targets / target) + self.source

    def restore(self, snapshot, *options, target=None, fault=None, store=None, well=True, keep=False):
        """(run, folder of the restored tree in that of all); the tree is there still only for who has named it, or keeps it."""
        keep = keep or target is not None
        target = target or f"{self.name}/{self.number()}"
        files = self.world.target
        if fault:
            self.fault(files, fault)
        # One thread: the n-th operation is the same one the next time.
        threads = self.random.choice(("1", "1", "4"))
        run = self.over(self.start("restore", snapshot.name, "--store", store or self.store, "--target", self.targets / target,
                                   "--threads", threads, *options))
        hits = self.clear(files) if fault else 0
        self.judge_restore(run, snapshot, target, hits, well)
        if not keep:
            self.drop(target)
        return run, target

    def judge_restore(self, run, snapshot, target, hits=0, well=True):
        if run.code not in (runs.OK, runs.PARTIAL):
            if well and hits == 0:
                raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
            return
        if run.code == runs.PARTIAL and well and hits == 0:
            raise Wrong(f"{run}: is partial, and nothing was in its way: {run.tell()}")
        excused = run.warned(self.target_of(target))
        judge.hold(f"{run}: {snapshot}", snapshot.problems(self.restored(target), excused))

    def restored(self, target):
        place = os.fsencode(self.world.target.backing / target) + self.source
        return manifest.read(place) if os.path.lexists(place) else {}

    def drop(self, target):
        """A restored tree that has been judged: all of a long round would not fit into memory."""
        shutil.rmtree(self.world.target.backing / target, ignore_errors=True)

    def losses_of(self, snapshot, mended=False):
        """The paths of a snapshot of a store with damage that cannot be brought back now. What can be is right, and the rest
        was told. `mended`: parity gives all of it back."""
        target = f"{self.name}/{self.number()}"
        run = self.over(self.start("restore", snapshot.name, "--store", self.store, "--target", self.targets / target))
        if mended and run.code != runs.OK:
            raise Wrong(f"{run}: parity could have given back what is lost: {run.tell()}")
        if run.summary is None:
            if run.code in (runs.OK, runs.PARTIAL):
                raise Wrong(f"{run}: ended with {run.code} without a summary")
            return frozenset(snapshot.states[0])
        problems, lost = snapshot.rest(self.restored(target), run.warned(self.target_of(target)), run.summary["lost_places"] > 0)
        judge.hold(f"{run}: {snapshot}", problems)
        self.drop(target)
        return frozenset(lost)

    def restore_with_fault_on_store(self, snapshot):
        wrong = self.random.choice(("flip", "zeros"))
        self.fault(self.world.store, self.random.choice((faults.of_looks(self.random),
                                                         f"read {self.random.randint(1, 12)} 1 {wrong} packs/")))
        target = f"{self.name}/{self.number()}"
        run = self.over(self.start("restore", snapshot.name, "--store", self.store, "--target",
                                   self.targets / target))
        self.judge_restore(run, snapshot, target, hits=self.clear(self.world.store))
        self.drop(target)

    def restore_with_fault_on_target(self, snapshot):
        """And once more over what it has left, without one."""
        target = f"{self.name}/{self.number()}"
        files = self.world.target
        cut = self.random.random() < 0.4
        if cut:
            files.say("track")
        kill = self.random.random() < 0.3
        fault = (faults.of_power if kill else faults.of_changes)(self.random, faults.TARGET)
        # What is not synced has close alone to tell of losses.
        options = () if cut or self.random.random() < 0.6 else ("--no-sync",)
        if options:
            fault = faults.of_keeping(self.random, faults.TARGET)
        self.restore(snapshot, *options, target=target, fault=fault)
        if cut:
            self.log.append("  power cut of target")
            files.say(f"cut {self.random.randrange(2**32)}")
            files.say("untrack")
        overwrite = self.random.choice(("if-changed", "if-changed", "always"))
        self.restore(snapshot, "--overwrite", overwrite, target=target)

    # All else.

    def cut_power(self):
        changed = self.world.store.say(f"cut {self.random.randrange(2**32)}")
        self.log.append(f"  power cut: {changed} names and files as they were")
        self.count("names and files that power cuts took", int(changed))
        # It may have taken the store itself, if that was being made.
        if self.known:
            self.look()

    def forget_all(self):
        if free := sorted(self.known.keys() - self.pinned):
            self.forget(free)

    def forget(self, names):
        run = self.over(self.start("forget", *names, "--store", self.store))
        return self.judge_forget(run, names)

    def judge_forget(self, run, names, well=True):
        if run.code == runs.OK:
            said = {line["snapshot"] for line in run.lines if line["message_type"] == "forgotten"}
            if said != set(names):
                raise Wrong(f"{run}: was to forget {names}, and forgot {sorted(said)}")
        elif well:
            raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
        pinned = self.pinned.intersection(names)
        if pinned and run.code == runs.OK:
            raise Wrong(f"{run}: forgot what is pinned: {sorted(pinned)}")
        for name in set(names) - pinned:
            snapshot = self.known.pop(name, None)
            if snapshot is not None:
                (self.forgotten if run.code == runs.OK else self.maybe)[name] = snapshot
        return run

    def forget_one(self):
        """Not the last, nor a pinned one."""
        free = sorted(self.known.keys() - self.pinned)
        if free and len(self.known) > 1:
            self.forget([self.random.choice(free)])

    def start_gc(self, *options):
        if "--keep-forgotten" not in options:
            self.fading |= self.forgotten
            self.forgotten = {}
        return self.start("gc", "--store", self.store, "--server", self.world.server, "--max-waste",
                          self.random.choice(("0", "0.2", "0.01")), *options)

    def gc(self, *options):
        """In peace."""
        run = self.over(self.start_gc(*options))
        if run.code != runs.OK:
            raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
        return run

    # Copies.

    def start_copy(self):
        run = self.start("copy", "--store", self.store, "--to", self.other_store, "--create",
                         *self.random.choice(((), ("--server", self.world.server))))
        run.snapshots = set(self.known)
        return run

    def judge_copy(self, run, well=True):
        if well and run.code != runs.OK:
            raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
        # Each one is told of when it is there.
        for line in run.lines:
            if line["message_type"] == "copied" and line["outcome"] != "failed":
                name = line["snapshot"]
                for snapshots in (self.known, self.maybe, self.forgotten, self.fading):
                    if name in snapshots:
                        self.copied[name] = snapshots[name]
        if well and run.snapshots - self.copied.keys():
            raise Wrong(f"{run}: has not copied {sorted(run.snapshots - self.copied.keys())}")
        return run

    def copy(self):
        """In peace."""
        return self.judge_copy(self.over(self.start_copy()))

    def in_peace(self, *words, codes=(runs.OK,)):
        run = self.over(self.start(*words))
        if run.code not in codes:
            raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
        return run

    def verify(self, *options):
        """In peace: all is well, and each pack has parity where the store keeps it."""
        run = self.in_peace("verify", *options, "--store", self.store)
        if run.summary["packs_without_parity"]:
            raise Wrong(f"{run}: {run.summary['packs_without_parity']} packs have no parity")

    def look(self):
        """What the store lists is what is known, and perhaps more."""
        listed = self.in_peace("snapshots", "--store", self.store).lines
        names = {line["snapshot"] for line in listed if line["message_type"] == "snapshot"}
        lost = self.known.keys() - names
        if lost:
            raise Wrong(f"snapshots that were promised are not there: {sorted(lost)}; there are {sorted(names)}")
        for name in sorted(names - self.known.keys()):
            self.adopt(name)

    def adopt(self, name):
        """One whose backup was killed or failed, or that was being forgotten: it is there, so it is whole."""
        if name in self.maybe:
            self.known[name] = self.maybe.pop(name)
            return
        target = f"{self.name}/{self.number()}"
        run = self.in_peace("restore", name, "--store", self.store, "--target", self.targets / target)
        restored = self.restored(target)
        self.drop(target)
        problems = []
        for number, attempt in enumerate(self.attempts):
            problems = attempt.problems(restored, frozenset())
            if not problems:
                attempt.name = name
                self.known[name] = self.attempts.pop(number)
                return
        judge.hold(f"{run}: snapshot {name} of nobody who was told of it", problems or ["there is no such backup"])

    def check_all(self):
        self.look()
        for snapshot in list(self.known.values()):
            self.restore(snapshot)

    def finale(self):
        """All is well again: so everything must be."""
        self.clear(self.world.source, self.world.store, self.world.target)
        self.backup()
        self.check_all()
        if self.has_parity:
            # Who could not make it has said so.
            self.in_peace("parity", "--store", self.store)
        self.verify("--read-data")
        edits.Editor(self.maker).edit(self.random.randint(0, 4))
        self.restore(self.backup())
        if self.pinned:
            name = self.random.choice(sorted(self.pinned))
            self.judge_forget(self.over(self.start("forget", name, "--store", self.store)), [name], well=False)
        self.gc()
        self.check_all()
        self.verify()
        if self.copied:
            self.copy()
            self.in_peace("verify", "--read-data", "--store", self.other_store)
            self.restore(self.random.choice(list(self.copied.values())), store=self.other_store)

    def remove(self):
        for files in (self.world.source, self.world.store, self.world.target):
            for name in (self.name, self.other_store.name):
                shutil.rmtree(files.backing / name, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def prepare(one):
    """The tree."""
    pathlib.Path(os.fsdecode(one.backing)).mkdir(parents=True)
    one.folder.mkdir(parents=True)
    one.world.source.say(f"granularity {one.granularity_ns}")
    one.maker.tree()


def begin(one):
    """The store, and a first backup of most."""
    profile = ("--profile", one.random.choice(PROFILES))
    if one.random.random() < PARITY.get(one.theme, 0):
        one.has_parity = True
        one.in_peace("init", "--store", one.store, "--parity", one.random.choice(PARITY_PERCENTS), *profile)
        one.count("rounds with parity")
        profile = ()
    if one.random.random() < 0.8:
        one.backup(*profile)
