"""The steps of a round, by its theme."""

import os
import time

import edits
import faults
import rounds
import runs
from runs import Wrong

KINDS = ("backup", "backup", "gc", "gc", "forget", "restore", "verify", "index rebuild")
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
    if len(one.known) > 1:
        one.forget([one.random.choice(list(one.known))])


def keep_last(one):
    """The newest by the clocks of the agents."""
    if not one.known:
        return
    listed = [line for line in one.in_peace("snapshots", "--store", one.store).lines if line["message_type"] == "snapshot"]
    keep = one.random.randint(1, 3)
    run = one.over(one.start("forget", "--keep-last", str(keep), "--store", one.store))
    said = {line["snapshot"] for line in run.lines if line["message_type"] == "forgotten"}
    ordered = sorted(listed, key=lambda line: line["started_unix_ns"])
    if run.code == runs.OK and said != {line["snapshot"] for line in ordered[:-keep]}:
        raise Wrong(f"{run}: forgot {sorted(said)} of {[line['snapshot'] for line in ordered]}")
    for name in said:
        one.known.pop(name, None)
        one.maybe.pop(name, None)


def gc(one):
    if one.known:
        one.in_peace("gc", "--store", one.store, "--server", one.world.server, "--max-waste", one.random.choice(("0", "0.2")))


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
        return one.judge_forget(run, [snapshot.name], well=one.clear(one.world.store) == 0)
    run = one.over(one.start_gc() if kind == "gc" else one.start("verify", "--read-data", "--store", one.store))
    if one.clear(one.world.store) == 0 and run.code != runs.OK:
        raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
    return None


def target_fault(one):
    if snapshot := some(one):
        one.restore_with_fault_on_target(snapshot)


def power_cut(one):
    """A run is killed at an operation on the store, or that goes wrong, and then what was not synced is lost."""
    snapshot = some(one)
    kind = one.random.choice(("backup", "backup", "gc", "forget")) if snapshot else "backup"
    states = [one.tree()]
    dies = one.random.random() < 0.7
    one.fault(one.world.store, (faults.of_power if dies else faults.of_changes)(one.random, faults.STORE_CHANGES))
    if kind == "backup":
        run = one.over(one.start_backup())
        one.judge_backup(run, states)
    elif kind == "gc":
        one.over(one.start_gc())
    else:
        one.judge_forget(one.over(one.start("forget", snapshot.name, "--store", one.store)), [snapshot.name], well=False)
    one.clear(one.world.store)
    changed = one.world.store.say(f"cut {one.random.randrange(2**32)}")
    one.log.append(f"  power cut: {changed} names and files as they were")
    one.count("names and files that power cuts took", int(changed))
    # It may have taken the store itself, if that was being made.
    if one.known:
        one.look()


def together(one):
    """Two or three runs, each stopped somewhere, go on in any order; some are killed."""
    parts = []
    # A store that is not there yet is made by whoever comes first, and only backups come.
    kinds = KINDS if one.known else ("backup",)
    chosen = one.random.choices(kinds, k=one.random.choice((2, 2, 3)))
    if one.known and one.random.random() < 0.5:
        # What a backup is told of as stored is just what a collection is about to delete.
        one.forget(list(one.known))
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
    for part in parts:
        part.judge(parts, forgotten)


class Part:
    """One run among others."""

    def __init__(self, one, kind, snapshot):
        self.one, self.kind, self.snapshot = one, kind, snapshot
        self.run = self.states = self.target = None

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
            self.run = one.start("restore", self.snapshot.name, "--store", one.store, "--target", one.world.target.mount / self.target)
        elif self.kind == "verify":
            self.run = one.start("verify", "--read-data", "--store", one.store)
        else:
            self.run = one.start("index", "rebuild", "--store", one.store, "--server", one.world.server)

    def judge(self, parts, forgotten):
        one, run = self.one, self.run
        # Only one of these runs at a time, and says so.
        collectors = sum(part.kind in ("gc", "index rebuild") for part in parts)
        if run.code == runs.DAMAGED:
            raise Wrong(f"{run}: calls a store damaged that is not: {run.tell()}")
        if self.kind == "backup":
            # One that began when there was no store yet may meet another that makes it.
            one.judge_backup(run, self.states, well=not run.was_killed)
        elif self.kind == "forget":
            again = sum(part.kind == "forget" and part.snapshot is self.snapshot for part in parts) > 1
            one.judge_forget(run, [self.snapshot.name], well=not run.was_killed and not again)
        elif self.kind == "restore":
            gone = self.snapshot.name in forgotten
            if not run.was_killed:
                one.judge_restore(run, self.snapshot, self.target, hits=int(gone), well=not gone)
        elif not run.was_killed and run.code != runs.OK and collectors < 2:
            raise Wrong(f"{run}: nothing was in its way: {run.tell()}")


def trouble_of_kerfd(one):
    one.random.choice((one.world.restart_kerfd, one.world.lose_index))()
    one.log.append("kerfd was killed, and is back")


COMMON = {edit: 6, backup: 4, restore: 2, forget: 2, gc: 2}
STEPS = {
    "source": {edit: 6, source_fault: 8, edits_meanwhile: 10, slow_read: 1, backup: 2, gc: 2},
    "store": COMMON | {store_fault: 14, trouble_of_kerfd: 1},
    "target": {edit: 2, backup: 2, target_fault: 6},
    "together": COMMON | {together: 12, trouble_of_kerfd: 1},
    "power": COMMON | {power_cut: 12},
    "clock": COMMON | {keep_last: 2, edits_meanwhile: 3, together: 2},
}


def play(one):
    """A whole round; raises Wrong."""
    rounds.prepare(one)
    if one.theme == "power":
        one.world.store.say("track")
    if one.random.random() < 0.8:
        one.backup("--profile", one.random.choice(rounds.PROFILES))
    steps = STEPS[one.theme]
    for _ in range(one.random.randint(3, 8)):
        one.random.choices(list(steps), list(steps.values()))[0](one)
    one.world.store.say("untrack")
    one.finale()
