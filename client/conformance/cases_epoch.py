"""Cases of collections that come between: epochs, snapshots, and races (COL-18 to COL-36)."""

from case import case
from cases_upload import upload
from fake import kill
from kerf.v1 import chunking_pb2 as pb
from world import (CHUNK_BYTES, Failed, Refusal, collection, content, expect, plan_of, refused, sealed, whole_collection,
                   with_another_digest)

DATA = content(24 * CHUNK_BYTES + 5)
SHORT = content(6 * CHUNK_BYTES)


def small_messages(world):
    world.begin()
    world.fake.limits.max_message_bytes = 8 << 10
    return world.client(**({"commit_bytes": 4 << 10} if "commit_bytes" in world.can else {}))


def fence(world, *, condemns=False):
    """A fault: a collection has fenced the index."""
    def act(_):
        world.store.current_epoch = world.fake.index.epoch = 2
        if condemns:
            world.store.current_plan = plan_of(3, world.store.content)
    return act


@case(70, "EPOCH_BEHIND: epoch and plan are read again, a new stream is opened, and all is begun again", "COL-23 COL-2 PRO-28", "store snapshot")
def behind(world):
    for number in (1, 2):
        client = small_messages(world)
        world.fake.faults = {("commit", number): fence(world)}
        recipe = upload(world, DATA, client)
        expect(world.fake.opens[-1].store_epoch == 2, "COL-23: no stream was opened in the new epoch")
        expect(world.events("epoch", "plan")[-2:] == ["epoch", "plan"], "COL-23: the epoch was read again, and behind it the plan")
        world.is_told(recipe)


@case(71, "EPOCH_BEHIND: entries are not sent under another epoch, and nothing that the new plan condemns is counted on",
      "COL-22 COL-21 COL-15 COL-23", "store snapshot")
def behind_with_a_plan(world):
    client = small_messages(world)
    bad = set()

    def act(stream):
        fence(world, condemns=True)(stream)
        bad.update(world.store.content)

    world.fake.faults = {("commit", 2): act}
    recipe = upload(world, DATA, client)
    told = {locator for epoch, _, locator in world.fake.commits + world.fake.late_commits if epoch == 2}
    expect(not told & bad, "COL-22: what an earlier session had placed was committed under the new epoch, and the plan condemns it")
    safe = {digest for locator, (digest, _) in world.store.content.items() if locator not in bad}
    expect(set(recipe.digests) <= safe, "COL-15: a recipe counts on a place that the plan condemns")


@case(72, "EPOCH_BEHIND, and the store's epoch is as before: nobody raises anything, and the caller is told", "COL-24 COL-4 COL-9",
      "store snapshot")
def set_back(world):
    client = world.client()
    world.fake.index.epoch = 9
    with refused("epoch_behind", "COL-24: a store that was set back"):
        client.upload(SHORT)
    expect(not world.events("advance", "raise"), "COL-24: an agent has raised an epoch")
    expect({opened.store_epoch for opened in world.fake.opens} == {1}, "COL-4: an epoch was sent that nobody has read in the store")


@case(73, "EPOCH_BEHIND, and what is uploaded cannot be read again: the caller is told", "CLI-23", "store snapshot reader")
def cannot_be_read_again(world):
    client = small_messages(world)
    world.fake.faults = {("commit", 2): fence(world)}
    with refused("epoch_behind", "CLI-23: what cannot be read again"):
        client.upload(DATA, seeks=False)
    upload(world, DATA, client, seeks=False)


@case(74, "EPOCH_BEHIND of the call that tells what a lost stream has left", "COL-22 COL-23 COL-34", "store snapshot")
def behind_late(world):
    small_messages(world)
    client = world.client()
    world.fake.faults = {("data", 4): kill, ("CommitChunks", 1): fence(world)}
    recipe = upload(world, DATA, client)
    world.is_told(recipe)


@case(75, "published, then the epoch, then the plan, then a snapshot", "COL-26 COL-27 COL-28 COL-31 COL-32", "store snapshot")
def short_way(world):
    client = world.client()
    recipe = upload(world, SHORT, client)
    del world.log[:]
    client.snapshot("monday", recipe)
    seen = world.events("publish", "epoch", "plan", "confirm")
    expect(seen == ["publish", "epoch", "plan", "confirm"], f"COL-27: publish, epoch, plan, confirm; here: {seen}")
    world.restores("monday", SHORT)


