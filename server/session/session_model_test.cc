// The session against a model so plain that it is its own proof: lists of everything that was ever
// answered, searched from the front.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "server/errors/errors.h"
#include "server/session/session.h"

namespace kerf {
namespace {

constexpr int kRounds = 150;
constexpr int kStepsPerRound = 400;
// Few digests, so that they meet often.
constexpr std::uint64_t kDigestCount = 24;

struct ModelChunk {
  std::uint8_t digest = 0;
  std::uint64_t end_offset = 0;
  std::uint32_t length_bytes = 0;
  bool resolved = false;
  bool was_new = false;
};

struct ModelFile {
  std::uint64_t start_offset = 0;
  std::uint64_t received_offset = 0;
  std::uint64_t told_offset = 0;
  bool ended = false;
  bool done = false;
  // The client has named a chunk that only the end of a file allows.
  bool ends_with_short = false;
  std::vector<ModelChunk> chunks;

  std::uint64_t Answered() const {
    return chunks.empty() ? start_offset : chunks.back().end_offset;
  }
  std::uint64_t Durable() const {
    std::uint64_t offset = start_offset;
    for (const ModelChunk& chunk : chunks) {
      if (!chunk.resolved) break;
      offset = chunk.end_offset;
    }
    return offset;
  }
  bool Complete() const {
    return ended && Durable() == received_offset && Answered() == received_offset;
  }
};

Digest DigestOf(std::uint8_t value) {
  Digest digest;
  digest.bytes[value % 32] = 0xA5;
  digest.bytes[0] = value;
  return digest;
}

class World {
 public:
  World(std::uint64_t seed, bool client_cuts) : random_(seed), client_cuts_(client_cuts) {
    v1::Open open;
    open.set_repository("r");
    open.set_profile("fastcdc2020-8k");
    open.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
    open.set_store_epoch(3);
    EXPECT_TRUE(session_.Open(open).ok());
    if (client_cuts_) session_.LetClientCut();
  }

  void Step() {
    switch (random_.Below(8)) {
      case 0:
        return Begin();
      case 1:
        return Data();
      case 2:
        return End();
      case 3:
      case 4:
      case 5:
        return Answer();
      case 6:
        return Commit();
      default:
        return Stale();
    }
  }

  void CheckDrain() {
    const v1::GoAway go_away = session_.BeginDrain(1);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> expected;
    for (std::size_t index = 0; index < files_.size(); ++index) {
      const ModelFile& file = files_[index];
      if (!file.done && file.Durable() > file.start_offset) {
        expected.emplace_back(index + 1, file.Durable());
      }
    }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> told;
    for (const v1::FileProgress& progress : go_away.files()) {
      told.emplace_back(progress.file_number(), progress.durable_offset());
    }
    EXPECT_EQ(told, expected);
  }

 private:
  void Begin() {
    v1::FileBegin begin;
    begin.set_start_offset(random_.OneIn(3) ? random_.Below(1000) : 0);
    const std::size_t open_files = static_cast<std::size_t>(std::count_if(
        files_.begin(), files_.end(), [](const ModelFile& file) { return !file.done; }));
    const std::string reason = ReasonNameOf(session_.BeginFile(begin));
    if (in_file_) {
      EXPECT_EQ(reason, "FRAME_ORDER");
    } else if (open_files >= limits_.max_uncommitted_files) {
      EXPECT_EQ(reason, "TOO_MANY_UNCOMMITTED_FILES");
    } else {
      EXPECT_EQ(reason, "");
      ModelFile file;
      file.start_offset = file.received_offset = file.told_offset = begin.start_offset();
      files_.push_back(file);
      in_file_ = true;
    }
  }

