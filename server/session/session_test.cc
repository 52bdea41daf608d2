#include "server/session/session.h"

#include <gtest/gtest.h>

#include <string>

#include "server/errors/errors.h"

namespace kerf {
namespace {

Digest DigestOf(std::uint8_t value) {
  Digest digest;
  digest.bytes.fill(value);
  return digest;
}

std::string BytesOf(const Digest& digest) { return {digest.bytes.begin(), digest.bytes.end()}; }

v1::Open GoodOpen() {
  v1::Open open;
  open.set_repository("home");
  open.set_profile("fastcdc2020-8k");
  open.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  open.set_store_epoch(1);
  return open;
}

v1::FileBegin Begin(std::uint64_t start_offset = 0) {
  v1::FileBegin begin;
  begin.set_file_key("key");
  begin.set_start_offset(start_offset);
  return begin;
}

v1::FileEnd End(std::uint64_t size_bytes) {
  v1::FileEnd end;
  end.set_size_bytes(size_bytes);
  end.set_content_hash(std::string(16, '\0'));
  return end;
}

v1::Commit CommitOf(std::initializer_list<std::uint8_t> digests) {
  v1::Commit commit;
  for (const std::uint8_t value : digests) {
    v1::CommitEntry* entry = commit.add_entries();
    entry->set_digest(BytesOf(DigestOf(value)));
    entry->set_locator("pack");
  }
  return commit;
}

v1::ChunkDigests Named(std::initializer_list<std::uint32_t> lengths_bytes) {
  v1::ChunkDigests named;
  for (const std::uint32_t length_bytes : lengths_bytes) {
    named.mutable_digests()->append(BytesOf(DigestOf(1)));
    named.add_lengths_bytes(length_bytes);
  }
  return named;
}

JudgedChunk Chunk(std::uint64_t file, std::uint64_t end, std::uint32_t length, std::uint8_t digest,
                  Verdict verdict = Verdict::kNew) {
  return {file, end, length, DigestOf(digest), verdict};
}

class SessionTest : public testing::Test {
 protected:
  void OpenIt() { ASSERT_TRUE(session_.Open(GoodOpen()).ok()); }
  void SendFile(std::uint64_t start_offset, std::uint64_t data_bytes) {
    ASSERT_TRUE(session_.BeginFile(Begin(start_offset)).ok());
    ASSERT_TRUE(session_.AddData(data_bytes).ok());
    ASSERT_TRUE(session_.EndFile(End(start_offset + data_bytes), ContentHash{}).ok());
  }
  v1::Committed Commit(std::initializer_list<std::uint8_t> digests) {
    const v1::Commit commit = CommitOf(digests);
    const auto entries = session_.PlanCommit(commit);
    EXPECT_TRUE(entries.ok()) << entries.status();
    return session_.ApplyCommit(commit, entries.ok() ? entries->entries.size() : 0);
  }

