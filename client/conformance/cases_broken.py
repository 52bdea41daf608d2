"""Cases of streams that are lost, refused, silent: an upload goes on where it was, or ends with the class of its error."""

import time

from case import case
from cases_upload import upload
from fake import babble, fail, go_away, kill, silence
from kerf.v1 import chunking_pb2 as pb
from world import CHUNK_BYTES, Refusal, World, content, expect, refused

# PRO-61, and those of the table of errors that are final.
RETRIED = {
    "TOO_MANY_UNCOMMITTED_CHUNKS": "RESOURCE_EXHAUSTED", "TOO_MANY_UNCOMMITTED_FILES": "RESOURCE_EXHAUSTED",
    "TOO_MANY_STREAMS": "RESOURCE_EXHAUSTED", "NO_WORKER": "UNAVAILABLE", "WORKER_UNREACHABLE": "UNAVAILABLE",
    "MEMORY_EXHAUSTED": "RESOURCE_EXHAUSTED", "DRAINING": "UNAVAILABLE", "OPEN_TIMEOUT": "DEADLINE_EXCEEDED",
    "IDLE_TIMEOUT": "DEADLINE_EXCEEDED", "IDLE_EVICTED": "UNAVAILABLE", "READ_STALLED": "DEADLINE_EXCEEDED",
    "INDEX_UNAVAILABLE": "UNAVAILABLE", "AUDIT_UNAVAILABLE": "UNAVAILABLE", "TOO_MANY_CALLS": "RESOURCE_EXHAUSTED",
    "QUOTA_EXCEEDED": "RESOURCE_EXHAUSTED", "INTERNAL": "INTERNAL",
}
FINAL = {
    "MALFORMED_MESSAGE": "INVALID_ARGUMENT", "MESSAGE_TOO_LARGE": "RESOURCE_EXHAUSTED", "FRAME_ORDER": "INVALID_ARGUMENT",
    "BAD_FIELD": "INVALID_ARGUMENT", "UNKNOWN_DIGEST": "INVALID_ARGUMENT", "UNFINISHED_FILE": "INVALID_ARGUMENT",
    "PROFILE_TOO_LARGE": "FAILED_PRECONDITION", "CRITERION_NEEDS_HINTS": "FAILED_PRECONDITION",
    "DIGEST_ALGORITHM_MISMATCH": "FAILED_PRECONDITION", "SIZE_MISMATCH": "OUT_OF_RANGE", "OFFSET_TOO_LARGE": "OUT_OF_RANGE",
    "TOO_MANY_ENTRIES": "RESOURCE_EXHAUSTED", "FRONT_BEHIND_FRONT": "FAILED_PRECONDITION", "UNKNOWN_CALLER": "UNAUTHENTICATED",
    "NOT_YOURS": "PERMISSION_DENIED", "QUOTA_EXCEEDED": "RESOURCE_EXHAUSTED",
}
DATA = content(40 * CHUNK_BYTES + 7)


def begin(world: World):
    """So that a file is many messages."""
    world.begin()
    world.fake.limits.max_message_bytes = 8 << 10
    return world.client(**({"commit_bytes": 8 << 10} if "commit_bytes" in world.can else {}))


def survives(world, faults):
    client = begin(world)
    world.fake.faults = faults
    recipe = upload(world, DATA, client)
    world.is_told(recipe)


def _each_moment(number, how, act, rules):
    @case(number, f"{how}, at each kind of moment of an upload: it goes on", rules)
    def moments(world):
        for event, count in (("opened", 1), ("data", 1), ("data", 6), ("chunks", 4), ("commit", 1), ("end", 1)):
            survives(world, {(event, count): act})


_each_moment(50, "a connection that breaks", kill, "PRO-30 PRO-31 PRO-32 PRO-61 COL-25 COL-33 COL-34 COL-19")
_each_moment(51, "GoAway", go_away, "PRO-40 PRO-41 COL-38 PRO-32")
_each_moment(52, "a stream that is evicted", fail("UNAVAILABLE", "IDLE_EVICTED", delay_s=0), "PRO-61 PRO-72")


@case(53, "a connection that breaks again and again, with progress in between", "PRO-30 COL-33 CLI-11 CLI-12")
def many_losses(world):
    survives(world, {("data", number): kill for number in (2, 5, 8, 11)})


@case(54, "what was pending on a lost stream is told in the epoch of its session, or not at all", "COL-34 COL-22 PRO-32", "store snapshot")
def late_commits(world):
    begin(world)
    world.store.current_epoch = 5
    client = world.client()
    world.fake.faults = {("data", 6): kill}
    recipe = upload(world, DATA, client)
    world.is_told(recipe)
    epochs = {epoch for epoch, _, _ in world.fake.late_commits + world.fake.commits}
    expect(epochs == {5}, f"COL-22: entries of a session of epoch 5 were sent under {sorted(epochs)}")


