// A worker with hints, and a client that uploads file after file to it and checks what it answers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/shared_budget.h"
#include "base/test_seed.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/rapid/upload_profile.h"
#include "kernels/registry.h"
#include "server/hints/hint_cache.h"
#include "server/hints/memory_segment_store.h"
#include "server/index/index.h"
#include "server/index/memory_index.h"
#include "server/index/testing/late_index.h"
#include "server/worker/buffer_pool.h"
#include "server/worker/rapid_totals.h"
#include "server/worker/stream_engine.h"
#include "server/worker/testing/engine_client.h"

namespace kerf {

struct GotChunk {
  std::uint64_t end_offset = 0;
  Digest digest;
  v1::Verdict verdict = v1::VERDICT_NEW;
};
using GotFiles = std::vector<std::vector<GotChunk>>;

// A fixture: its tests call Start first.
class HintedWorld : public testing::Test {
 protected:
  static constexpr std::size_t kCutBufferBytes = 64 * 1024;
  static constexpr std::size_t kStoreBytes = 16u << 20;
  static constexpr std::size_t kMaxEntries = 1000;

  // A stream's cut buffer has `cut_buffer_bytes`; an index that is late answers from another
  // thread, some time.
  void Start(std::string profile, bool is_late, std::size_t cut_buffer_bytes = kCutBufferBytes) {
    profile_ = std::move(profile);
    context_.index = index_.get();
    if (is_late) {
      late_index_.emplace(index_.get(), random_.Next());
      context_.index = &*late_index_;
    }
    buffers_.emplace(cut_buffer_bytes, 1);
    context_.pool = &*pool_;
    context_.input_budget = &input_budget_;
    context_.work_budget = &work_budget_;
    context_.buffers = &*buffers_;
    context_.max_cut_buffer_bytes = cut_buffer_bytes;
    context_.rapid_totals = &totals_;
    context_.asks_ahead = true;
    // A verdict that is old is asked for anew. None is, however busy the machine may be.
    context_.now = [now = std::chrono::steady_clock::now()] { return now; };
    Follow(store_.get());
  }
  void TearDown() override {
    if (late_index_.has_value()) late_index_->Close();
    pool_.reset();
    late_index_.reset();
    EXPECT_EQ(work_budget_.used_bytes(), 0u);
  }

  // A worker that knows nothing yet, with this store.
  void Follow(SegmentStore* store) {
    HintCacheOptions options;
    options.key = key_;
    context_.hints = HintCache::Create(std::move(options), store);
  }

