"""Cases of the client's own collector (COL-40 to COL-61, COL-80)."""

from case import case
from cases_epoch import back_up
from fake import fail
from fake_index import FakeIndex
from world import CHUNK_BYTES, content, digests_of, expect, plan_of, refused, sealed, sha256, with_another_digest

DEAD, LIVE, FRESH = content(3 * CHUNK_BYTES, 11), content(2 * CHUNK_BYTES, 12), content(2 * CHUNK_BYTES, 13)
NEEDS = "store snapshot collect"


def begin(world):
    """A snapshot was forgotten: what it alone needs is garbage."""
    client = world.begin().client()
    dead, live = client.upload(DEAD, key=b"dead"), client.upload(LIVE, key=b"live")
    client.snapshot("old", dead, live)
    client.open()
    client.snapshot("new", client.upload(LIVE, key=b"live"))
    del world.store.snapshots["old"]
    client.open()
    del world.log[:]
    world.fake.counts.clear()
    return client


def is_believed(world):
    for digest, data in world.store.content.values():
        if world.fake.index.verdict(digest, len(data), world.store.current_epoch)[0] != 2:
            return False
    return True


def nothing_went(world, says):
    expect(len(world.store.content) == 5 and not world.events("delete"), f"{says}: chunks were deleted")


@case(100, "what no snapshot needs goes, and the rest stays, believed", "COL-43 COL-48 COL-52 COL-54 COL-56 COL-57 CLI-26", NEEDS)
def goes(world):
    client = begin(world)
    client.collect()
    world.restores("new", LIVE)
    expect(len(world.store.content) == 2, "COL-56: garbage that has stayed, or what is needed that went")
    expect(world.store.current_plan is None, "COL-57: the plan has stayed")
    expect(world.fake.index.epoch == world.store.current_epoch, "COL-54: the index was not told the store's epoch")
    expect(is_believed(world), "COL-54: what the store has is not believed")
    world.is_sound()


@case(101, "the order of a collection", "COL-40 COL-45 COL-48 COL-49 COL-51 COL-52 COL-54 COL-55 COL-56 COL-57", NEEDS)
def order(world):
    begin(world).collect()
    log = world.log

    def comes(first, then, rule, *, last=False):
        one = len(log) - 1 - log[::-1].index(first) if last else log.index(first)
        expect(first in log and then in log and one < log.index(then), f"{rule}: {first} comes before {then}; here: {log}")

    names = [event.split()[0] for event in log]
    expect(names[0] == "lock" and names[-1] == "unlock", f"COL-40: all is done under the lock; here: {log}")
    for name in ("roots", "chunks", "write_plan", "raise 2", "advance 2", "forget", "raise 3", "advance 3", "delete", "remove_plan"):
        expect(name in log, f"COL-40 to COL-57: {name} is missing; here: {log}")
    comes("roots", "chunks", "COL-45")
    comes("write_plan", "raise 2", "COL-48")
    comes("raise 2", "advance 2", "COL-49")
    expect("roots" in log[log.index("advance 2"):log.index("forget")], f"COL-51: roots are read again behind the fence, before anything is forgotten; here: {log}")
    comes("forget", "raise 3", "COL-52")
    comes("raise 3", "advance 3", "COL-54")
    expect("forget" in log[log.index("advance 3"):log.index("delete")], f"COL-54: all is forgotten once more; here: {log}")
    expect("write_plan" in log[log.index("advance 3"):log.index("delete")], f"COL-55: the plan says before the first deletion what an index needs; here: {log}")
    expect(log[-2] == "remove_plan", f"COL-57: the plan goes last; here: {log}")


@case(102, "one at a time", "COL-40", NEEDS)
def one_at_a_time(world):
    client = begin(world)
    world.store.is_locked = True
    with refused(None, "COL-40: another one has the lock"):
        client.collect()
    nothing_went(world, "COL-40: without the lock")


@case(103, "no index is followed too far", "COL-43", NEEDS)
def too_far(world):
    client = begin(world)
    world.fake.index.epoch = 2**41 + 1
    with refused(None, "COL-43: an index beyond 2^41"):
        client.collect()
    expect(world.store.current_epoch == 1, "COL-43: the store has followed an index beyond 2^41")
    nothing_went(world, "COL-43")


