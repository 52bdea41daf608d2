"""A kerfd that lies: its answers are changed on the way, to show that the load test sees each lie.

A lie takes an UploadResponse and says whether it has lied: then the rest of the stream is the truth.
"""

import wire


def _chunks(response, verdict=None):
    for answer in response.answers:
        for chunk in answer.chunks.chunks:
            if verdict in (None, chunk.verdict):
                yield chunk


def chunk_left_out(response):
    """All of a file but one chunk in the middle."""
    for answer in response.answers:
        if len(answer.chunks.chunks) > 2:
            del answer.chunks.chunks[1]
            return True
    return False


def chunk_twice(response):
    for answer in response.answers:
        if answer.chunks.chunks:
            answer.chunks.chunks.append(answer.chunks.chunks[-1])
            return True
    return False


def moved_cut(response):
    """The digest is right for where the cut was."""
    for answer in response.answers:
        if len(answer.chunks.chunks) > 1:
            answer.chunks.chunks[0].end_offset += 1
            return True
    return False


def merged_chunks(response):
    """Longer than the profile allows: several chunks become one that ends where the last did."""
    for answer in response.answers:
        if len(answer.chunks.chunks) > 5:
            del answer.chunks.chunks[:5]
            return True
    return False


def beyond_the_data(response):
    for chunk in _chunks(response):
        chunk.end_offset += 1 << 40
        return True
    return False


def wrong_digest(response):
    for chunk in _chunks(response):
        chunk.digest = chunk.digest[:-1] + bytes([chunk.digest[-1] ^ 1])
        return True
    return False


def wrong_check(response):
    for chunk in _chunks(response):
        chunk.check ^= 1
        return True
    return False


def duplicate_without_locator(response):
    """What would lose data: never stored, and called a duplicate."""
    for chunk in _chunks(response, wire.NEW):
        chunk.verdict = wire.DUPLICATE
        return True
    return False


def duplicate_of_another_chunk(response):
    """As above, with the locator of a chunk that was committed."""
    locators = [chunk.locator for chunk in _chunks(response, wire.DUPLICATE)]
    for chunk in _chunks(response, wire.NEW):
        if locators:
            chunk.verdict, chunk.locator = wire.DUPLICATE, locators[0]
            return True
    return False


def forgotten_chunk(response):
    for chunk in _chunks(response, wire.DUPLICATE):
        chunk.verdict, chunk.locator = wire.NEW, b""
        return True
    return False


def durable_too_early(response):
    for answer in response.answers:
        for file in answer.committed.files:
            file.durable_offset += 1 << 30
            return True
    return False


def commit_of_less(response):
    for answer in response.answers:
        if answer.WhichOneof("answer") == "committed":
            answer.committed.entry_count -= 1
            return True
    return False


def done_with_other_counts(response):
    for answer in response.answers:
        if answer.WhichOneof("answer") == "file_done":
            answer.file_done.new_bytes += 1
            return True
    return False


def done_of_another_file(response):
    for answer in response.answers:
        if answer.WhichOneof("answer") == "file_done":
            answer.file_done.file_number += 1000
            return True
    return False


def done_without_chunks(response):
    """The file's chunks never come."""
    for index, answer in enumerate(response.answers):
        if answer.chunks.chunks:
            number, end = answer.chunks.file_number, answer.chunks.chunks[-1].end_offset
            response.answers[index].CopyFrom(type(answer)(file_done={"file_number": number, "size_bytes": end}))
            return True
    return False


def file_without_chunks(response):
    """Of the second file: it is done, and none of its chunks has come."""
    for index in reversed(range(len(response.answers))):
        if response.answers[index].chunks.file_number == 2:
            del response.answers[index]
    return False


def later_file_first(response):
    """The second file's chunks come, those of the first do not."""
    for index in reversed(range(len(response.answers))):
        if response.answers[index].chunks.file_number == 1:
            del response.answers[index]
    return False


def no_verdict(response):
    for chunk in _chunks(response):
        chunk.verdict = 0
        return True
    return False


def new_with_locator(response):
    for chunk in _chunks(response, wire.NEW):
        chunk.locator = b"kept somewhere"
        return True
    return False


def opened_twice(response):
    for answer in response.answers:
        if answer.WhichOneof("answer") == "opened":
            response.answers.append(answer)
            return True
    return False


# Lie -> the kinds of WrongAnswer that it may be seen as.
ALL = {
    chunk_left_out: {"digest", "bounds"}, chunk_twice: {"overlap"}, moved_cut: {"digest"},
    merged_chunks: {"bounds"}, beyond_the_data: {"beyond data"}, wrong_digest: {"digest"}, wrong_check: {"check"},
    duplicate_without_locator: {"duplicate of nothing"}, duplicate_of_another_chunk: {"duplicate of nothing"},
    forgotten_chunk: {"forgotten"}, durable_too_early: {"durable offset"}, commit_of_less: {"committed"},
    done_with_other_counts: {"file done"}, done_of_another_file: {"file number"},
    # Before the agent has sent all of the file, and after: which of them is a matter of the server's speed.
    done_without_chunks: {"file done", "gap"},
    file_without_chunks: {"gap"}, later_file_first: {"order"}, no_verdict: {"verdict"}, new_with_locator: {"verdict"},
    opened_twice: {"opened"},
}


class LyingCall:
    """What wire.upload returns, with one lie in it."""

    def __init__(self, call, lie):
        self._call, self._lie = call, lie

    def __iter__(self):
        has_lied = False
        for response in self._call:
            has_lied = has_lied or self._lie(response)
            yield response

    def cancel(self):
        self._call.cancel()


def tell(lie):
    """Every stream from now on has the lie in it; returns what ends that."""
    honest = wire.upload
    wire.upload = lambda *arguments: LyingCall(honest(*arguments), lie)

    def stop():
        wire.upload = honest

    return stop
