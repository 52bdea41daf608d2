"""Steps about what keeps a snapshot: pins, what is forgotten and comes back, and a second store."""

import faults
import runs
from runs import Wrong


def pin(one):
    """Perhaps something is in its way."""
    unpinned = sorted(one.known.keys() - one.pinned)
    if not unpinned:
        return
    name = one.random.choice(unpinned)
    disturbed = one.random.random() < 0.3
    if disturbed:
        one.fault(one.world.store, faults.of_changes(one.random, faults.STORE_CHANGES))
    run = one.over(one.start("pin", name, "--store", one.store))
    hits = one.clear(one.world.store) if disturbed else 0
    if run.code == runs.OK:
        one.pinned.add(name)
        return
    if hits == 0:
        raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
    # It may be pinned, or not.
    one.in_peace("unpin", name, "--store", one.store, codes=(runs.OK, runs.FAILURE))


def unpin(one):
    if one.pinned:
        name = one.random.choice(sorted(one.pinned))
        one.in_peace("unpin", name, "--store", one.store)
        one.pinned.remove(name)


def forget_pinned(one):
    """It stays, whoever asks."""
    if not one.pinned:
        return pin(one)
    names = one.random.sample(list(one.known), one.random.randint(1, len(one.known)))
    names = sorted({*names, one.random.choice(sorted(one.pinned))})
    run = one.over(one.start("forget", *names, "--store", one.store))
    if run.code == runs.OK:
        raise Wrong(f"{run}: forgot what is pinned")
    # All are looked at before one goes.
    return one.look()


def undelete(one):
    if one.forgotten:
        bring_back(one, one.random.choice(list(one.forgotten)))


def bring_back(one, name):
    run = one.in_peace("undelete", name, "--store", one.store)
    one.known[name] = one.forgotten.pop(name)
    one.restore(one.known[name])
    return run


def keep_forgotten(one):
    """A collection that leaves them, and then one of them comes back."""
    one.forget_one()
    if one.forgotten:
        one.gc("--keep-forgotten", "2h")
        undelete(one)


def old_collector(one):
    """As kerf 0.1.0, which knows nothing of what was forgotten: it deletes its chunks and leaves it there. Where it dies between
    two packs, the list of files may be there without their bytes."""
    dies = one.random.random() < 0.6
    (one.forget_all if dies else one.forget_one)()
    if not one.forgotten:
        return
    folder = one.world.store.backing / one.name / "forgotten"
    before = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    if dies:
        one.fault(one.world.store, f"unlink {one.random.randint(1, 2)} 1 kill packs/")
        one.over(one.start_gc())
        one.clear(one.world.store)
    else:
        one.gc()
    for path, content in before.items():
        path.write_bytes(content)
    one.log.append("what was forgotten is there again, and its chunks are not")
    for name in [path.stem for path in before if path.stem in one.fading]:
        run = one.over(one.start("undelete", name, "--store", one.store))
        if run.code == runs.OK:
            one.known[name] = one.fading.pop(name)
            one.restore(one.known[name])
    for path in before:
        path.unlink(missing_ok=True)


def copy(one):
    if not one.known:
        return
    if one.random.random() < 0.5:
        one.fault(one.world.store, one.random.choice((faults.of_store, copy_fault))(one.random))
        run = one.over(one.start_copy())
        one.judge_copy(run, well=one.clear(one.world.store) == 0)
    else:
        one.copy()
    if one.copied:
        one.restore(one.random.choice(list(one.copied.values())), store=one.other_store)


def copy_fault(random):
    """Of the store that it writes to."""
    return f"{faults.of_changes(random, faults.STORE_CHANGES)} -copy/"


def verify_a_part(one):
    if one.known:
        one.in_peace("verify", "--read-data-subset", one.random.choice(("1/2", "2/2", "2/3", "40M", "30s")), "--store", one.store)


def repair(one):
    """Of a store that is whole: it leaves all as it is, whatever is in its way."""
    if not one.known:
        return
    if one.random.random() < 0.6:
        # A read that answers with other bytes is damage to it.
        one.fault(one.world.store, one.random.choice((
            faults.of_power(one.random, faults.STORE_CHANGES), faults.of_changes(one.random, faults.STORE_CHANGES),
            faults.of_failed_looks(one.random))))
        one.over(one.start("repair", "--packs", "--apply", "--store", one.store))
        one.clear(one.world.store)
    if one.has_parity:
        one.in_peace("parity", "--store", one.store)
    run = one.in_peace("repair", "--packs", "--apply", "--store", one.store)
    if run.summary["steps"]:
        raise Wrong(f"{run}: mends what is whole: {run.tell()}")
    one.check_all()


def start_undelete(one, fallback):
    """(run, snapshot): of one that was forgotten, if there is any."""
    names = [*one.forgotten, *one.fading]
    name = one.random.choice(names) if names else fallback.name
    return one.start("undelete", name, "--store", one.store), one.forgotten.get(name) or one.fading.get(name)


def judge_undelete(one, run, snapshot, well):
    """What is brought back is promised; what is not may be anywhere."""
    if snapshot is None:
        if run.code == runs.OK:
            raise Wrong(f"{run}: brings back what was not forgotten")
        return
    name = snapshot.name
    if well and name in one.forgotten and run.code != runs.OK:
        raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
    one.forgotten.pop(name, None)
    one.fading.pop(name, None)
    (one.known if run.code == runs.OK else one.maybe)[name] = snapshot


def undelete_disturbed(one):
    if one.forgotten:
        run, snapshot = start_undelete(one, None)
        judge_undelete(one, one.over(run), snapshot, well=False)
