"""The steps of a round, by its theme."""

import os
import time

import collecting
import edits
import faults
import keeping
import mending
import rounds
import runs
import trees
from runs import Wrong

KINDS = ("backup", "backup", "gc", "gc", "forget", "restore", "verify", "index rebuild", "copy", "undelete")
SLOW, SLOW_BYTES, SLOW_S = b"a large file", 2_000_000, 0.6
STOPS = faults.STORE_CHANGES | faults.STORE_LOOKS


def edit(one):
    done = edits.Editor(one.maker).edit(one.random.randint(1, 6))
    one.log.append("edited: " + ", ".join(done))


def backup(one):
    snapshot = one.backup(*one.random.choice(((), (), ("--force",))))
    if one.random.random() < 0.5:
        one.restore(snapshot)


def some(one):
    return one.random.choice(list(one.known.values())) if one.known else None


def restore(one):
    if snapshot := some(one):
        one.restore(snapshot)


def forget(one):
    one.forget_one()


def keep_last(one):
    """The newest by the clocks of the agents."""
    if not one.known:
        return
    listed = [line for line in one.in_peace("snapshots", "--store", one.store).lines if line["message_type"] == "snapshot"]
    keep = one.random.randint(1, 3)
    run = one.over(one.start("forget", "--keep-last", str(keep), "--store", one.store))
    said = {line["snapshot"] for line in run.lines if line["message_type"] == "forgotten"}
    ordered = sorted(listed, key=lambda line: line["started_unix_ns"])
    if run.code == runs.OK and said != {line["snapshot"] for line in ordered[:-keep]} - one.pinned:
        raise Wrong(f"{run}: forgot {sorted(said)} of {[line['snapshot'] for line in ordered]}")
    for name in said:
        snapshot = one.known.pop(name, None) or one.maybe.pop(name, None)
        if snapshot:
            one.forgotten[name] = snapshot


def gc(one):
    if one.known:
        one.gc()


def source_fault(one):
    one.backup_with_fault(one.world.source, faults.of_source(one.random))


def edits_meanwhile(one):
    snapshot = one.backup_with_edits()
    if snapshot and one.random.random() < 0.7:
        one.restore(snapshot)
    # What it saw in between must not be taken for what is there now.
    if one.random.random() < 0.7:
        one.restore(one.backup())


def slow_read(one):
    """A large file is written while it is read, in the bytes that have been read and in the tick of its times; reading then
    takes longer than a tick."""
    path = os.path.join(one.backing, SLOW)
    # An edit may have made something else of an earlier one.
    if os.path.lexists(path) and not os.path.isfile(path):
        return
    one.maker.write_bytes(path, SLOW_BYTES)
    one.log.append("made a large file")
    one.fault(one.world.source, f"read {one.random.randint(2, 5)} 1 stop {os.fsdecode(SLOW)}")
    editor = edits.Editor(one.maker)
    states = [one.tree()]
    run = one.start_backup()
    if run.until_stopped():
        one.count("writes to what was being read")
        editor.touch(path)
        with open(path, "r+b", buffering=0) as file:
            file.write(one.random.randbytes(9))
        states.append(one.tree())
        if one.random.random() < 0.5:
            time.sleep(one.granularity_ns / rounds.NANO + SLOW_S)
    one.clear(one.world.source)
    one.judge_backup(one.over(run), states, editor, well=True)
    one.restore(one.backup())


def store_fault(one):
    """Under any verb."""
    kind = one.random.choice(("backup", "backup", "restore", "restore", "gc", "gc", "forget", "verify"))
    snapshot = some(one)
    if kind == "backup" or snapshot is None:
        return one.backup_with_fault(one.world.store, faults.of_store(one.random))
    if kind == "restore":
        return one.restore_with_fault_on_store(snapshot)
    one.fault(one.world.store, faults.of_store(one.random))
    if kind == "forget":
        run = one.over(one.start("forget", snapshot.name, "--store", one.store))
        well = one.clear(one.world.store) == 0 and snapshot.name not in one.pinned
        return one.judge_forget(run, [snapshot.name], well)
    run = one.over(one.start_gc() if kind == "gc" else one.start("verify", "--read-data", "--store", one.store))
    if one.clear(one.world.store) == 0 and run.code != runs.OK:
        raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
    return None


def target_fault(one):
    if snapshot := some(one):
        one.restore_with_fault_on_target(snapshot)


