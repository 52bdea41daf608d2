// What hints save, on a file of which more than 97 % is in chunks that were stored before.
// Fingerprints and what is known of them come from a tape, so that cutting alone is measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
#include "kernels/bench/rapid_tape.h"
#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/rapid/rapid_cutter.h"
#include "kernels/rapid/testing/memory_hints.h"

namespace kerf {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr DigestAlgorithm kDigest = DigestAlgorithm::kBlake3;
constexpr std::size_t kFileBytes = 16 << 20;
// Nearly each one spoils a chunk.
constexpr std::size_t kEdits = 20;
constexpr int kPasses = 5;

// The fastest pass.
double SecondsOf(const std::function<void()>& work) {
  double best = 1e9;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

// The chunks of a file as the runs that a worker makes of them.
void Record(const Profile& profile, const std::vector<RunChunk>& chunks, MemoryHints* hints) {
  for (std::size_t begin = 0; begin < chunks.size(); begin += 1024) {
    const std::size_t end = std::min(begin + 1024, chunks.size());
    hints->Record(std::make_shared<const CutRun>(
        CutRun::OfExactCuts(profile, kDigest,
                            {chunks.begin() + static_cast<std::ptrdiff_t>(begin),
                             chunks.begin() + static_cast<std::ptrdiff_t>(end)},
                            end == chunks.size())));
  }
}

class RapidSpeedTest : public testing::TestWithParam<const char*> {};

TEST_P(RapidSpeedTest, CuttingCostsWhatHasChanged) {
  const Profile profile = *ParseProfile(GetParam());
  const std::unique_ptr<Chunker> base = MakeChunker(profile);
  Random random(TestSeed());
  Bytes old(kFileBytes);
  random.Fill(old);
  const Bytes bytes = Edited(random, old, kEdits, 100);

  MemoryHints hints;
  Record(profile, CutPlainly(*base, kDigest, old), &hints);

  std::vector<std::size_t> ends;
  const double plain_seconds = SecondsOf([&] {
    ends.clear();
    for (std::size_t end = 0; end < bytes.size(); ends.push_back(end)) {
      end += base->NextCut(std::span(bytes).subspan(end));
    }
  });
  std::size_t known_bytes = 0;
  for (const RunChunk& chunk : CutPlainly(*base, kDigest, bytes)) {
    if (hints.Find(chunk.digest).state == Hint::State::kReady) known_bytes += chunk.length_bytes;
  }
  std::printf("%-10s plain %8.0f us, %zu chunks, %.2f %% known\n", GetParam(), plain_seconds * 1e6,
              ends.size(),
              100.0 * static_cast<double>(known_bytes) / static_cast<double>(bytes.size()));
  constexpr std::array<std::pair<const char*, std::optional<AcceptanceCriterion>>, 5> kModes = {{
      {"exact", std::nullopt},
      {"FF", AcceptanceCriterion::kFf},
      {"FF+RWT", AcceptanceCriterion::kFfRwt},
      {"FF+MT", AcceptanceCriterion::kFfMt},
      {"FF+RWT+FPT", AcceptanceCriterion::kFfRwtFpt},
  }};
  for (const auto& [name, criterion] : kModes) {
    std::vector<RapidChunk> chunks;
    RapidCounters counters;
    bench::RapidTape tape;
    const auto cut_all = [&] {
      RapidCutter cutter(base.get(), profile, {kDigest, criterion, tape.Fingerprints()}, &tape);
      chunks.clear();
      cutter.BeginFile();
      cutter.Cut(bytes, true, &chunks);
      counters = cutter.counters();
    };
    tape.BeginRecording(kDigest, &hints);
    cut_all();
    const std::vector<RapidChunk> recorded = chunks;
    const double seconds = SecondsOf([&] {
      tape.BeginReplay();
      cut_all();
    });
    EXPECT_TRUE(tape.WasReplayedWhole());
    EXPECT_EQ(chunks, recorded);
    std::printf(
        "  %-10s %8.0f us, 1/%.1f of plain, scanned %.2f %%, accepted %llu, rejected %llu\n", name,
        seconds * 1e6, plain_seconds / seconds,
        100.0 * static_cast<double>(counters.bytes_scanned) / static_cast<double>(bytes.size()),
        static_cast<unsigned long long>(counters.hints_accepted),
        static_cast<unsigned long long>(counters.hints_rejected));
    // What does not depend on the machine. An edit spoils a chunk or two; some more are scanned in
    // front of it and until a chunk is known again.
    EXPECT_LT(counters.bytes_scanned, bytes.size() / 8);
    EXPECT_TRUE(criterion || chunks.size() == ends.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, RapidSpeedTest,
                         testing::Values("rabin-8k", "crc-8k", "fastcdc-8k", "mincdc-8k"));

}  // namespace
}  // namespace kerf