  // One frame names all that it says, or nothing.
  void Digests() {
    v1::ChunkDigests named;
    bool is_good = in_file_;
    bool ends = in_file_ && files_.back().ends_with_short;
    std::uint64_t sum_bytes = 0;
    for (std::uint64_t left = random_.Below(10); left > 0; --left) {
      const std::uint32_t length_bytes = PickLength();
      is_good = is_good && !ends && length_bytes > 0 && length_bytes <= kMaxBytes;
      ends = length_bytes < kMinBytes;
      sum_bytes += length_bytes;
      named.add_lengths_bytes(length_bytes);
    }
    const auto count = static_cast<std::size_t>(named.lengths_bytes_size());
    named.set_digests(std::string(32 * count + (random_.OneIn(16) ? 1 : 0), 'd'));
    is_good = is_good && count > 0 && count <= limits_.max_commit_entries &&
              named.digests().size() == 32 * count;
    EXPECT_EQ(session_.AddDigests(named).ok(), is_good);
    if (!is_good) return;
    files_.back().received_offset += sum_bytes;
    files_.back().ends_with_short = ends;
  }

  std::uint32_t PickLength() {
    if (random_.OneIn(40)) return static_cast<std::uint32_t>(random_.Below(2) * (kMaxBytes + 1));
    if (random_.OneIn(12)) return static_cast<std::uint32_t>(random_.Below(kMinBytes));
    return static_cast<std::uint32_t>(random_.Between(kMinBytes, kMaxBytes));
  }

  void Data() {
    if (client_cuts_) return Digests();
    EXPECT_FALSE(session_.AddDigests({}).ok());
    const std::uint64_t count = random_.Below(200);
    EXPECT_EQ(session_.AddData(count).ok(), in_file_);
    if (in_file_) files_.back().received_offset += count;
  }

  void End() {
    v1::FileEnd end;
    end.set_content_hash(std::string(16, '\0'));
    end.set_size_bytes(in_file_ ? files_.back().received_offset : 0);
    EXPECT_EQ(session_.EndFile(end, ContentHash{}).ok(), in_file_);
    if (!in_file_) return;
    files_.back().ended = true;
    in_file_ = false;
    ExpectDone({files_.size() - 1});
  }

  // The first file that has data which is not answered: chunks come in stream order.
  void Answer() {
    for (std::size_t index = 0; index < files_.size(); ++index) {
      ModelFile& file = files_[index];
      const std::uint64_t open_bytes = file.received_offset - file.Answered();
      if (open_bytes == 0) continue;
      ModelChunk chunk;
      chunk.digest = static_cast<std::uint8_t>(random_.Below(kDigestCount));
      // One digest, one length.
      chunk.length_bytes = static_cast<std::uint32_t>(1 + chunk.digest) * (client_cuts_ ? 4096 : 1);
      if (chunk.length_bytes > open_bytes)
        chunk.length_bytes = static_cast<std::uint32_t>(open_bytes);
      chunk.end_offset = file.Answered() + chunk.length_bytes;
      const auto verdict = static_cast<Verdict>(random_.Between(1, 3));
      chunk.was_new = verdict != Verdict::kDuplicate;
      chunk.resolved = !chunk.was_new;
      const std::string reason = ReasonNameOf(session_.AddChunk(
          {index + 1, chunk.end_offset, chunk.length_bytes, DigestOf(chunk.digest), verdict}));
      if (chunk.was_new && PendingCount() >= limits_.max_uncommitted_chunks) {
        EXPECT_EQ(reason, "TOO_MANY_UNCOMMITTED_CHUNKS");
        return;
      }
      EXPECT_EQ(reason, "");
      file.chunks.push_back(chunk);
      EXPECT_EQ(session_.uncommitted_chunk_count(), PendingCount());
      ExpectDone({index});
      return;
    }
  }

