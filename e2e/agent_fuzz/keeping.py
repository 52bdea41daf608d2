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
    unpin_doubtful(one, name)


def unpin_doubtful(one, name):
    """Behind a pin that did not end well: it may be pinned, or not."""
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
    """(run, snapshot, whether it was forgotten): of one that was forgotten, if there is any."""
    snapshots = [*one.forgotten.values(), *one.fading.values()]
    snapshot = one.random.choice(snapshots) if snapshots else fallback
    return one.start("undelete", snapshot.name, "--store", one.store), snapshot, bool(snapshots)


def judge_undelete(one, run, snapshot, was_forgotten, forget_count=0, well=False, can_be_gone=True):
    """`forget_count` others were forgetting it meanwhile, and are judged already; `well`: nothing was in its way;
    `can_be_gone`: a collection may have taken it."""
    name = snapshot.name
    if well and name in one.forgotten and run.code != runs.OK:
        raise Wrong(f"{run}: nothing was in its way: {run.tell()}")
    if not was_forgotten and (name in one.pinned or forget_count == 0):
        # An undelete that died may have left it in both places.
        if run.code == runs.OK and name not in one.in_both:
            raise Wrong(f"{run}: brings back what was not forgotten")
        return
    if run.code != runs.OK and not run.was_killed and not was_forgotten:
        # It was not forgotten yet.
        return
    if run.code != runs.OK:
        one.in_both.add(name)
    is_behind = forget_count == 0 or (forget_count == 1 and name not in one.in_both)
    if run.code == runs.OK and is_behind:
        # What it found forgotten that one had moved there, which moves it no more.
        place(one, snapshot, one.known)
    elif forget_count > 0:
        place_where_it_is(one, snapshot, can_be_gone)
    elif name not in one.known:
        place(one, snapshot, one.maybe)


def place(one, snapshot, where):
    for snapshots in (one.known, one.maybe, one.forgotten, one.fading):
        snapshots.pop(snapshot.name, None)
    where[snapshot.name] = snapshot


def place_where_it_is(one, snapshot, can_be_gone):
    """Some bring it back and some forget it, and nobody tells who came last: it is in one of the two places."""
    for options, where in (((), one.known), (("--forgotten",), one.forgotten)):
        listed = one.in_peace("snapshots", *options, "--store", one.store).lines
        if any(line["message_type"] == "snapshot" and line["snapshot"] == snapshot.name for line in listed):
            return place(one, snapshot, where)
    if not can_be_gone:
        raise Wrong(f"{snapshot} is neither there nor forgotten")
    return place(one, snapshot, one.maybe)


def undelete_disturbed(one):
    if one.forgotten:
        run, snapshot, was_forgotten = start_undelete(one, None)
        judge_undelete(one, one.over(run), snapshot, was_forgotten)