def lost(world, change, says):
    client = world.begin().client()
    recipe = upload(world, SHORT, client)
    change(recipe)
    with refused("chunks_lost retryable", says):
        client.snapshot("monday", recipe)
    expect(not world.store.snapshots, f"COL-30: {says}: it became a snapshot")
    expect(not world.store.pending, f"COL-30: {says}: it was not withdrawn")
    return client


@case(76, "an epoch that rose, or a plan that is there: each chunk is looked up, and what is gone is lost", "COL-28 COL-29 COL-30",
      "store snapshot")
def long_way(world):
    def rose(recipe):
        world.store.current_epoch = 3
        world.store.remove(recipe.digests[2])

    def plan_now(recipe):
        world.store.current_plan = plan_of(3)
        world.store.remove(recipe.digests[2])

    lost(world, rose, "COL-29: an epoch that rose, and a chunk that is gone")
    lost(world, plan_now, "COL-29: a plan that is there, and a chunk that is gone")


@case(77, "a plan that was there when the upload began is heeded, though it is gone, or another one", "COL-28 COL-29", "store snapshot")
def plan_then(world):
    for now in (None, plan_of(3, [b"of nobody"])):
        world.begin().store.current_plan = plan_of(3)
        client = world.client()
        recipe = upload(world, SHORT, client)
        world.store.current_plan = now
        world.store.remove(recipe.digests[0])
        with refused("chunks_lost retryable", "COL-28: a plan that was there at the beginning"):
            client.snapshot("monday", recipe)
        expect(not world.store.snapshots, "COL-30: what is lost became a snapshot")


@case(78, "what is condemned is lost; a safe copy is not", "COL-29", "store snapshot")
def condemned(world):
    client = lost(world, lambda _: setattr(world.store, "current_plan", plan_of(3, world.store.content)), "COL-29: all is condemned")
    world.store.content.update({b"copy of " + locator: chunk for locator, chunk in world.store.content.items()})
    client.open()
    client.snapshot("monday", upload(world, SHORT, client))
    world.restores("monday", SHORT)


@case(79, "a pending snapshot that is gone is not confirmed in another way", "COL-31 COL-58", "store snapshot")
def gone(world):
    client = world.client()
    recipe = upload(world, SHORT, client)

    def collected(event):
        if event == "confirm":
            world.store.pending.clear()

    world.store.before = collected
    with refused(None, "COL-31: the pending snapshot is gone"):
        client.snapshot("monday", recipe)
    expect(not world.store.snapshots, "COL-31: a snapshot whose pending one was gone")


@case(80, "files of two epochs in one snapshot: all are looked up", "COL-6 COL-35 CLI-22", "store snapshot")
def two_epochs(world):
    client = world.client()
    first = upload(world, SHORT, client)
    world.store.current_epoch = world.fake.index.epoch = 3
    world.store.remove(first.digests[0])
    second = upload(world, content(CHUNK_BYTES, 9), client, key=b"other")
    with refused("chunks_lost retryable", "COL-6: a file of before a collection"):
        client.snapshot("monday", second, first)
    expect(not world.store.snapshots, "COL-30: what is lost became a snapshot")


@case(81, "each snapshot begins with the epoch", "COL-2 COL-23", "store snapshot")
def next_snapshot(world):
    client = world.client()
    client.snapshot("monday", upload(world, SHORT, client))
    world.store.current_epoch = world.fake.index.epoch = 5
    upload(world, SHORT, client)
    expect(world.fake.opens[-1].store_epoch == 5, "COL-2: the files of a new snapshot went into the epoch of the last one")


@case(82, "a file that is taken over, unread, is looked up", "COL-18", "store snapshot")
def taken_over(world):
    client = world.client()
    recipe = upload(world, SHORT, client)
    client.snapshot("monday", recipe)
    for change in (lambda: setattr(world.store, "current_plan", plan_of(3, list(world.store.content)[:1])),
                   lambda: world.store.remove(recipe.digests[3])):
        change()
        client.open()
        (kept,) = client.decode(world.store.snapshots["monday"])
        expect(client.reuse(kept) is None, "COL-18: a file was taken over, and a chunk of it is condemned or gone")
        world.store.current_plan = None


