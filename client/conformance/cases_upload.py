"""Cases of one upload that nothing breaks: what becomes of each answer, and what is held within bounds."""

import contextlib
import socketserver
import threading

from case import case
from fake import fail, silence
from kerf.v1 import chunking_pb2 as pb
from world import CHUNK_BYTES, Refusal, content, expect, plan_of, refused, sha256

NEW, DUPLICATE, UNVERIFIED = pb.VERDICT_NEW, pb.VERDICT_DUPLICATE, pb.VERDICT_UNVERIFIED


def upload(world, data, client=None, **options):
    client = client or world.client()
    recipe = client.upload(data, **options)
    world.is_whole(client, recipe, data)
    return recipe


@case(1, "a recipe is the file, whatever its size", "CLI-2 CLI-3 CLI-18 COL-10 COL-11 PRO-10 PRO-20 PRO-46 PRO-67 PRO-71 ROU-1")
def sizes(world):
    client = world.client()
    for size in (0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 20 * CHUNK_BYTES, 300_000):
        recipe = upload(world, content(size, size), client)
        world.is_told(recipe)


@case(2, "what is there is found: chunks, digests and locators of a second upload are those of the first", "COL-13 PRO-12 PRO-22", "store")
def twice(world):
    client = world.client()
    data = content(30 * CHUNK_BYTES)
    first, second = upload(world, data, client), upload(world, data, client, key=b"")
    expect(first.chunks == second.chunks, "CLI-8: one content has two recipes")
    expect(len(world.store.content) == len(first.chunks), "COL-13: what is a duplicate, and there, was stored again")
    zeros = upload(world, bytes(10 * CHUNK_BYTES), client)
    expect(len(zeros.chunks) == 10, "COL-10: a chunk that comes ten times is not ten times in the recipe")


@case(3, "UNVERIFIED, and not there: it is stored", "COL-12")
def unverified(world):
    world.fake.verdict = lambda digest, verdict: UNVERIFIED
    recipe = upload(world, content(5 * CHUNK_BYTES))
    world.is_told(recipe)


@case(4, "UNVERIFIED, and there: the place where it is found is committed", "COL-12 COL-14", "store")
def unverified_here(world):
    here, gone = content(CHUNK_BYTES, 1), content(CHUNK_BYTES, 2)
    place = world.store.add(sha256(here), here)
    world.fake.verdict = lambda digest, verdict: UNVERIFIED
    upload(world, here + gone)
    told = {digest: locator for _, digest, locator in world.fake.commits + world.fake.late_commits}
    expect(told.get(sha256(here)) == place, "COL-12: an UNVERIFIED chunk that the store has was not committed where it was found")
    expect(sha256(gone) in told, "COL-12: an UNVERIFIED chunk that was stored was not committed")


@case(5, "NEW, and there: the place is committed", "COL-11", "store")
def new_here(world):
    data = content(CHUNK_BYTES)
    world.store.add(sha256(data), data)
    recipe = upload(world, data)
    world.is_told(recipe)


@case(29, "a chunk whose entry has another length is NEW, and not stored again", "CLI-41 COL-11", "store", is_advice=True)
def another_length(world):
    client = world.client()
    data = content(2 * CHUNK_BYTES)
    upload(world, data, client)
    for entry in world.fake.index.entries.values():
        entry.length += 1
    there = set(world.store.content)
    upload(world, data, client)
    expect(set(world.store.content) == there, "CLI-41: a chunk that the store has was stored again")


@case(6, "a DUPLICATE that the store has not is stored", "COL-13 COL-16", "store", is_advice=True)
def stale(world):
    client = world.client()
    data = content(6 * CHUNK_BYTES)
    recipe = upload(world, data, client)
    world.store.remove(*recipe.digests[::2])
    upload(world, data + data, client)


@case(7, "a stale DUPLICATE is reported, once, with the locator of the answer, before it is committed", "COL-16 PRO-25 PRO-26", "store",
      is_advice=True)
def stale_is_reported(world):
    client = world.client()
    data = content(6 * CHUNK_BYTES)
    recipe = upload(world, data, client)
    gone = {digest: world.fake.index.entries[digest].locator for digest in recipe.digests[::2]}
    world.store.remove(*gone)
    del world.log[:]
    again = upload(world, data + data, client)
    expect(sorted(world.fake.reports) == sorted(gone.items()), "COL-16: stale chunks were not reported once each, with their locators")
    expect(world.events("report", "commit")[0] == "report", "COL-16: a stale chunk was committed before it was reported")
    world.is_told(again)