  SessionLimits limits_{
      .max_uncommitted_chunks = 4, .max_uncommitted_files = 3, .max_commit_entries = 3};
  Session session_{limits_};
};

TEST_F(SessionTest, OpenFixesTheParameters) {
  OpenIt();
  EXPECT_TRUE(session_.is_open());
  EXPECT_EQ(session_.parameters().repository.name, "home");
  EXPECT_EQ(session_.parameters().store_epoch, 1u);
  EXPECT_EQ(ReasonNameOf(session_.Open(GoodOpen())), "FRAME_ORDER");
}

TEST_F(SessionTest, RefusesABadOpen) {
  const auto reason = [](auto change) {
    v1::Open open = GoodOpen();
    change(open);
    return ReasonNameOf(Session(SessionLimits{}).Open(open));
  };
  EXPECT_EQ(reason([](v1::Open& open) { open.set_repository("a/b"); }), "BAD_FIELD");
  EXPECT_EQ(reason([](v1::Open& open) { open.set_repository(""); }), "BAD_FIELD");
  EXPECT_EQ(reason([](v1::Open& open) { open.set_profile("no such"); }), "BAD_FIELD");
  EXPECT_EQ(reason([](v1::Open& open) { open.clear_digest_algorithm(); }), "BAD_FIELD");
  EXPECT_EQ(reason([](v1::Open& open) { open.set_store_epoch(0); }), "BAD_FIELD");
  EXPECT_EQ(reason([](v1::Open& open) { open.set_store_epoch((std::uint64_t{1} << 62) + 1); }),
            "BAD_FIELD");
  EXPECT_EQ(reason([](v1::Open& open) { open.set_store_epoch(UINT64_MAX); }), "BAD_FIELD");
  EXPECT_EQ(reason([](v1::Open& open) { open.set_agent(std::string(129, 'x')); }), "BAD_FIELD");
  for (const std::string& name : {std::string(), std::string("Upper"), std::string("sp ace"),
                                  std::string("\xff"), std::string(65, 'x')}) {
    EXPECT_EQ(reason([&](v1::Open& open) { open.add_features(name); }), "BAD_FIELD") << name;
  }
  EXPECT_EQ(reason([](v1::Open& open) {
              for (int count = 0; count < 65; ++count) open.add_features("name");
            }),
            "BAD_FIELD");
}

TEST_F(SessionTest, TakesFeaturesThatItDoesNotKnow) {
  v1::Open open = GoodOpen();
  for (int count = 0; count < 64; ++count) open.add_features(std::string(64, 'z'));
  EXPECT_TRUE(Session(SessionLimits{}).Open(open).ok());
}

TEST_F(SessionTest, NothingComesBeforeOpen) {
  EXPECT_EQ(ReasonNameOf(session_.BeginFile(Begin())), "FRAME_ORDER");
  EXPECT_EQ(ReasonNameOf(session_.AddData(1)), "FRAME_ORDER");
  EXPECT_EQ(ReasonNameOf(session_.EndFile(End(0), {})), "FRAME_ORDER");
  EXPECT_EQ(ReasonNameOf(session_.PlanCommit({}).status()), "FRAME_ORDER");
  EXPECT_EQ(ReasonNameOf(session_.PlanStale({}).status()), "FRAME_ORDER");
  EXPECT_EQ(ReasonNameOf(session_.HalfClose()), "FRAME_ORDER");
}

TEST_F(SessionTest, FileFramesComeInOrder) {
  OpenIt();
  EXPECT_EQ(ReasonNameOf(session_.AddData(0)), "FRAME_ORDER");
  EXPECT_EQ(ReasonNameOf(session_.EndFile(End(0), {})), "FRAME_ORDER");
  ASSERT_TRUE(session_.BeginFile(Begin()).ok());
  EXPECT_EQ(ReasonNameOf(session_.BeginFile(Begin())), "FRAME_ORDER");
  EXPECT_EQ(ReasonNameOf(session_.HalfClose()), "UNFINISHED_FILE");
  ASSERT_TRUE(session_.EndFile(End(0), {}).ok());
  EXPECT_TRUE(session_.HalfClose().ok());
}

TEST_F(SessionTest, LiesAboutAFileAreFound) {
  OpenIt();
  ASSERT_TRUE(session_.BeginFile(Begin(100)).ok());
  ASSERT_TRUE(session_.AddData(50).ok());
  EXPECT_EQ(ReasonNameOf(session_.EndFile(End(50), {})), "SIZE_MISMATCH");
  EXPECT_EQ(ReasonNameOf(session_.EndFile(End(151), {})), "SIZE_MISMATCH");
  EXPECT_EQ(ReasonNameOf(session_.EndFile(End(150), ContentHash{1})), "CONTENT_MISMATCH");
  v1::FileEnd end = End(150);
  end.set_content_hash("short");
  EXPECT_EQ(ReasonNameOf(session_.EndFile(end, {})), "BAD_FIELD");
  EXPECT_EQ(ReasonNameOf(session_.AddData(kMaxFileBytes - 149)), "OFFSET_TOO_LARGE");
  EXPECT_TRUE(session_.EndFile(End(150), {}).ok());
  EXPECT_EQ(ReasonNameOf(session_.BeginFile(Begin(kMaxFileBytes + 1))), "OFFSET_TOO_LARGE");
  v1::FileBegin begin = Begin();
  begin.set_file_key(std::string(kMaxFileKeyBytes + 1, 'k'));
  EXPECT_EQ(ReasonNameOf(session_.BeginFile(begin)), "BAD_FIELD");
}

TEST_F(SessionTest, EmptyFilesAreDoneAtOnce) {
  OpenIt();
  SendFile(0, 0);
  SendFile(70, 0);
  const auto done = session_.TakeDone();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].file_number(), 1u);
  EXPECT_EQ(done[1].file_number(), 2u);
  EXPECT_EQ(done[1].size_bytes(), 70u);
  EXPECT_FALSE(session_.has_done());
}

