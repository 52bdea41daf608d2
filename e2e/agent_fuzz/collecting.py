"""Steps about the moments of a collection: what dies there, and what others do there meanwhile."""

import edits
import faults
import rounds
import runs
from runs import Wrong

MANY_FAULTS = 0.7


def waste(one):
    """Packs of which a part is of no use any more, and some of which nothing is."""
    for _ in range(one.random.randint(1, 2)):
        edits.Editor(one.maker).edit(one.random.randint(1, 4))
        one.backup()
    names = sorted(one.known.keys() - one.pinned)
    if names:
        one.forget(one.random.sample(names, max(1, len(names) - one.random.randint(0, 2))))


def dies(one):
    """A collection ends, or an operation of it fails, where much depends on the order."""
    waste(one)
    one.fault(one.world.store, faults.at_moment(one.random, faults.OF_COLLECTOR, ("kill", "kill", "EIO", "ENOSPC", "late:EIO")))
    run = one.over(one.start_gc())
    one.clear(one.world.store)
    if one.theme == "power" and one.random.random() < MANY_FAULTS:
        one.cut_power()
    if run.was_killed and one.random.random() < 0.5:
        # It stores anew what that one has taken.
        one.backup()
    one.check_all()


def one_within_another(one):
    """One stands still at such a moment while the other runs to its end."""
    if not one.known:
        # There may be no store yet.
        one.backup()
    if one.random.random() < 0.5:
        waste(one)
    if one.random.random() < 0.8:
        # What a backup is told of as stored is just what goes.
        one.forget_all()
    states = [one.tree()]
    if one.random.random() < 0.65:
        moments, first, second = faults.OF_COLLECTOR, one.start_gc, one.start_backup
    else:
        moments, first, second = faults.OF_BACKUP, one.start_backup, one.start_gc
    one.fault(one.world.store, faults.at_moment(one.random, moments, ("stop",)))
    outer = first()
    if outer.until_stopped():
        one.count(f"{outer.arguments[0]} stopped within another")
    one.clear(one.world.store)
    inner = second()
    # It may wait for the lock of the other.
    inner.wait(rounds.LOCKED_PATIENCE_S)
    outer.go_on()
    for run in (inner, outer):
        one.over(run)
        if run.arguments[0] == "backup":
            one.judge_backup(run, states, well=True)
        elif run.code != runs.OK:
            raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
    one.check_all()