@case(55, "who cannot tell what a lost stream has left has a recipe all the same", "CLI-9 COL-34", "store")
def nobody_to_tell(world):
    begin(world)
    client = world.client()
    world.fake.faults = {("data", 6): kill, **{("CommitChunks", number): fail("PERMISSION_DENIED", "NOT_YOURS") for number in range(1, 9)}}
    upload(world, DATA, client)


@case(56, "a Commit that was carried out, and not answered", "COL-25 PRO-27 PRO-22")
def commit_without_an_answer(world):
    survives(world, {("committed", 1): kill})


@case(57, "each reason that may pass is tried again", "PRO-61 PRO-60 CLI-14")
def reasons_that_pass(world):
    for reason, code in RETRIED.items():
        survives(world, {("data", 4): fail(code, reason, delay_s=0.01)})
    # Of this one only where nothing of the file was answered (CLI-39).
    client = begin(world)
    world.fake.lag_bytes = 1 << 30
    world.fake.faults = {("end", 1): fail("DATA_LOSS", "CONTENT_MISMATCH", delay_s=0.01)}
    world.is_told(upload(world, DATA, client))


@case(58, "each reason that is final is not tried again, and its caller is told it", "PRO-61 PRO-60 PRO-62")
def reasons_that_are_final(world):
    for reason, code in FINAL.items():
        client = begin(world)
        world.fake.faults = {("data", number): fail(code, reason) for number in range(4, 99)}
        with refused("refused other", f"PRO-61: {reason} is final", reason):
            client.upload(DATA)
        expect(len(world.fake.opens) == 1, f"PRO-61: {reason} is final, and was tried again")


@case(59, "a reason that nobody knows is final, whatever its code", "CLI-17 PRO-62")
def reason_of_tomorrow(world):
    for code in ("UNAVAILABLE", "INTERNAL"):
        client = begin(world)
        world.fake.faults = {("data", number): fail(code, "A_REASON_OF_TOMORROW") for number in range(4, 99)}
        with refused("refused other", "PRO-62: a reason that nobody knows is final"):
            client.upload(DATA)
        expect(len(world.fake.opens) == 1, "PRO-62: a reason that nobody knows was tried again")


@case(60, "of a status without details the code alone counts: a connection that broke", "CLI-16 PRO-60 PRO-61")
def statuses_that_pass(world):
    for code in ("UNAVAILABLE", "CANCELLED", "INTERNAL", "UNKNOWN"):
        survives(world, {("data", 4): fail(code, message="words that nobody reads")})


@case(61, "of a status without details the code alone counts: all others are final", "CLI-16 PRO-60 PRO-63 PRO-65 PRO-66")
def statuses_that_are_final(world):
    for code in ("UNIMPLEMENTED", "RESOURCE_EXHAUSTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT"):
        client = begin(world)
        world.fake.faults = {("data", number): fail(code, message="Connection reset, DRAINING, please retry") for number in range(4, 99)}
        with refused("refused other", f"CLI-16: {code} without details is final"):
            client.upload(DATA)
        expect(len(world.fake.opens) == 1, f"CLI-16: {code} without details is final, and was tried again")


@case(62, "once is once for each upload", "CLI-14")
def once(world):
    for reason, code in (("INTERNAL", "INTERNAL"), ("CONTENT_MISMATCH", "DATA_LOSS")):
        client = begin(world)
        world.fake.faults = {("data", number): fail(code, reason) for number in (4, 6, 8, 10, 12)}
        try:
            client.upload(DATA)
        except Refusal:
            pass
        expect(len(world.fake.opens) <= 2, f"CLI-14: {reason} is tried again once")


@case(44, "behind CONTENT_MISMATCH nothing goes on of which a part was answered, nor all of it", "CLI-39 PRO-61")
def mismatch_of_what_was_answered(world):
    for data, lag_bytes in ((DATA, world.fake.lag_bytes), (content(40 * CHUNK_BYTES), CHUNK_BYTES)):
        client = begin(world)
        world.fake.lag_bytes = lag_bytes
        world.fake.faults = {("end", 1): fail("DATA_LOSS", "CONTENT_MISMATCH")}
        with refused("refused retryable other", "CLI-39: what was answered may be what is wrong, and is stored", "CONTENT_MISMATCH"):
            client.upload(data)
        expect(len(world.fake.opens) == 1, "CLI-39: behind CONTENT_MISMATCH a file was gone on with of which a part was answered")


@case(63, "a server that says nothing more is left", "CLI-13 PRO-61", "silence_s")
def silent(world):
    begin(world)
    world.fake.faults = {("data", 4): silence}
    recipe = upload(world, DATA, world.client(silence_s=1))
    world.is_told(recipe)