TEST_F(SessionTest, DurableIsThePrefixOfResolvedChunks) {
  OpenIt();
  SendFile(0, 100);
  ASSERT_TRUE(session_.AddChunk(Chunk(1, 10, 10, 1, Verdict::kDuplicate)).ok());
  ASSERT_TRUE(session_.AddChunk(Chunk(1, 30, 20, 2)).ok());
  ASSERT_TRUE(session_.AddChunk(Chunk(1, 60, 30, 3, Verdict::kUnverified)).ok());
  ASSERT_TRUE(session_.AddChunk(Chunk(1, 100, 40, 4)).ok());

  // The later chunk alone moves the start of the pending ones only from 0 to 10.
  v1::Committed committed = Commit({3});
  ASSERT_EQ(committed.files_size(), 1);
  EXPECT_EQ(committed.files(0).durable_offset(), 10u);
  EXPECT_EQ(committed.entry_count(), 1u);
  EXPECT_FALSE(session_.has_done());

  committed = Commit({2});
  ASSERT_EQ(committed.files_size(), 1);
  EXPECT_EQ(committed.files(0).durable_offset(), 60u);

  committed = Commit({4});
  EXPECT_EQ(committed.files(0).durable_offset(), 100u);
  const auto done = session_.TakeDone();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].size_bytes(), 100u);
  EXPECT_EQ(done[0].chunk_count(), 4u);
  EXPECT_EQ(done[0].new_chunk_count(), 3u);
  EXPECT_EQ(done[0].new_bytes(), 90u);
  EXPECT_EQ(session_.uncommitted_file_count(), 0u);
  EXPECT_EQ(session_.uncommitted_chunk_count(), 0u);
}

TEST_F(SessionTest, OneCommitResolvesEveryChunkOfItsDigest) {
  OpenIt();
  SendFile(0, 20);
  SendFile(0, 10);
  ASSERT_TRUE(session_.AddChunk(Chunk(1, 10, 10, 7)).ok());
  ASSERT_TRUE(session_.AddChunk(Chunk(1, 20, 10, 7)).ok());
  ASSERT_TRUE(session_.AddChunk(Chunk(2, 10, 10, 7)).ok());
  const v1::Committed committed = Commit({7, 7});
  ASSERT_EQ(committed.files_size(), 2);
  EXPECT_EQ(committed.files(0).durable_offset(), 20u);
  EXPECT_EQ(committed.files(1).durable_offset(), 10u);
  EXPECT_EQ(session_.TakeDone().size(), 2u);
}

TEST_F(SessionTest, AForeignDigestIsForTheIndexToJudge) {
  OpenIt();
  SendFile(0, 10);
  ASSERT_TRUE(session_.AddChunk(Chunk(1, 10, 10, 1)).ok());
  const auto plan = session_.PlanCommit(CommitOf({1, 2}));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->entries.size(), 1u);
  EXPECT_EQ(plan->others, std::vector<Digest>{DigestOf(2)});
  EXPECT_EQ(session_.uncommitted_chunk_count(), 1u);
  EXPECT_EQ(ReasonNameOf(session_.UnknownDigest(DigestOf(2))), "UNKNOWN_DIGEST");
  Commit({1});
  // As when the same chunk was answered NEW while its commit was on the way.
  EXPECT_EQ(session_.PlanCommit(CommitOf({1}))->others, std::vector<Digest>{DigestOf(1)});
}

