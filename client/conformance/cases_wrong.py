"""Cases of a server that is wrong about the bytes that it was sent (COL-10, CLI-8)."""

import hashlib

from case import case
from cases_upload import upload
from fake import fail
from kerf.v1 import chunking_pb2 as pb
from world import CHUNK_BYTES, content, expect, refused, sha256

DATA = content(20 * CHUNK_BYTES)


def changed(chunk, **fields):
    made = pb.Chunk()
    made.CopyFrom(chunk)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


CHANGES = {
    "check": lambda chunk: changed(chunk, check=chunk.check ^ 1),
    "digest": lambda chunk: changed(chunk, digest=sha256(chunk.digest)),
    "length of a digest": lambda chunk: changed(chunk, digest=chunk.digest[:20]),
    "shorter": lambda chunk: changed(chunk, end_offset=chunk.end_offset - 1),
    "of no bytes": lambda chunk: changed(chunk, end_offset=chunk.end_offset - CHUNK_BYTES),
    "beyond what was sent": lambda chunk: changed(chunk, end_offset=chunk.end_offset + (1 << 30)),
}


def nothing_wrong_is_stored(world):
    for digest, data in [*world.store.content.values(), *world.store.volatile.values()]:
        expect(hashlib.sha256(data).digest() == digest, "COL-10: a chunk was stored under a digest that is not its own")


def change_one(world, change, number):
    count = 0

    def act(chunk):
        nonlocal count
        count += 1
        return change(chunk) if count == number else chunk
    world.fake.change = act


def always(world, name, change):
    client = world.client()
    world.fake.change = change
    # So that one that would go on comes to an end.
    world.fake.faults["open", 4] = fail("PERMISSION_DENIED", "NOT_YOURS")
    with refused("disagreement refused retryable other", f"COL-10: each {name} is wrong"):
        client.upload(DATA)
    nothing_wrong_is_stored(world)
    expect(len(world.fake.opens) <= 3, "CLI-8: a server that is wrong each time is asked again and again")


def _each(number, name):
    change = CHANGES[name]

    @case(number, f"an answer that is wrong, each time ({name}): no recipe", "COL-10 CLI-8")
    def wrong(world):
        always(world, name, change)


for _number, _name in enumerate(CHANGES, 30):
    _each(_number, _name)


@case(36, "an answer that is wrong, once: another stream, and a recipe that is the file", "CLI-8 COL-10 PRO-30", is_advice=True)
def once(world):
    for change in CHANGES.values():
        world.begin()
        change_one(world, change, 4)
        recipe = upload(world, DATA)
        world.is_told(recipe)


@case(37, "a DUPLICATE is compared as well", "COL-10")
def wrong_duplicate(world):
    world.fake.verdict = lambda digest, verdict: pb.VERDICT_DUPLICATE
    always(world, "check of a DUPLICATE", CHANGES["check"])
    world.begin()
    world.fake.verdict = lambda digest, verdict: pb.VERDICT_DUPLICATE
    always(world, "digest of a DUPLICATE", CHANGES["digest"])


@case(38, "a chunk that is left out is no file", "COL-10 CLI-8")
def left_out(world):
    client = world.client()
    upload(world, DATA, client)
    world.fake.change = lambda chunk: None if chunk.end_offset == 5 * CHUNK_BYTES else chunk
    with refused(None, "COL-10: a chunk in the middle is never answered"):
        client.upload(DATA)


@case(39, "FileDone before the last chunk is none", "COL-10 CLI-8")
def done_too_early(world):
    client = world.client()
    upload(world, DATA, client)
    world.fake.change = lambda chunk: None if chunk.end_offset == len(DATA) else chunk
    with refused(None, "COL-10: the last chunk is never answered"):
        client.upload(DATA)


@case(43, "a last chunk that ends behind the file is none, though its bytes compare", "COL-10 CLI-8")
def behind_the_end(world):
    client = world.client()
    upload(world, DATA, client)
    world.fake.change = lambda chunk: changed(chunk, end_offset=len(DATA) + 1) if chunk.end_offset == len(DATA) else chunk
    with refused(None, "COL-10: the last chunk ends behind what was sent"):
        client.upload(DATA)


@case(40, "answers for another file are none of this one's", "COL-10 CLI-3")
def other_file(world):
    def other(stream):
        for answer in stream._answers:
            if answer.WhichOneof("answer") == "chunks":
                answer.chunks.file_number += 1

    world.fake.faults = {("chunks", number): other for number in range(1, 99)}
    with refused(None, "COL-10: all chunks are of another file"):
        world.client().upload(DATA)


@case(41, "a file of which all is compared and durable is whole, whatever else is said of it", "CLI-9")
def no_other_word_counts(world):
    for done in (lambda done: pb.FileDone(file_number=done.file_number, size_bytes=done.size_bytes - 1),
                 lambda done: pb.FileDone(file_number=done.file_number + 1, size_bytes=done.size_bytes)):
        world.begin()
        world.fake.change_done = done
        upload(world, DATA)
    for reason, code in (("NOT_YOURS", "PERMISSION_DENIED"), ("INTERNAL", "INTERNAL"), ("DRAINING", "UNAVAILABLE")):
        world.begin()
        world.fake.faults = {("chunks", 1): fail(code, reason)}
        upload(world, content(2 * CHUNK_BYTES))


@case(42, "but that a collection ran (EPOCH_BEHIND) counts behind the last chunk, too", "CLI-9 COL-23")
def behind_the_last_chunk(world):
    world.fake.faults = {("chunks", 1): fail("FAILED_PRECONDITION", "EPOCH_BEHIND")}
    with refused("epoch_behind", "COL-23: an epoch that has passed"):
        world.client().upload(content(2 * CHUNK_BYTES), seeks=False)
