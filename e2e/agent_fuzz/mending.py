"""Steps about a store in which something has rotted: it is restored right, or told; and then undone, or mended."""

import damage
import faults
import runs
from runs import Wrong

MAX_REPAIRS = 3
# `kerf verify` names each of these that rotted; of a pack what is of use to nobody may be what is wrong.
NAMED = ("config", "copies/config", "epoch", "copies/epoch", "snapshot", "note", "both configurations", "both epochs")
# Those of which there is another one, or which is made again without a word.
MADE_AGAIN = ("copies/config", "copies/epoch", "note")


def damaged(one):
    if not one.known:
        return
    one.look()
    repository = one.in_peace("stats", "--store", one.store).summary["repository"]
    hurt = damage.Damage(one.random, one.world.store.backing / one.name)
    if not hurt.done:
        return
    one.log.append(str(hurt))
    one.count(f"damage: {hurt.part}{' is gone' if hurt.is_gone else ''}")
    is_mended = hurt.is_mended_by_parity()
    if is_mended:
        one.count("damage that parity gives back")
    before = losses(one, is_mended)
    if any(before.values()) and (is_mended or hurt.part == "parity"):
        raise Wrong(f"restores miss {before}, though parity has it or is all that was hurt: {hurt}")
    hold_told(one, hurt, before, is_mended)
    if one.random.random() < 0.5:
        meanwhile(one, hurt)
        hurt.undo()
        one.log.append("undone")
        one.check_all()
    else:
        mend(one, hurt, repository, before)
        if is_mended and hurt.still_there():
            raise Wrong(f"{hurt.still_there()} are not as they were, though parity had that: {hurt}")


def losses(one, mended=False):
    return {name: one.losses_of(snapshot, mended) for name, snapshot in one.known.items()}


def hold_told(one, hurt, before, is_mended):
    """What restores miss verify finds, and what it finds in packs is the same in parts."""
    verify = one.over(one.start("verify", "--read-data", "--store", one.store))
    halves = (1, 2) if one.random.random() < 0.5 else ()
    parts = [one.over(one.start("verify", "--read-data-subset", f"{part}/2", "--store", one.store)) for part in halves]
    must_tell = hurt.part in NAMED and not (hurt.is_gone and hurt.part in MADE_AGAIN)
    for run in (verify, *parts):
        silent = run.code == runs.OK and not run.warnings
        if silent and must_tell:
            raise Wrong(f"{run}: finds nothing, after {hurt}")
    if is_mended and (verify.code != runs.DAMAGED or set(verify.summary["damaged_packs"]) != set(verify.summary["mendable_packs"])):
        raise Wrong(f"{verify}: does not tell of a disk that loses data, and of parity that has it, after {hurt}: {verify.tell()}")
    if verify.code == runs.OK and any(before.values()):
        raise Wrong(f"{verify}: finds nothing, and restores miss {[name for name, lost in before.items() if lost]}, after {hurt}")
    if parts and all(run.summary for run in (verify, *parts)):
        together = {path for part in parts for path in part.summary["damaged_packs"]}
        if together != set(verify.summary["damaged_packs"]):
            raise Wrong(f"{verify}: finds {verify.summary['damaged_packs']}, its two halves {sorted(together)}")


def meanwhile(one, hurt):
    """Whoever works on such a store says that he cannot, or makes nothing worse."""
    if hurt.part == "pack" and hurt.is_gone and one.forgotten and one.random.random() < 0.7:
        undelete_what_is_there(one)
    for kind in one.random.choice((("backup",), ("gc",), ("backup", "gc"), ("copy",), ())):
        if kind == "backup":
            states = [one.tree()]
            one.judge_backup(one.over(one.start_backup()), states)
        elif kind == "gc":
            one.over(one.start_gc())
        else:
            one.judge_copy(one.over(one.start_copy()), well=False)


def undelete_what_is_there(one):
    name, snapshot = one.random.choice(list(one.forgotten.items()))
    run = one.over(one.start("undelete", name, "--store", one.store))
    if run.code != runs.OK:
        return
    one.known[name] = one.forgotten.pop(name)
    if lost := one.losses_of(snapshot):
        raise Wrong(f"{run}: brings back a snapshot of which {len(lost)} paths are gone")


def mend(one, hurt, repository, before):
    """As people are told to: repair, and back up anew what is there still."""
    if one.random.random() < 0.4:
        one.over(one.start_gc())
        hold_no_worse(one, hurt, before)
    words = ("repair", "--packs", "--id", repository, "--store", one.store)
    if one.random.random() < 0.3:
        one.over(one.start(*words))
    if one.random.random() < 0.3:
        one.fault(one.world.store, faults.of_power(one.random, faults.STORE_CHANGES))
        one.over(one.start(*words, "--apply"))
        one.clear(one.world.store)
    repair(one, hurt, words)
    one.backup("--force")
    hold_no_worse(one, hurt, before)
    found = one.over(one.start("verify", "--store", one.store))
    # Also those of which nothing is lost but what tells changed files from unchanged ones.
    broken = sorted({line["snapshot"] for line in found.lines if line["message_type"] == "finding"})
    if not one.known.keys() >= set(broken) >= {name for name, lost in losses(one).items() if lost}:
        raise Wrong(f"{found}: finds {broken} damaged after {hurt} was mended")
    if broken:
        if pinned := one.pinned.intersection(broken):
            one.in_peace("unpin", *sorted(pinned), "--store", one.store)
            one.pinned -= pinned
        one.forget(broken)
        for name in broken:
            one.forgotten.pop(name)
    # What the other store has not been given by now may be broken.
    one.gc()
    one.in_peace("verify", "--read-data", "--store", one.store)


def repair(one, hurt, words):
    """Until it is content, but for what is lost for good."""
    accepted = []
    for _ in range(MAX_REPAIRS):
        run = one.over(one.start(*words, "--apply", *(word for name in accepted for word in ("--accept-loss", name))))
        for name in accepted:
            one.known.pop(name, None)
            one.forgotten.pop(name, None)
            one.pinned.discard(name)
        steps = [line for line in run.lines if line["message_type"] == "repair"]
        asked = [line for line in steps if line["state"] == "needs_word" and line["what"] != "lost"]
        if run.summary is None or any(line["state"] == "failed" for line in steps):
            raise Wrong(f"{run}: could not mend {hurt}: {run.tell()}")
        if not asked:
            return
        accepted = [line["path"].rpartition("/")[2].removesuffix(".snap") for line in asked]
        if not hurt.names.issuperset(accepted):
            raise Wrong(f"{run}: gives up {accepted}, after {hurt}")
    raise Wrong(f"{run}: asks again and again: {run.tell()}")


def hold_no_worse(one, hurt, before):
    for name, lost in losses(one).items():
        more = lost - before.get(name, frozenset())
        if more:
            raise Wrong(f"snapshot {name} has lost {sorted(more)[:4]} and {len(more)} in all that could be restored after {hurt}")