TEST_F(SessionTest, CommitFieldsAreChecked) {
  OpenIt();
  v1::Commit commit = CommitOf({1});
  commit.mutable_entries(0)->set_digest("short");
  EXPECT_EQ(ReasonNameOf(session_.PlanCommit(commit).status()), "BAD_FIELD");
  commit = CommitOf({1});
  commit.mutable_entries(0)->clear_locator();
  EXPECT_EQ(ReasonNameOf(session_.PlanCommit(commit).status()), "BAD_FIELD");
  commit.mutable_entries(0)->set_locator(std::string(65, 'l'));
  EXPECT_EQ(ReasonNameOf(session_.PlanCommit(commit).status()), "BAD_FIELD");
  EXPECT_EQ(ReasonNameOf(session_.PlanCommit(CommitOf({1, 2, 3, 4})).status()), "TOO_MANY_ENTRIES");
}

TEST_F(SessionTest, AStaleDigestMayBeCommitted) {
  OpenIt();
  v1::ReportStale report;
  *report.add_entries() = CommitOf({5}).entries(0);
  const auto entries = session_.PlanStale(report);
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ((*entries)[0].digest, DigestOf(5));
  EXPECT_EQ(session_.PlanCommit(CommitOf({5}))->others.size(), 1u);

  ASSERT_TRUE(session_.AddStale(DigestOf(5), 123).ok());
  const auto plan = session_.PlanCommit(CommitOf({5}));
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->entries.size(), 1u);
  EXPECT_EQ(plan->entries[0].length_bytes, 123u);
  session_.ApplyCommit(CommitOf({5}), 1);
  EXPECT_EQ(session_.PlanCommit(CommitOf({5}))->others.size(), 1u);

  // Without a length it may be committed, but there is nothing to write.
  ASSERT_TRUE(session_.AddStale(DigestOf(6), 0).ok());
  EXPECT_TRUE(session_.PlanCommit(CommitOf({6}))->entries.empty());
  EXPECT_TRUE(session_.PlanCommit(CommitOf({6}))->others.empty());
  for (std::uint8_t value = 7; value < 10; ++value) {
    ASSERT_TRUE(session_.AddStale(DigestOf(value), 1).ok());
  }
  EXPECT_EQ(ReasonNameOf(session_.AddStale(DigestOf(10), 1)), "TOO_MANY_UNCOMMITTED_CHUNKS");
}

TEST_F(SessionTest, LimitsHold) {
  OpenIt();
  SendFile(0, 50);
  for (std::uint8_t value = 1; value <= 4; ++value) {
    ASSERT_TRUE(session_.AddChunk(Chunk(1, value * 10u, 10, value)).ok());
  }
  EXPECT_EQ(ReasonNameOf(session_.AddChunk(Chunk(1, 50, 10, 5))), "TOO_MANY_UNCOMMITTED_CHUNKS");
  SendFile(0, 1);
  SendFile(0, 1);
  EXPECT_EQ(ReasonNameOf(session_.BeginFile(Begin())), "TOO_MANY_UNCOMMITTED_FILES");
}