@case(104, "the epoch is the largest of all: the index's, that of a plan, and of a damaged plan", "COL-43 COL-44", NEEDS)
def largest(world):
    for change, least in ((lambda: setattr(world.fake.index, "epoch", 40), 42),
                          (lambda: setattr(world.store, "current_plan", plan_of(60)), 62),
                          (lambda: setattr(world.store, "current_plan", b"x" * 99), 5)):
        client = begin(world)
        change()
        client.collect()
        expect(world.store.current_epoch >= least, f"COL-43: the store ends at {world.store.current_epoch}; an epoch may come twice")
        world.is_sound()
        expect(is_believed(world), "COL-60: what the store has is not believed")


@case(105, "a plan of a newer version stops it", "CLI-28", NEEDS)
def newer_plan(world):
    client = begin(world)
    world.store.current_plan = sealed({"version": 2})
    with refused(None, "CLI-28: a plan of version 2"):
        client.collect()
    nothing_went(world, "CLI-28")


@case(106, "a snapshot that cannot be read, or is of a newer version, stops it", "COL-45 CLI-29 COL-46", NEEDS)
def rotten(world):
    for change in (lambda body: b"rotten", lambda body: sealed({"version": 2, "files": []}),
                   lambda body: with_another_digest(body, digests_of(body)[0])):
        for where in ("snapshots", "pending"):
            client = begin(world)
            bad = change(world.store.snapshots["new"])
            getattr(world.store, where)["bad"] = bad
            with refused(None, "COL-45: a root that cannot be read"):
                client.collect()
            nothing_went(world, "COL-45")
            expect(not world.events("forget"), "CLI-29: something was forgotten before the roots were read")


@case(107, "who was published before he saw the plan keeps his chunks", "COL-51", NEEDS)
def published_meanwhile(world):
    client = begin(world)
    agent = world.client(1)
    recipe = agent.upload(DEAD)

    def publish(event):
        if event == "write_plan":
            world.store.before = lambda event: None
            agent.snapshot("agent", recipe)

    # Before the plan is there: the agent sees none, and its snapshot is whole.
    world.store.before = publish
    client.collect()
    world.restores("agent", DEAD)
    world.is_sound()


@case(108, "a call that fails deletes nothing, and the next collection goes on", "COL-52 COL-49 COL-80", NEEDS)
def call_fails(world):
    for call in ("ForgetChunks", "AdvanceEpoch"):
        for number in (1, 2):
            client = begin(world)
            world.fake.faults = {(call, number): fail("PERMISSION_DENIED", "NOT_YOURS")}
            with refused(None, f"COL-52: {call} was refused"):
                client.collect()
            nothing_went(world, "COL-52")
            world.is_sound()
            client.collect()
            world.is_sound()
            expect(is_believed(world), "COL-54: what the store has is not believed")


@case(109, "a call that there is no room for is made again", "COL-59 PRO-68", NEEDS)
def call_again(world):
    for call in ("GetIndexStats", "ForgetChunks", "AdvanceEpoch"):
        client = begin(world)
        world.fake.faults = {(call, 1): fail("UNAVAILABLE", "INDEX_UNAVAILABLE", delay_s=0.01)}
        client.collect()
        world.is_sound()
        expect(is_believed(world), "COL-59: what the store has is not believed")


@case(110, "somebody commits between the fence and the last forgetting: it is asked again", "COL-54", NEEDS)
def commits_meanwhile(world):
    client = begin(world)
    live = world.live()
    dead = next(digest for digest, _ in world.store.content.values() if digest not in live)
    acts = []

    def late(event):
        if event == "raise 3" and not acts:
            acts.append(event)
            world.fake.index.commit(2, [(dead, CHUNK_BYTES, b"late")], replaces=False)

    world.store.before = late
    client.collect()
    world.store.before = lambda event: None
    world.is_sound()
    expect(world.store.current_epoch >= 4, "COL-54: an index that took a commit in between was believed")