@case(83, "a recipe that was kept is looked up", "COL-36 CLI-22 CLI-29", "store snapshot")
def kept(world):
    client = world.client()
    recipe = upload(world, SHORT, client)
    client.snapshot("monday", recipe)
    client.open()
    (again,) = client.decode(world.store.snapshots["monday"])
    world.store.remove(recipe.digests[0])
    with refused("chunks_lost retryable", "COL-36: a recipe that was kept, and a chunk that is gone"):
        client.snapshot("tuesday", again)
    expect("tuesday" not in world.store.snapshots, "COL-36: what is lost became a snapshot")


@case(84, "all that a snapshot references is durable before it is pending, also names of others", "COL-26 COL-20", "store snapshot")
def durable_before(world):
    client = world.client()
    recipe = upload(world, SHORT, client)
    world.store.names_at_risk = set(world.store.content)
    taken = client.reuse(recipe)
    client.snapshot("tuesday", taken)
    expect(not world.store.names_at_risk, "COL-26: a snapshot of chunks whose names are not durable")
    # In the long way, too.
    world.store.names_at_risk = set(world.store.content)
    world.store.current_epoch = 3
    client.snapshot("wednesday", recipe)
    expect(not world.store.names_at_risk, "COL-20: a snapshot counts on a place whose name is not durable")


@case(85, "a damaged snapshot, or one of a newer version, is none", "CLI-29", "store snapshot")
def damaged(world):
    client = world.client()
    recipe = upload(world, SHORT, client)
    client.snapshot("monday", recipe)
    body = world.store.snapshots["monday"]
    for bad in (with_another_digest(body, recipe.digests[0]), b"", sealed({"version": 2, "files": []})):
        with refused(None, "CLI-29: a snapshot that is damaged"):
            client.decode(bad)


def is_looked_up(world, client, recipe, says):
    """A chunk of it is gone, and the store's epoch and plan are as they were."""
    world.store.remove(recipe.digests[2])
    with refused("chunks_lost retryable", says):
        client.snapshot("monday", recipe)
    expect(not world.store.snapshots and not world.store.pending, f"COL-30: {says}: what is lost became a snapshot, or stayed pending")


def says_in_committed(world, epoch, *, most):
    """Some of its Commits are told a later epoch and are taken all the same, as while a raise goes from one part of an index to the
    next (COL-82). What comes behind is 0, which says nothing (PRO-90)."""
    count = 0

    def change(committed):
        nonlocal count
        count += 1
        return pb.Committed(entry_count=committed.entry_count, index_epoch=epoch if count <= most else 0)

    world.fake.change_committed = change
    world.fake.change_done = lambda done: pb.FileDone(file_number=done.file_number, size_bytes=done.size_bytes)


@case(88, "an index that says a later epoch: each chunk is looked up, though the store's epoch is read as it was, and nobody takes "
      "that number for the store's", "COL-81 CLI-37 COL-4 PRO-28 PRO-90", "store snapshot")
def overtaken(world):
    client = world.client()
    upload(world, SHORT, client)
    # Nothing of it is new, so that no Commit is refused.
    world.fake.index.epoch = 3
    again = upload(world, SHORT, client)
    is_looked_up(world, client, again, "COL-81: FileDone has said a later epoch")
    expect({opened.store_epoch for opened in world.fake.opens} == {1}, "COL-81: the index's epoch was taken for the store's")
    expect(not world.events("advance", "raise"), "COL-81: an agent has raised an epoch")


@case(89, "so does one that says it in Committed alone", "COL-81 CLI-37 PRO-90", "store snapshot")
def overtaken_by_a_commit(world):
    client = world.client()
    says_in_committed(world, 3, most=99)
    is_looked_up(world, client, upload(world, SHORT, client), "COL-81: Committed has said a later epoch")