@case(8, "a verdict that nobody knows is NEW", "CLI-10 PRO-14")
def verdict_of_tomorrow(world):
    world.fake.verdict = lambda digest, verdict: 9
    data = content(5 * CHUNK_BYTES)
    # Who takes it for a duplicate does not tell of what is there.
    world.store.add(sha256(data[:CHUNK_BYTES]), data[:CHUNK_BYTES])
    recipe = upload(world, data)
    world.is_told(recipe)


@case(9, "answers and fields that nobody knows are passed over", "CLI-10 PRO-14")
def answers_of_tomorrow(world):
    def with_another(stream):
        # Field 100, of three bytes: in an answer of its own, and within one that is known.
        unknown = b"\xa2\x06\x03new"
        stream._answers.append(pb.UploadAnswer.FromString(unknown))
        stream._answers[0].MergeFromString(unknown)

    for event in ("opened", "chunks", "end"):
        for number in range(1, 4):
            world.fake.faults[event, number] = with_another
    world.fake.limits.max_message_bytes = 8 << 10
    upload(world, content(40 * CHUNK_BYTES))


@case(28, "so is an answer that nobody knows where Opened is waited for", "CLI-10 PRO-14")
def answer_before_opened(world):
    world.fake.faults = {("opened", 1): lambda stream: stream._answers.insert(0, pb.UploadAnswer.FromString(b"\xa2\x06\x03new"))}
    upload(world, content(3 * CHUNK_BYTES))
    expect(len(world.fake.opens) == 1, "CLI-10: a stream was given up for an answer that nobody knows")


@case(10, "what a plan condemns is stored anew, whatever the verdict", "COL-15 COL-21 CLI-21 CLI-28", "store snapshot")
def condemned(world):
    client = world.client()
    data = content(4 * CHUNK_BYTES)
    upload(world, data, client)
    for verdict in (DUPLICATE, UNVERIFIED, NEW):
        there = frozenset(world.store.content)
        world.store.current_plan = plan_of(3, there)
        world.fake.verdict = lambda _digest, _verdict, told=verdict: told
        del world.fake.commits[:]
        recipe = upload(world, data, world.client())
        fresh = {digest for locator, (digest, _) in world.store.content.items() if locator not in there}
        expect(set(recipe.digests) <= fresh, "COL-15: a chunk was counted on where a plan condemns it")
        expect(not world.fake.reports, "CLI-21: a chunk that a plan condemns was reported stale")
        expect(not {locator for _, _, locator in world.fake.commits} & there, "COL-21: a place was committed that a plan condemns")


@case(11, "of a condemned and a safe place the safe one is committed", "COL-15 COL-21", "store snapshot")
def safe_place(world):
    client = world.client()
    data = content(CHUNK_BYTES)
    upload(world, data, client)
    (bad,) = world.store.content
    world.store.add(sha256(data), data)
    world.store.current_plan = plan_of(3, [bad])
    world.fake.verdict = lambda digest, verdict: UNVERIFIED
    del world.fake.commits[:]
    upload(world, data, world.client())
    told = [locator for _, _, locator in world.fake.commits + world.fake.late_commits]
    expect(told and bad not in told, "COL-21: a place was committed that a plan condemns")


@case(12, "a sync that fails: no recipe, and nothing is committed", "COL-19", "store")
def sync_fails(world):
    def full(event):
        if event == "sync":
            raise OSError("no room")

    world.store.before = full
    with refused(None, "COL-19: the store could not sync"):
        world.client().upload(content(60 * CHUNK_BYTES))
    expect(not world.fake.index.entries, "COL-19: a chunk was committed that is not durable")