@case(111, "an index that is new becomes whole", "COL-60 COL-44 CLI-24", NEEDS)
def new_index(world):
    client = begin(world)
    client.collect()
    world.fake.index = FakeIndex()
    client.collect()
    world.is_sound()
    expect(is_believed(world), "COL-60: a new index was not made whole")


@case(112, "an old copy of the index is not believed", "COL-44 COL-55 COL-60 CLI-24 CLI-25", NEEDS)
def old_copy(world):
    client = begin(world)
    before = world.fake.index.copy()
    client.collect()
    world.fake.index = before
    del world.log[:]
    client.collect()
    told = [event.split() for event in world.events("commit_chunks", "forget_older", "advance")][-5:]
    expect([name for name, _ in told] == ["commit_chunks", "forget_older", "advance", "forget_older", "advance"],
           f"COL-60: (c) to (g); here: {told}")
    committed, _, before_last, _, last = (int(epoch) for _, epoch in told)
    expect(committed == last == before_last + 1, f"COL-60: (c) and (g) are of S, (e) of S-1; here: {told}")
    fence = int(told[1][1])
    expect(before_last > fence, f"CLI-25: S-1 is later than every epoch that the index was told; here: {told}")
    world.is_sound()
    expect(is_believed(world), "COL-60: an old copy was not made whole")
    expect(len(world.fake.index.entries) == 2, "COL-60: an old copy names what was deleted")


@case(113, "an index that goes back before the fence", "COL-50 COL-60", NEEDS)
def back_before_the_fence(world):
    client = begin(world)
    before = world.fake.index.copy()
    client.collect()
    back_up(world, client.open(), "garbage", FRESH)
    del world.store.snapshots["garbage"]
    client.open()
    del world.log[:]
    world.fake.counts.clear()

    def go_back(_):
        world.fake.index = before

    world.fake.faults = {("AdvanceEpoch", 1): go_back}
    client.collect()
    seen = world.events("write_plan", "raise", "advance")
    told = [event for event in seen if event.startswith("advance")]
    expect(len(told) > 1, f"COL-50: an index that has gone back was not told again; here: {seen}")
    second = len(seen) - 1 - seen[::-1].index(told[1]) if told[0] != told[1] else [n for n, event in enumerate(seen) if event == told[0]][1]
    first = seen.index(told[0])
    expect("write_plan" in seen[first:second], f"COL-50: the plan says that the index has gone back before it is told anything again; here: {seen}")
    world.is_sound()
    expect(is_believed(world), "COL-60: an index that has gone back was not made whole")


@case(114, "a store that was set back goes on from its index", "COL-43 COL-44 COL-60", NEEDS)
def store_set_back(world):
    client = begin(world)
    world.fake.index.epoch = 7
    client.collect()
    expect(world.store.current_epoch > 7, "COL-43: the store has not come past its index")
    world.is_sound()
    expect(is_believed(world), "COL-60: what the store has is not believed")
    back_up(world, client.open(), "agent", DEAD)
    world.restores("agent", DEAD)


def die_at(world, event, number):
    """From there on the store can do nothing more for its collector, as one whose process dies."""
    count = 0

    def moment(name):
        nonlocal count
        count += name.split()[0] == event
        if count >= number and name != "unlock":
            raise OSError("died")

    world.store.before = moment


@case(115, "one that dies at a moment: agents and the next one go on", "COL-43 COL-49 COL-55 COL-57 COL-80", NEEDS)
def dies(world):
    # Each is one that all collectors have: what is left out is nothing that a store sees.
    for event, number in (("write_plan", 1), ("raise", 1), ("roots", 2), ("raise", 2), ("write_plan", 2), ("delete", 1), ("delete", 2),
                          ("remove_plan", 1)):
        client = begin(world)
        die_at(world, event, number)
        with refused(None, f"COL-40: the store has failed at {event}"):
            client.collect()
        world.store.before = lambda event: None
        world.store.is_locked = False
        world.is_sound()
        back_up(world, client.open(), "agent", DEAD)
        world.is_sound()
        client.open().collect()
        world.is_sound()
        expect(is_believed(world), "COL-44: what the store has is not believed")
        world.restores("agent", DEAD)