@case(90, "what a stream was told counts, though it was lost, and the next one is told nothing", "CLI-37 COL-81", "store snapshot")
def overtaken_and_lost(world):
    client = small_messages(world)
    says_in_committed(world, 3, most=1)
    world.fake.faults = {("commit", 2): kill}
    is_looked_up(world, client, upload(world, DATA, client), "CLI-37: a stream of the file was told a later epoch")


@case(91, "behind such an answer the next upload begins with the epoch and the plan", "COL-81 CLI-37 COL-2", "store snapshot",
      is_advice=True)
def begins_with_the_epoch(world):
    client = world.client()
    upload(world, SHORT, client)
    world.store.current_epoch = world.fake.index.epoch = 3
    del world.log[:]
    upload(world, SHORT, client)
    upload(world, SHORT, client)
    seen = world.events("epoch", "plan", "open")
    expect(seen[-3:] == ["epoch", "plan", "open 3"], f"COL-81: the next upload begins with COL-2, in the epoch that it finds; here: {seen}")


@case(92, "a server that says no epoch, as 0.1.0 does, is no reason for anything", "COL-81 PRO-90 PRO-92", "store snapshot")
def says_nothing(world):
    client = world.client()
    world.fake.tells_epoch = False
    upload(world, SHORT, client)
    world.fake.index.epoch = 3
    client.snapshot("monday", upload(world, SHORT, client))
    world.restores("monday", SHORT)


@case(93, "who looks up what an index has overtaken announces it, and no feature that only servers have", "PRO-92 CLI-38",
      "store snapshot")
def announces(world):
    upload(world, SHORT)
    for opened in world.fake.opens:
        said = set(opened.features)
        expect("index-epoch" in said, "CLI-38: index-epoch is not announced")
        expect(not said & {"unknown-frames", "chunk-digests", "shared-data"}, f"CLI-38: features of servers are announced: {sorted(said)}")


@case(94, "what has been cut short is lost", "CLI-36 COL-29", "store snapshot lengths", is_advice=True)
def cut_short(world):
    lost(world, lambda recipe: (setattr(world.store, "current_epoch", 3), world.store.cut_short(recipe.digests[2], CHUNK_BYTES - 1)),
         "CLI-36: a chunk that has been cut short")


def back_up(world, client, name, data):
    """As an agent does, who begins again where he must."""
    for _ in range(6):
        try:
            client.snapshot(name, client.upload(data))
            return
        except Refusal as error:
            if error.kind not in ("chunks_lost", "epoch_behind", "retryable"):
                raise
            client.open()
    raise Failed("COL-30: an agent that never gets through")


def garbage(world):
    """A snapshot that was forgotten: what the next upload finds is about to go."""
    client = world.begin().client()
    back_up(world, client, "old", DATA)
    del world.store.snapshots["old"]
    return client.open()


def race(world, moments, spread):
    """A collection that begins at each of the moments, and takes a step at each `spread` behind."""
    for begin in moments:
        client = garbage(world)
        steps = collection(world)
        count = 0

        def moment(event, begin=begin, steps=steps):
            nonlocal count
            count += 1
            if spread == 0:
                if count == begin:
                    for _ in steps:
                        pass
            elif count >= begin and (count - begin) % spread == 0:
                next(steps, None)

        world.store.before = moment
        back_up(world, client, "agent", DATA)
        world.store.before = lambda event: None
        world.restores("agent", DATA)
        for _ in steps:
            pass
        world.is_sound()
        world.restores("agent", DATA)
        whole_collection(world)
        world.is_sound()


@case(86, "a whole collection at a moment of a backup", "COL-2 COL-15 COL-21 COL-23 COL-29", "store snapshot")
def collection_at_a_moment(world):
    race(world, (1, 2, 3, 4, 8, 27, 28, 29, 30, 31, 32, 33), 0)


@case(87, "a collection, step by step, beside a backup", "COL-2 COL-15 COL-21 COL-22 COL-23 COL-27 COL-29 COL-30", "store snapshot")
def collection_beside(world):
    race(world, (1, 2, 3, 5, 9, 26, 28, 30, 31, 32), 1)
    race(world, (1, 2, 3, 10, 20), 5)