def restore_exactly(one):
    """Over another tree, of which nothing is left."""
    # One that lacks something is refused.
    complete = [snapshot for snapshot in one.known.values() if not snapshot.warned]
    if not complete:
        return
    snapshot = one.random.choice(complete)
    _, target = one.restore(some(one), keep=True)
    root = os.fsencode(one.world.target.backing / target) + one.source
    editor = edits.Editor(trees.Maker(one.random, root))
    one.log.append("  edited there: " + ", ".join(editor.edit(one.random.randint(0, 8))))
    # What a module of security gave a folder stays as long as that does.
    for directory in trees.everything(root)[0]:
        if trees.OF_SECURITY in os.listxattr(directory):
            os.removexattr(directory, trees.OF_SECURITY)
    words = ("--overwrite", "always", "--delete")
    disturbed = one.random.random() < 0.3
    if disturbed:
        one.restore(snapshot, *words, target=target, fault=faults.of_changes(one.random, faults.TARGET), well=False)
    # A directory is never replaced by something else; this is said, and then nothing is removed.
    one.restore(snapshot, *words, target=target, well=False)


def power_cut(one):
    """A run is killed at an operation on the store, or that goes wrong, and then what was not synced is lost."""
    snapshot = some(one)
    kind = one.random.choice(("backup", "backup", "gc", "gc", "forget", "pin", "undelete", "copy")) if snapshot else "backup"
    states = [one.tree()]
    dies = one.random.random() < 0.7
    is_doubtful = False
    one.fault(one.world.store, (faults.of_power if dies else faults.of_changes)(one.random, faults.STORE_CHANGES))
    if kind == "backup":
        run = one.over(one.start_backup())
        one.judge_backup(run, states)
    elif kind == "gc":
        one.over(one.start_gc())
    elif kind == "pin":
        if one.over(one.start("pin", snapshot.name, "--store", one.store)).code == runs.OK:
            one.pinned.add(snapshot.name)
        is_doubtful = snapshot.name not in one.pinned
    elif kind == "undelete":
        keeping.undelete_disturbed(one)
    elif kind == "copy":
        one.judge_copy(one.over(one.start_copy()), well=False)
    else:
        one.judge_forget(one.over(one.start("forget", snapshot.name, "--store", one.store)), [snapshot.name], well=False)
    one.clear(one.world.store)
    one.cut_power()
    if is_doubtful:
        keeping.unpin_doubtful(one, snapshot.name)


def together(one):
    """Two or three runs, each stopped somewhere, go on in any order; some are killed."""
    parts = []
    # A store that is not there yet is made by whoever comes first, and only backups come.
    kinds = KINDS if one.known else ("backup",)
    chosen = one.random.choices(kinds, k=one.random.choice((2, 2, 3)))
    if one.known and one.random.random() < 0.5:
        # What a backup is told of as stored is just what a collection is about to delete.
        one.forget_all()
        chosen = one.random.choice((["backup", "gc"], ["gc", "backup"], ["gc", "backup", "gc"], ["backup", "gc", "backup"]))
    for kind in chosen:
        snapshot = some(one)
        part = Part(one, kind, snapshot)
        one.fault(one.world.store, faults.stop(one.random, STOPS))
        part.start()
        if part.run.until_stopped(rounds.LOCKED_PATIENCE_S):
            one.count("runs stopped beside others")
        one.clear(one.world.store)
        parts.append(part)
    one.random.shuffle(parts)
    for part in parts:
        if one.random.random() < 0.15:
            one.log.append(f"  killed: {part.run}")
            part.run.kill()
            continue
        one.log.append(f"  goes on: {part.run}")
        part.run.go_on()
        if one.random.random() < 0.6:
            part.run.wait(rounds.LOCKED_PATIENCE_S)
    for part in parts:
        one.over(part.run)
    forgotten = {part.snapshot.name for part in parts if part.kind == "forget"}
    # What is brought back may be what another one was forgetting.
    for part in sorted(parts, key=lambda part: part.kind == "undelete"):
        part.judge(parts, forgotten)
    if "gc" in chosen:
        one.fading |= one.forgotten
        one.forgotten = {}