@case(116, "an agent at each moment of a collection", "COL-27 COL-29 COL-48 COL-49 COL-51 COL-57", NEEDS)
def agent_at_a_moment(world):
    for number in range(2, 20, 2):
        collector = begin(world)
        agent = world.client(1)
        count = 0

        def moment(_, number=number, agent=agent):
            nonlocal count
            count += 1
            if count == number:
                back_up(world, agent, "agent", DEAD)

        world.store.before = moment
        collector.collect()
        world.store.before = lambda event: None
        if count < number:
            break
        world.restores("agent", DEAD)
        world.is_sound()
        collector.open().collect()
        world.is_sound()


class NeverClean(FakeIndex):
    """Somebody goes on removing."""

    def forget_older(self, before_epoch, after, limit):
        found = super().forget_older(before_epoch, after, limit)
        self.removed += 1
        return found


@case(117, "an index that is never to be believed is left behind", "COL-61 COL-60", NEEDS)
def never_believed(world):
    client = begin(world)
    world.store.current_epoch = 5
    world.fake.index = NeverClean()
    client.collect()
    expect(world.fake.index.epoch < world.store.current_epoch, "COL-60: an index was believed though something was removed meanwhile")
    world.restores("new", LIVE)
    world.is_sound()


@case(118, "a root that is no digest of the repository's stops it", "CLI-33 COL-45", NEEDS)
def root_that_is_none(world):
    for where in ("snapshots", "pending"):
        client = begin(world)
        digest = digests_of(world.store.snapshots["new"])[0]
        getattr(world.store, where)["bad"] = sealed({"version": 1, "files": [
            {"key": "", "size": CHUNK_BYTES, "chunks": [[digest[:-1].hex(), CHUNK_BYTES]]}]})
        with refused(None, "CLI-33: a root that is a byte short"):
            client.collect()
        nothing_went(world, "CLI-33")
        expect(not world.events("forget"), "CLI-33: something was forgotten before the roots were looked at")


@case(119, "so does a chunk that the store lists by what is no digest of the repository's", "CLI-33", NEEDS)
def chunk_that_is_none(world):
    client = begin(world)
    digest, data = next(iter(world.store.content.values()))
    world.store.content[b"odd"] = (digest[:-1], data)
    with refused(None, "CLI-33: a chunk whose digest is a byte short"):
        client.collect()
    expect(len(world.store.content) == 6 and not world.events("delete", "forget"), "CLI-33: chunks were deleted, or forgotten")


@case(130, "what a collector that died had begun to tell the index is told first, and where that fails it ends", "COL-80", NEEDS,
      is_advice=True)
def told_first(world):
    for has_gone_back, epoch in ((False, 6), (True, 5)):
        for is_refused in (False, True):
            client = begin(world)
            world.store.current_epoch, world.fake.index.epoch = 6, 4
            world.store.current_plan = sealed({"version": 1, "last_epoch": 8, "needed_epoch": 4, "has_gone_back": has_gone_back,
                                               "condemned": []})
            if is_refused:
                world.fake.faults = {("AdvanceEpoch", 1): fail("PERMISSION_DENIED", "NOT_YOURS")}
                with refused(None, "COL-80: the index takes no epoch"):
                    client.collect()
                expect(world.store.current_epoch == 6, "COL-80: the store's epoch runs away from an index that takes none")
                nothing_went(world, "COL-80")
            else:
                client.collect()
                first = world.events("advance")[0]
                expect(first == f"advance {epoch}", f"COL-80: advance {epoch} comes first; here: {first}")
                world.is_sound()
                expect(is_believed(world), "COL-60: what the store has is not believed")


@case(131, "of places of which one has rotted no index is told the length", "CLI-41 COL-60 PRO-71", NEEDS)
def rotten_places(world):
    client = begin(world)
    client.collect()
    first, second = (sha256(LIVE[at:at + CHUNK_BYTES]) for at in (0, CHUNK_BYTES))
    world.store.cut_short(first, 0)
    world.store.add(second, LIVE[CHUNK_BYTES:-1])
    world.fake.index = FakeIndex()
    client.open().collect()
    for digest, entry in world.fake.index.entries.items():
        expect(entry.length == CHUNK_BYTES, f"CLI-41: the index was told that {digest.hex()[:8]} has {entry.length} bytes")