  void Commit() {
    v1::Commit commit;
    bool known = true;
    const std::uint64_t count = random_.Below(4);
    std::vector<std::uint8_t> digests;
    for (std::uint64_t index = 0; index < count; ++index) {
      const auto value = static_cast<std::uint8_t>(random_.Below(kDigestCount));
      // Mostly those that may be committed.
      if (!Known(value) && !random_.OneIn(20)) continue;
      known = known && Known(value);
      digests.push_back(value);
      const Digest digest = DigestOf(value);
      v1::CommitEntry* entry = commit.add_entries();
      entry->set_digest(std::string(digest.bytes.begin(), digest.bytes.end()));
      entry->set_locator("l");
    }
    const auto plan = session_.PlanCommit(commit);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->others.empty(), known);
    if (!known) return;
    const v1::Committed committed = session_.ApplyCommit(commit, plan->entries.size());
    for (const std::uint8_t value : digests) {
      stale_.erase(std::remove(stale_.begin(), stale_.end(), value), stale_.end());
      for (ModelFile& file : files_) {
        for (ModelChunk& chunk : file.chunks) {
          if (chunk.digest == value && !chunk.resolved) touched_[&file] = chunk.resolved = true;
        }
      }
    }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> expected;
    std::vector<std::size_t> touched_files;
    for (std::size_t index = 0; index < files_.size(); ++index) {
      ModelFile& file = files_[index];
      if (touched_.count(&file) == 0) continue;
      touched_files.push_back(index);
      if (file.Durable() != file.told_offset) expected.emplace_back(index + 1, file.Durable());
      file.told_offset = file.Durable();
    }
    touched_.clear();
    std::vector<std::pair<std::uint64_t, std::uint64_t>> told;
    for (const v1::FileProgress& progress : committed.files()) {
      told.emplace_back(progress.file_number(), progress.durable_offset());
    }
    EXPECT_EQ(told, expected);
    EXPECT_EQ(session_.uncommitted_chunk_count(), PendingCount());
    ExpectDone(touched_files);
  }

  void Stale() {
    if (!random_.OneIn(4)) return;
    const auto value = static_cast<std::uint8_t>(random_.Below(kDigestCount));
    ASSERT_TRUE(session_.AddStale(DigestOf(value), 1).ok());
    if (std::count(stale_.begin(), stale_.end(), value) == 0) stale_.push_back(value);
  }

  bool Known(std::uint8_t value) const {
    if (std::count(stale_.begin(), stale_.end(), value) > 0) return true;
    for (const ModelFile& file : files_) {
      for (const ModelChunk& chunk : file.chunks) {
        if (chunk.digest == value && !chunk.resolved) return true;
      }
    }
    return false;
  }

  std::size_t PendingCount() const {
    std::size_t count = 0;
    for (const ModelFile& file : files_) {
      for (const ModelChunk& chunk : file.chunks) count += chunk.resolved ? 0 : 1;
    }
    return count;
  }

  // Those of `candidates` that are complete and were not before, in this order.
  void ExpectDone(const std::vector<std::size_t>& candidates) {
    std::vector<std::uint64_t> expected;
    for (const std::size_t index : candidates) {
      ModelFile& file = files_[index];
      if (file.done || !file.Complete()) continue;
      file.done = true;
      expected.push_back(index + 1);
    }
    std::vector<std::uint64_t> told;
    for (const v1::FileDone& done : session_.TakeDone()) {
      told.push_back(done.file_number());
      const ModelFile& file = files_[done.file_number() - 1];
      EXPECT_EQ(done.size_bytes(), file.received_offset);
      EXPECT_EQ(done.chunk_count(), file.chunks.size());
      std::uint64_t new_bytes = 0;
      for (const ModelChunk& chunk : file.chunks)
        new_bytes += chunk.was_new ? chunk.length_bytes : 0;
      EXPECT_EQ(done.new_bytes(), new_bytes);
    }
    EXPECT_EQ(told, expected);
  }

  // Of fastcdc2020-8k.
  static constexpr std::uint32_t kMinBytes = 2048;
  static constexpr std::uint32_t kMaxBytes = 32'768;

  Random random_;
  const bool client_cuts_;
  const SessionLimits limits_{
      .max_uncommitted_chunks = 40, .max_uncommitted_files = 12, .max_commit_entries = 8};
  Session session_{limits_};
  std::vector<ModelFile> files_;
  std::map<ModelFile*, bool> touched_;
  std::vector<std::uint8_t> stale_;
  bool in_file_ = false;
};

TEST(SessionModel, AgreesOnEveryStep) {
  Random seeds(TestSeed());
  for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
    World world(seeds.Next(), round % 3 == 2);
    for (int step = 0; step < kStepsPerRound && !testing::Test::HasFailure(); ++step) world.Step();
    world.CheckDrain();
  }
}

}  // namespace
}  // namespace kerf