@case(13, "what a sync that failed should have kept is never committed, not behind a later one either", "CLI-20 COL-19", "store")
def sync_fails_once(world):
    syncs = []

    def fails_once(event):
        if event == "sync":
            syncs.append(event)
            if len(syncs) == 1:
                world.store.volatile.clear()
                raise OSError("an error of the disk")

    world.store.before = fails_once
    client = world.client()
    data = content(10 * CHUNK_BYTES)
    with refused(None, "CLI-20: the store could not sync"):
        client.upload(data)
    try:
        recipe = client.upload(data, key=b"other")
    except Exception:
        recipe = None
    if recipe is not None:
        world.is_whole(client, recipe, data)
    for digest, entry in world.fake.index.entries.items():
        expect(world.store.is_durable(digest, entry.locator), "CLI-20: committed, though the sync that was to keep it has failed")


@case(14, "the name of another writer is durable before it is committed or counted on", "COL-20", "store")
def names_of_others(world):
    client = world.client()
    data = content(CHUNK_BYTES)
    world.store.add(sha256(data), data)
    upload(world, data, client)
    expect(not world.store.names_at_risk, "COL-20: a place of another writer was committed before its name was durable")
    world.store.names_at_risk.update(world.store.content)
    upload(world, data, client)
    expect(not world.store.names_at_risk, "COL-20: a place of another writer is counted on, and its name is not durable")


@case(15, "the epoch, then the plan, then the first stream, with that epoch", "COL-2 COL-4 COL-3 PRO-13", "store snapshot")
def epoch_first(world):
    world.store.current_epoch = 7
    upload(world, content(3 * CHUNK_BYTES))
    seen = world.events("epoch", "plan", "open", "has")
    expect(seen[:3] == ["epoch", "plan", "open 7"], f"COL-2: the epoch, then the plan, then the first stream; here: {seen[:3]}")


@case(16, "who cannot read the epoch, or a plan, begins nothing", "COL-5 CLI-28", "store snapshot")
def no_epoch_no_plan(world):
    def unreadable(what):
        def act(event):
            if event == what:
                raise OSError("cannot be read")
        return act

    for what in ("epoch", "plan"):
        world.store.before = unreadable(what)
        with refused(None, f"COL-5: the {what} cannot be read"):
            world.client().upload(b"x")
    world.store.before = lambda event: None
    for plan in (b"no plan at all, by anybody, and long enough", b"", plan_of(3)[:-1] + b" "):
        world.store.current_plan = plan
        with refused(None, "COL-5: the plan is damaged"):
            world.client().upload(b"x")
    expect(not world.fake.opens, "COL-5: a stream was opened without an epoch, or a plan that is there")


@case(17, "a store that is never collected is at epoch 1, always, and its client raises none", "COL-7 COL-9", "store")
def never_collected(world):
    for _ in range(2):
        upload(world, content(5 * CHUNK_BYTES), world.client(is_collected=False))
    expect({opened.store_epoch for opened in world.fake.opens} == {1}, "COL-7: another epoch than 1")
    expect(not world.events("advance"), "COL-9: AdvanceEpoch, by who never collects")


@case(18, "limits that a server says are kept to", "PRO-11 PRO-71", "")
def limits(world):
    world.fake.limits.max_commit_entries = 16
    world.fake.limits.max_message_bytes = 64 << 10
    recipe = upload(world, content(200 * CHUNK_BYTES))
    world.is_told(recipe)


def many_short_chunks(world):
    world.fake.limits.max_uncommitted_chunks = 4_096
    world.fake.chunk_bytes = 64
    # So that a server holds many before it answers the first one.
    world.fake.lag_bytes = 32 << 10
    return content(64 * 4_700)


@case(19, "what is not committed keeps to the server's limit, also of the shortest chunks", "CLI-6 PRO-11")
def uncommitted(world):
    try:
        recipe = upload(world, many_short_chunks(world))
        world.is_told(recipe)
    finally:
        world.fake.chunk_bytes = CHUNK_BYTES


@case(23, "so does what is reported stale, and not committed", "CLI-7 COL-16", "store")
def stale_uncommitted(world):
    data = many_short_chunks(world)
    try:
        for begin in range(0, len(data), 64):
            chunk = data[begin:begin + 64]
            world.fake.index.commit(1, [(sha256(chunk), len(chunk), b"gone")], replaces=False)
        upload(world, data)
    finally:
        world.fake.chunk_bytes = CHUNK_BYTES