@case(132, "a server whose messages say nothing is left", "CLI-42 CLI-13", "silence_s")
def says_nothing(world):
    for answers in ((), (pb.UploadAnswer(),)):
        begin(world)
        world.fake.faults = {("data", 4): babble(*answers)}
        recipe = upload(world, DATA, world.client(silence_s=3))
        world.is_told(recipe)
        expect(len(world.fake.opens) > 1, "CLI-42: a message without an answer that the client knows says nothing")


@case(64, "the next server of the list, where one does not answer or has gone", "CLI-15 PRO-61")
def next_server(world):
    begin(world)
    gone = world.new_fake()
    address = gone.address
    gone.close()
    upload(world, DATA, world.client(servers=[address, world.fake.address]))


@case(65, "a server that is another version when it comes back: other limits, another name, answers of tomorrow", "PRO-14 PRO-30 PRO-71 CLI-10")
def upgrade(world):
    begin(world)
    other = world.new_fake(worker="of tomorrow")
    other.index = world.fake.index
    other.limits.max_message_bytes = 16 << 10
    other.limits.max_commit_entries = 16

    def with_another(stream):
        stream._answers.append(pb.UploadAnswer.FromString(b"\xa2\x06\x03new"))
        stream._answers[0].MergeFromString(b"\xa2\x06\x03new")

    other.faults = {(event, number): with_another for event in ("opened", "chunks") for number in range(1, 9)}
    draining = fail("UNAVAILABLE", "DRAINING", delay_s=0)
    world.fake.faults = {("data", 5): go_away, **{("open", number): draining for number in range(2, 99)}}
    recipe = upload(world, DATA, world.client(servers=[world.fake.address, other.address]))
    world.is_told(recipe)
    expect(other.opens, "PRO-40: the stream of a server that stops was not gone on with at the other one")


@case(66, "who is answered no chunk has not got on, whatever else is said, and ends", "CLI-11 PRO-61")
def no_progress(world):
    begin(world)

    def a_word_and_no_chunk(stream):
        stream._answers.append(pb.UploadAnswer.FromString(b"\xa2\x06\x03new"))
        kill(stream)

    world.fake.lag_bytes = 1 << 30
    most = 24
    # By PRO-61 these are five streams in so many seconds, and fewer on a machine that is slow.
    client = world.client(retry_for_s=3)
    world.fake.faults = {("data", number): a_word_and_no_chunk for number in range(1, most + 1)}
    world.fake.faults["open", most] = fail("PERMISSION_DENIED", "NOT_YOURS")
    with refused("retryable", f"CLI-11: no chunk was answered, and {most} streams were opened"):
        client.upload(DATA)


@case(67, "what a source takes is no time of trying", "CLI-12", "reader window_bytes")
def slow_source(world):
    begin(world)
    # With this window all was answered, and a chunk of it came, before it reads on.
    client = world.client(retry_for_s=2, window_bytes=1)
    world.fake.faults = {("data", 2): kill}
    upload(world, DATA, client, pause_s=4)


@case(68, "so long as RetryInfo says is waited at least", "PRO-61")
def waits_as_it_is_told(world):
    client = begin(world)
    told_s, seen = 3, []

    def draining(stream):
        seen.append(time.monotonic())
        fail("UNAVAILABLE", "DRAINING", delay_s=told_s)(stream)

    world.fake.faults = {("data", 4): draining, ("open", 2): lambda _: seen.append(time.monotonic())}
    upload(world, DATA, client)
    # A clock may be a little wrong.
    expect(seen[1] - seen[0] > 0.9 * told_s, f"PRO-61: RetryInfo said {told_s} s, and {seen[1] - seen[0]:.1f} s later it was tried again")


@case(69, "a server that has given a reason of kerf's was met: it is waited for", "CLI-15 PRO-61")
def met_by_a_reason(world):
    client = begin(world)
    world.fake.faults = {("open", number): fail("UNAVAILABLE", "DRAINING", delay_s=0) for number in (1, 2)}
    world.is_told(upload(world, DATA, client))


@case(49, "who has met nobody waits for nobody: each address is tried once", "CLI-15 PRO-61")
def nobody_was_met(world):
    begin(world)
    fakes = [world.fake, world.new_fake()]
    for fake in fakes:
        fake.faults = {("open", number): kill for number in (1, 2, 3)}
    client = world.client(servers=[fake.address for fake in fakes])
    with refused("retryable refused", "CLI-15: nobody has answered yet"):
        client.upload(DATA)
    expect([len(fake.opens) for fake in fakes] == [1, 1], "CLI-15: an address that was never met was tried more than once, or not at all")