  std::string RandomBytes(std::size_t size_bytes) {
    std::string bytes(size_bytes, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
    return bytes;
  }

  // Another version of the content.
  void Edit(std::string& content) {
    for (std::uint64_t edit = random_.Below(8); edit > 0; --edit) {
      const std::size_t at = random_.Below(content.size());
      const std::size_t count = random_.Between(1, random_.OneIn(4) ? 20'000 : 100);
      switch (random_.Below(4)) {
        case 0:
          content.insert(at, RandomBytes(count));
          break;
        case 1:
          content.erase(at, std::min(count, content.size() - 1));
          break;
        case 2:
          content.replace(at, std::min(count, content.size() - at), RandomBytes(count));
          break;
        default:
          // A part once more.
          content.insert(random_.Below(content.size()), content.substr(at, 5 * count));
      }
    }
  }

  // Uploads and commits everything, and checks it against what is committed, and its cuts: they are
  // the chunker's, or, with a criterion, within the rule's bounds.
  void Upload(const std::vector<std::string>& contents) {
    std::vector<File> files(contents.size());
    for (std::size_t index = 0; index < files.size(); ++index)
      files[index].content = contents[index];
    const auto sink = std::make_shared<HeldSink>();
    const auto engine = StreamEngine::Create(&context_, "session", sink);
    const v1::Open open = OpenOf(profile_, v1::DIGEST_ALGORITHM_BLAKE3);
    for (v1::UploadRequest& message : MakeMessages(random_, files, open)) {
      engine->Push(std::make_unique<RequestSource>(std::move(message)));
      if (random_.OneIn(4) && sink->Take()) engine->AnswersTaken();
    }
    GotFiles got = ChunksOf(*sink, contents.size());
    const auto is_answered = [&] {
      if (sink->Take()) {
        engine->AnswersTaken();
        got = ChunksOf(*sink, contents.size());
      }
      for (std::size_t index = 0; index < contents.size(); ++index) {
        const std::uint64_t end = got[index].empty() ? 0 : got[index].back().end_offset;
        if (end < contents[index].size()) return false;
      }
      return true;
    };
    while (!is_answered()) {
      ASSERT_FALSE(sink->final_status().has_value()) << *sink->final_status();
      sink->Pause();
    }
    Check(contents, got);
    for (v1::UploadRequest& commit : CommitsOf(got)) {
      engine->Push(std::make_unique<RequestSource>(std::move(commit)));
    }
    engine->HalfClose();
    while (!sink->final_status().has_value()) {
      if (sink->Take()) engine->AnswersTaken();
      sink->Pause();
    }
    ASSERT_TRUE(sink->final_status()->ok()) << *sink->final_status();
    // It counts what it has cut when it goes, and then gives its memory back.
    while (context_.work_budget->used_bytes() > 0) std::this_thread::yield();
  }

  static GotFiles ChunksOf(const HeldSink& sink, std::size_t file_count) {
    GotFiles got(file_count);
    for (const v1::UploadAnswer& answer : sink.taken().answers()) {
      for (const v1::Chunk& chunk : answer.chunks().chunks()) {
        GotChunk& own = got[answer.chunks().file_number() - 1].emplace_back();
        own.end_offset = chunk.end_offset();
        std::copy(chunk.digest().begin(), chunk.digest().end(), own.digest.bytes.begin());
        own.verdict = chunk.verdict();
      }
    }
    return got;
  }

  void Check(const std::vector<std::string>& contents, const GotFiles& got) {
    const UploadProfile profile = *ParseUploadProfile(profile_);
    const auto chunker = MakeChunker(profile.rule);
    for (std::size_t file = 0; file < contents.size(); ++file) {
      std::size_t position = 0;
      for (const GotChunk& chunk : got[file]) {
        const Bytes rest = AsBytes(contents[file]).subspan(position);
        std::size_t length = chunker->NextCut(rest);
        if (profile.criterion) {
          ASSERT_GT(chunk.end_offset, position);
          if (chunk.end_offset - position != length) ++odd_cut_count_;
          length = chunk.end_offset - position;
          ASSERT_LE(length, std::min<std::size_t>(profile.rule.max_bytes, rest.size()));
          ASSERT_GE(length, std::min<std::size_t>(profile.rule.min_bytes, rest.size()));
        }
        position += length;
        ASSERT_EQ(chunk.end_offset, position) << "file " << file;
        ASSERT_EQ(chunk.digest, Fingerprint(DigestAlgorithm::kBlake3, rest.first(length)));
        ASSERT_EQ(chunk.verdict,
                  committed_.contains(chunk.digest.bytes) ? v1::VERDICT_DUPLICATE : v1::VERDICT_NEW)
            << "file " << file << " at " << position;
      }
      ASSERT_EQ(position, contents[file].size());
    }
  }

  std::vector<v1::UploadRequest> CommitsOf(const GotFiles& got) {
    std::vector<v1::UploadRequest> commits;
    for (const auto& chunks : got) {
      for (const GotChunk& chunk : chunks) {
        if (!committed_.insert(chunk.digest.bytes).second) continue;
        if (commits.empty() ||
            commits.back().frames(0).commit().entries_size() == static_cast<int>(kMaxEntries)) {
          commits.emplace_back().add_frames()->mutable_commit();
        }
        v1::CommitEntry& entry = *commits.back().mutable_frames(0)->mutable_commit()->add_entries();
        entry.set_digest(chunk.digest.bytes.data(), chunk.digest.bytes.size());
        entry.set_locator("pack");
      }
    }
    return commits;
  }

  Random random_{TestSeed()};
  std::string profile_;
  RunKey key_{};
  std::unique_ptr<SegmentStore> store_ = CreateMemorySegmentStore(kStoreBytes);
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::optional<LateIndex> late_index_;
  SharedBudget input_budget_{64u << 20};
  MemoryBudget work_budget_{64u << 20};
  std::optional<BufferPool> buffers_;
  std::optional<ThreadPool> pool_{std::in_place, 2};
  RapidTotals totals_;
  EngineContext context_;
  std::set<decltype(Digest::bytes)> committed_;
  // Cuts that the rule alone would not have made.
  std::size_t odd_cut_count_ = 0;
};

}  // namespace kerf