@case(20, "three of the longest chunks may be unanswered", "CLI-5", "")
def window(world):
    world.fake.chunk_bytes = 1 << 20
    world.fake.lag_bytes = 3 << 20
    try:
        upload(world, content(4 << 20), world.client(**({"window_bytes": 64 << 10} if "window_bytes" in world.can else {})))
    finally:
        world.fake.chunk_bytes = CHUNK_BYTES


@case(26, "what is read ahead of answers is bounded", "CLI-5", "reader silence_s window_bytes", is_advice=True)
def read_ahead(world):
    chunk_bytes, window_bytes = 64 << 10, 1 << 20
    world.fake.chunk_bytes, world.fake.lag_bytes = chunk_bytes, 3 * chunk_bytes
    client = world.client(window_bytes=window_bytes, silence_s=2)
    read_bytes = []
    world.fake.faults = {("data", 1): silence, ("open", 2): lambda _: read_bytes.append(client.read_bytes)}
    try:
        upload(world, content(6 << 20), client)
    finally:
        world.fake.chunk_bytes = CHUNK_BYTES
    expect(read_bytes[0] <= 3 * window_bytes, f"CLI-5: {read_bytes[0]} bytes were read, with a window of {window_bytes}, and nothing was answered")


@case(27, "a server whose longest chunk is beyond every profile's is refused, or what is read for it is bounded all the same", "CLI-5",
      "reader", is_advice=True)
def longest_chunk(world):
    client = world.client()
    world.fake.chunk_bytes = 1 << 30
    try:
        client.upload(content(24 << 20))
    except Refusal:
        pass
    finally:
        world.fake.chunk_bytes = CHUNK_BYTES
    expect(client.read_bytes <= 16 << 20, f"CLI-5: {client.read_bytes} bytes were read ahead for a chunk of a gigabyte")


@contextlib.contextmanager
def proxy():
    """An address, and who has come."""
    visits = []

    class Visit(socketserver.BaseRequestHandler):
        def handle(self):
            visits.append(self.client_address)

    with socketserver.TCPServer(("127.0.0.1", 0), Visit) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield "http://127.0.0.1:%d" % server.server_address[1], visits
        finally:
            server.shutdown()


@case(25, "a proxy that the environment names is not used", "CLI-32", is_advice=True)
def no_proxy(world):
    fake = world.new_fake(address="127.0.0.1:0")
    with proxy() as (address, visits):
        names = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
        client = world.start({**{name: address for lower in names for name in (lower, lower.upper())},
                              **dict.fromkeys(("no_proxy", "NO_PROXY", "no_grpc_proxy"), "")})
        # This machine, by a name for which nobody leaves a proxy out.
        client.open(servers=[fake.address.replace("127.0.0.1", "0.0.0.0")])
        try:
            upload(world, content(3 * CHUNK_BYTES), client)
        finally:
            expect(not visits, "CLI-32: it has gone to the proxy that its environment names")
        client.driven.do("close")
        world.kill(client)


@case(24, "a place where a chunk has been cut short, or is empty, does not count", "CLI-36 COL-10", "store lengths", is_advice=True)
def cut_short(world):
    client = world.client()
    data = content(6 * CHUNK_BYTES)
    recipe = upload(world, data, client)
    for verdict in (DUPLICATE, UNVERIFIED, NEW):
        world.fake.verdict = lambda _digest, _verdict, told=verdict: told
        del world.fake.commits[:], world.fake.late_commits[:]
        rotten = {*world.store.cut_short(recipe.digests[1], CHUNK_BYTES - 1), *world.store.cut_short(recipe.digests[4], 0)}
        upload(world, data, client)
        told = {locator for _, _, locator in world.fake.commits + world.fake.late_commits}
        expect(not told & rotten, "CLI-36: a place was committed where the chunk is cut short")


@case(21, "a source that is cut off is no end of a file", "CLI-30 CLI-31", "reader")
def cut_off(world):
    client = world.client()
    data = content(30 * CHUNK_BYTES)
    with refused(None, "CLI-31: the source could not be read to its end"):
        client.upload(data, fails_at=12_345)
    upload(world, data, client)


@case(22, "a full index is a warning at the end of a stream, and costs no recipe", "CLI-9 PRO-29")
def quota(world):
    world.fake.faults["half_close", 1] = fail("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
    client = world.client()
    upload(world, content(9 * CHUNK_BYTES), client)
    world.settle()