// fastcdc2020-8k has chunks of 2,048 to 32,768 bytes.
TEST_F(SessionTest, AClientWhoCutsNamesChunksOfTheProfile) {
  OpenIt();
  session_.LetClientCut();
  EXPECT_EQ(ReasonNameOf(session_.AddDigests(Named({2048}))), "FRAME_ORDER");
  ASSERT_TRUE(session_.BeginFile(Begin(100)).ok());
  EXPECT_EQ(ReasonNameOf(session_.AddData(0)), "FRAME_ORDER");
  EXPECT_EQ(ReasonNameOf(session_.AddDigests({})), "BAD_FIELD");
  EXPECT_EQ(ReasonNameOf(session_.AddDigests(Named({0}))), "BAD_FIELD");
  EXPECT_EQ(ReasonNameOf(session_.AddDigests(Named({32'769}))), "BAD_FIELD");
  EXPECT_EQ(ReasonNameOf(session_.AddDigests(Named({UINT32_MAX}))), "BAD_FIELD");
  EXPECT_EQ(ReasonNameOf(session_.AddDigests(Named({2047, 2048}))), "BAD_FIELD");
  EXPECT_EQ(ReasonNameOf(session_.AddDigests(Named({4096, 4096, 4096, 4096}))), "TOO_MANY_ENTRIES");
  for (const std::size_t digests_bytes : {0, 31, 33, 63, 65, 96}) {
    v1::ChunkDigests named = Named({2048, 2048});
    named.mutable_digests()->resize(digests_bytes);
    EXPECT_EQ(ReasonNameOf(session_.AddDigests(named)), "BAD_FIELD") << digests_bytes;
  }
  // What was refused counts for nothing.
  EXPECT_EQ(session_.received_offset(), 100u);
  ASSERT_TRUE(session_.AddDigests(Named({2048, 32'768})).ok());
  ASSERT_TRUE(session_.AddDigests(Named({2048, 1})).ok());
  EXPECT_EQ(ReasonNameOf(session_.AddDigests(Named({2048}))), "BAD_FIELD");
  EXPECT_EQ(session_.received_offset(), 100u + 2048 + 32'768 + 2048 + 1);
  EXPECT_EQ(ReasonNameOf(session_.EndFile(End(100), {})), "SIZE_MISMATCH");
  ASSERT_TRUE(session_.EndFile(End(session_.received_offset()), {}).ok());
  // The next file is another one.
  ASSERT_TRUE(session_.BeginFile(Begin()).ok());
  EXPECT_TRUE(session_.AddDigests(Named({2048})).ok());
}

TEST_F(SessionTest, NobodyNamesChunksWhomNobodyAsked) {
  EXPECT_EQ(ReasonNameOf(session_.AddDigests(Named({2048}))), "FRAME_ORDER");
  OpenIt();
  ASSERT_TRUE(session_.BeginFile(Begin()).ok());
  EXPECT_EQ(ReasonNameOf(session_.AddDigests(Named({2048}))), "FRAME_ORDER");
}

TEST_F(SessionTest, NoFileIsNamedBeyondTheLastOffset) {
  OpenIt();
  session_.LetClientCut();
  ASSERT_TRUE(session_.BeginFile(Begin(kMaxFileBytes - 5000)).ok());
  EXPECT_EQ(ReasonNameOf(session_.AddDigests(Named({2500, 2501}))), "OFFSET_TOO_LARGE");
  EXPECT_TRUE(session_.AddDigests(Named({2500, 2500})).ok());
}

TEST_F(SessionTest, GoAwaySaysWhereToResume) {
  OpenIt();
  SendFile(0, 20);
  ASSERT_TRUE(session_.AddChunk(Chunk(1, 10, 10, 1, Verdict::kDuplicate)).ok());
  ASSERT_TRUE(session_.AddChunk(Chunk(1, 20, 10, 2)).ok());
  ASSERT_TRUE(session_.BeginFile(Begin(500)).ok());
  ASSERT_TRUE(session_.AddData(10).ok());
  const v1::GoAway go_away = session_.BeginDrain(1234);
  EXPECT_EQ(go_away.drain_ms(), 1234u);
  ASSERT_EQ(go_away.files_size(), 1);
  EXPECT_EQ(go_away.files(0).file_number(), 1u);
  EXPECT_EQ(go_away.files(0).durable_offset(), 10u);
  EXPECT_EQ(Commit({2}).files(0).durable_offset(), 20u);
  EXPECT_EQ(session_.TakeDone().size(), 1u);
  EXPECT_EQ(ReasonNameOf(session_.HalfClose()), "DRAINING");
}

}  // namespace
}  // namespace kerf
