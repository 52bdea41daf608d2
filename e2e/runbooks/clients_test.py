"""What whoever writes a client, or whose client is slow, gets to see."""

import os
import time

import world
from kerf.v1 import chunking_pb2 as pb

# Of base/limits.h: entries of one Commit.
MAX_COMMIT_ENTRIES = 4096
DIGEST_BYTES = 32
MANY = 1 << 20


class ClientsTest(world.RunbookTest):
    def ends_with(self, kerfd, act, **options):
        """How a stream ends that does this: upload.Ended, whose reason is the page's."""
        made = self.upload(kerfd, **options)
        act(made)
        end = made.end()
        self.assertEqual(end.reason, self.page.name, str(end))
        return end

    def test_MALFORMED_MESSAGE(self):
        kerfd = self.start()
        # What is no message, and a frame without a member.
        self.ends_with(kerfd, lambda made: made.send_bytes(b"\xff\xff\xff"))
        self.ends_with(kerfd, lambda made: made.send())
        self.assertEqual(self.metric(kerfd, "kerf_streams_ended_total", reason="MALFORMED_MESSAGE"), 2)
        self.says("kerfd's log names `peer`, `agent` and `request_id`")
        self.assertTrue(kerfd.has_logged("MALFORMED_MESSAGE") and kerfd.has_logged("request_id"))
        self.says("set exactly one member of each frame")
        self.expect_whole(kerfd)
        self.assertEqual(self.metric(kerfd, "kerf_streams_ended_total", reason="MALFORMED_MESSAGE"), 2)

    def test_MESSAGE_TOO_LARGE(self):
        kerfd = self.start()

        def too_long(made):
            made.begin()
            made.send(data=bytes(4 * MANY + 1000))

        end = self.ends_with(kerfd, too_long)
        self.says("it says what was too large")
        self.assertIn("byte", end.message)
        self.says("`opened.limits`")
        limit = self.upload(kerfd).until("opened").limits.max_message_bytes
        self.assertEqual(limit, 4 * MANY)
        self.says("send smaller ones")
        self.expect_whole(kerfd, data=os.urandom(5 * MANY))
        self.assertEqual(self.metric(kerfd, "kerf_streams_ended_total", reason="MESSAGE_TOO_LARGE"), 1)

    def test_FRAME_ORDER(self):
        kerfd = self.start()
        end = self.ends_with(kerfd, lambda made: made.data(b"of no file"))
        self.says("The error's text, which names the frame")
        self.assertIn("data", end.message.lower())
        self.assertTrue(kerfd.has_logged(end.metadata["request_id"]), "the log does not name the request")
        self.says("resume from the last durable offset with a new stream")
        self.expect_whole(kerfd)

    def test_BAD_FIELD(self):
        kerfd = self.start()
        end = self.ends_with(kerfd, lambda made: None, profile="fixed-9q")
        self.says("The error's metadata `field`")
        self.assertIn("profile", end.metadata["field"])
        self.says("`kerf profiles` lists the names")
        self.assertIn("fixed-8k", self.kerf("profiles", ends=world.OK).stdout)
        self.expect_whole(kerfd, profile="fixed-8k")
        end = self.ends_with(kerfd, lambda made: None, repository="a/b")
        self.assertIn("repository", end.metadata["field"])
        self.says("1 to 64 of letters, digits and `._-`")
        self.expect_whole(kerfd, repository="a.b_c-D1" + "x" * 56)
        end = self.ends_with(kerfd, lambda made: None, epoch=0)
        self.says("an epoch is at least 1")
        self.assertIn("epoch", end.metadata["field"])

    def test_UNKNOWN_DIGEST(self):
        kerfd = self.start()
        digest = os.urandom(DIGEST_BYTES)
        entry = pb.CommitEntry(digest=digest, locator=b"x")
        end = self.ends_with(kerfd, lambda made: made.send(commit=pb.Commit(entries=[entry])))
        self.says("The error's metadata `digest`")
        self.assertEqual(end.metadata["digest"], digest.hex())
        self.says("Commit what this stream answered NEW or UNVERIFIED")
        self.expect_whole(kerfd)

    def test_UNFINISHED_FILE(self):
        kerfd = self.start()

        def half_closed(made):
            made.begin()
            made.data(b"x" * 1000)
            made.close()

        end = self.ends_with(kerfd, half_closed)
        self.says("The error's metadata `file_number`")
        self.assertIn("file_number", end.metadata)
        self.says("Send `file_end` with the file's size before the half-close")
        self.expect_whole(kerfd, data=b"x" * 1000)

    def test_SIZE_MISMATCH(self):
        kerfd = self.start()

        def wrong_size(made):
            made.begin()
            made.data(b"x" * 1000)
            made.finish(b"x" * 1000, size=999)

        end = self.ends_with(kerfd, wrong_size)
        self.says("The error's metadata `file_number`")
        self.assertIn("file_number", end.metadata)
        self.says("Count what was sent, and say that")
        self.expect_whole(kerfd, data=b"x" * 1000)

    def test_OFFSET_TOO_LARGE(self):
        kerfd = self.start()
        self.ends_with(kerfd, lambda made: made.begin(start_offset=1 << 63))
        self.says("An offset or size is above 2^63-1")
        self.expect_whole(kerfd)

    def test_CONTENT_MISMATCH(self):
        kerfd = self.start()
        data = os.urandom(100_000)

        def other_bytes(made):
            made.begin()
            made.data(data)
            made.finish(data, content=data[1:] + data[:1])

        self.ends_with(kerfd, other_bytes)
        self.assertEqual(self.metric(kerfd, "kerf_streams_ended_total", reason="CONTENT_MISMATCH"), 1)
        self.says("hash the very bytes that you send")
        self.expect_whole(kerfd, data=data)
        self.back_up(kerfd, ends=world.OK)
        self.step("kerf verify --read-data", "--store", self.store)
        self.assertEqual(self.metric(kerfd, "kerf_streams_ended_total", reason="CONTENT_MISMATCH"), 1)

    def test_TOO_MANY_ENTRIES(self):
        kerfd = self.start()
        entries = [pb.CommitEntry(digest=os.urandom(DIGEST_BYTES), locator=b"x") for _ in range(MAX_COMMIT_ENTRIES + 1)]
        end = self.ends_with(kerfd, lambda made: made.send(commit=pb.Commit(entries=entries)))
        self.says("The error's metadata `limit`")
        self.assertEqual(end.metadata["limit"], str(MAX_COMMIT_ENTRIES))
        self.says("Split it, and send the parts one after another")
        # Each answer names few enough.
        self.expect_whole(kerfd, data=os.urandom(5 * MANY), profile="fixed:size=1024")

    def test_TOO_MANY_UNCOMMITTED_CHUNKS(self):
        kerfd = self.start("kerfd", *self.flags("--max-uncommitted-chunks", 8))

        def never_commits(made):
            made.begin()
            made.data(os.urandom(20 * 8192))

        end = self.ends_with(kerfd, never_commits)
        self.says("The error's metadata `limit`")
        self.assertEqual(end.metadata["limit"], "8")
        self.says("raise the limit: `--max-uncommitted-chunks`")
        kerfd = self.restart(kerfd, *self.flags("--max-uncommitted-chunks", 40))
        made = self.upload(kerfd)
        data = os.urandom(20 * 8192)
        made.begin()
        made.data(data)
        made.finish(data)
        made.commit_until_done()
        made.close()
        self.assertEqual(made.end().reason, "OK")

    def test_TOO_MANY_UNCOMMITTED_FILES(self):
        kerfd = self.start("kerfd", *self.flags("--max-uncommitted-files", 2))

        def never_commits(made):
            for number in range(4):
                data = os.urandom(1000)
                made.begin(key=b"file %d" % number)
                made.data(data)
                made.finish(data)

        end = self.ends_with(kerfd, never_commits)
        self.says("The error's metadata `limit`")
        self.assertEqual(end.metadata["limit"], "2")
        self.says("raise `--max-uncommitted-files`")
        kerfd = self.restart(kerfd, *self.flags("--max-uncommitted-files", 8))
        made = self.upload(kerfd)
        never_commits(made)
        for _ in range(4):
            made.commit_until_done()
        made.close()
        self.assertEqual(made.end().reason, "OK")

    def test_OPEN_TIMEOUT(self):
        kerfd = self.start("kerfd", *self.flags("--open-timeout-ms", 500))
        self.ends_with(kerfd, lambda made: None, profile=None)
        self.assertEqual(self.metric(kerfd, "kerf_streams_ended_total", reason="OPEN_TIMEOUT"), 1)
        self.says("Send that first")
        self.expect_whole(kerfd)
        self.assertEqual(self.metric(kerfd, "kerf_streams_ended_total", reason="OPEN_TIMEOUT"), 1)

    def test_IDLE_TIMEOUT(self):
        kerfd = self.start("kerfd", *self.flags("--idle-timeout-ms", 1500))

        def says_nothing(made):
            made.begin()
            made.data(b"x" * 1000)

        self.ends_with(kerfd, says_nothing)
        self.says("an empty UploadRequest is no data in mid-file")
        made = self.upload(kerfd)
        says_nothing(made)
        for _ in range(15):
            made.babble()
            time.sleep(0.2)
        self.assertEqual(made.end().reason, "IDLE_TIMEOUT")
        self.says("opens another stream once it has something to send, and resumes there")
        self.expect_whole(kerfd)
        self.says("raise `--idle-timeout-ms`")
        kerfd = self.restart(kerfd, "--idle-timeout-ms", "60000")
        self.back_up(kerfd, ends=world.OK)

    def test_READ_STALLED(self):
        # More answers than gRPC takes for a client that does not read.
        flags = ("--max-uncommitted-chunks", "1000000")
        kerfd = self.start("kerfd", *self.flags("--write-stall-timeout-ms", 1000), *flags)
        made = self.upload(kerfd, "fixed:size=64")
        made.begin()
        made.data(os.urandom(32 * MANY))
        self.until(lambda: kerfd.has_logged("READ_STALLED"), "the client that does not read to be ended")
        self.says("Which client: `agent` and `peer` in the log")
        self.assertTrue(kerfd.has_logged("runbooks"), "the log does not name the agent")
        self.says("read while you write")
        self.expect_whole(kerfd, data=os.urandom(MANY), profile="fixed:size=64")
        self.back_up(kerfd, ends=world.OK)