class Part:
    """One run among others."""

    def __init__(self, one, kind, snapshot):
        self.one, self.kind, self.snapshot = one, kind, snapshot
        self.run = self.states = self.target = self.was_forgotten = None

    def start(self):
        one = self.one
        if self.kind == "backup":
            self.states = [one.tree()]
            self.run = one.start_backup()
        elif self.kind == "gc":
            self.run = one.start_gc()
        elif self.kind == "forget":
            self.run = one.start("forget", self.snapshot.name, "--store", one.store)
        elif self.kind == "restore":
            self.target = f"{one.name}/{one.number()}"
            self.run = one.start("restore", self.snapshot.name, "--store", one.store, "--target", one.targets / self.target)
        elif self.kind == "verify":
            self.run = one.start("verify", "--read-data", "--store", one.store)
        elif self.kind == "copy":
            self.run = one.start_copy()
        elif self.kind == "undelete":
            self.run, self.snapshot, self.was_forgotten = keeping.start_undelete(one, self.snapshot)
        else:
            self.run = one.start("index", "rebuild", "--store", one.store, "--server", one.world.server)

    def judge(self, parts, forgotten):
        one, run = self.one, self.run
        # Only one of these runs at a time, and says so.
        collectors = sum(part.kind in ("gc", "index rebuild") for part in parts)
        if run.code == runs.DAMAGED and not (self.kind == "undelete" and collectors):
            raise Wrong(f"{run}: calls a store damaged that is not: {run.tell()}")
        if self.kind == "backup":
            # One that began when there was no store yet may meet another that makes it.
            one.judge_backup(run, self.states, well=not run.was_killed)
        elif self.kind == "forget":
            again = sum(part.kind == "forget" and part.snapshot is self.snapshot for part in parts) > 1
            disturbed = run.was_killed or again or self.snapshot.name in one.pinned
            one.judge_forget(run, [self.snapshot.name], well=not disturbed)
        elif self.kind == "restore":
            gone = self.snapshot.name in forgotten
            if not run.was_killed:
                one.judge_restore(run, self.snapshot, self.target, hits=int(gone), well=not gone)
        elif self.kind == "copy":
            copies = sum(part.kind == "copy" for part in parts)
            one.judge_copy(run, well=not (run.was_killed or forgotten or copies > 1 or "undelete" in [part.kind for part in parts]))
        elif self.kind == "undelete":
            others = [part.kind for part in parts if part is not self and part.snapshot is self.snapshot]
            well = self.was_forgotten and not (run.was_killed or collectors or "undelete" in others)
            keeping.judge_undelete(one, run, self.snapshot, self.was_forgotten, others.count("forget"), well,
                                   can_be_gone=collectors > 0)
        elif not run.was_killed and run.code != runs.OK and collectors < 2:
            raise Wrong(f"{run}: nothing was in its way: {run.tell()}")


def trouble_of_kerfd(one):
    one.random.choice((one.world.restart_kerfd, one.world.lose_index))()
    one.log.append("kerfd was killed, and is back")


COMMON = {edit: 6, backup: 4, restore: 2, forget: 2, gc: 2, keeping.pin: 1, keeping.forget_pinned: 1, keeping.unpin: 1,
          keeping.undelete: 1, keeping.copy: 1, keeping.verify_a_part: 1}
STEPS = {
    "source": {edit: 6, source_fault: 8, edits_meanwhile: 10, slow_read: 2, backup: 2, gc: 2},
    "store": COMMON | {store_fault: 14, collecting.dies: 3, trouble_of_kerfd: 1, keeping.repair: 2, keeping.copy: 3},
    "target": {edit: 2, backup: 2, target_fault: 6, restore_exactly: 2},
    "together": COMMON | {together: 10, collecting.one_within_another: 12, trouble_of_kerfd: 1, keeping.keep_forgotten: 1},
    "power": COMMON | {power_cut: 12, collecting.dies: 6},
    "clock": COMMON | {keep_last: 2, edits_meanwhile: 3, together: 2},
    "damage": {edit: 3, backup: 4, forget: 2, gc: 1, keeping.pin: 1, keeping.copy: 1, mending.damaged: 8, keeping.old_collector: 2},
}


def play(one):
    """A whole round; raises Wrong."""
    rounds.prepare(one)
    if one.theme == "power":
        one.world.store.say("track")
    rounds.begin(one)
    steps = STEPS[one.theme]
    for _ in range(one.random.randint(3, 8)):
        one.random.choices(list(steps), list(steps.values()))[0](one)
    one.world.store.say("untrack")
    one.finale()
