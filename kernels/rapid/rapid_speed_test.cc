// What hints save, on a file of which more than 97 % is in chunks that were stored before.
// Fingerprints are looked up by where a chunk stands, and the time that this takes is left out, so
// that cutting alone is measured.
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
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"
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
constexpr std::size_t kEdits = 40;
constexpr int kPasses = 5;

// Fingerprints of pieces of one buffer, computed when first asked for.
class KnownFingerprints {
 public:
  void operator()(std::span<const std::span<const std::uint8_t>> pieces,
                  std::span<Digest> digests) {
    const auto begin_time = std::chrono::steady_clock::now();
    for (std::size_t index = 0; index < pieces.size(); ++index) {
      const std::uint8_t* const begin = pieces[index].data();
      auto [known, is_new] = known_.try_emplace(std::pair(begin, pieces[index].size()));
      if (is_new) known->second = Fingerprint(kDigest, pieces[index]);
      digests[index] = known->second;
    }
    took_ += std::chrono::steady_clock::now() - begin_time;
  }

  // All calls since the last one of this.
  double TakeSeconds() { return std::exchange(took_, {}).count(); }

 private:
  struct PlaceHash {
    std::size_t operator()(const std::pair<const std::uint8_t*, std::size_t>& place) const {
      return reinterpret_cast<std::uintptr_t>(place.first) * 0x9E3779B97F4A7C15u + place.second;
    }
  };
  std::unordered_map<std::pair<const std::uint8_t*, std::size_t>, Digest, PlaceHash> known_;
  std::chrono::duration<double> took_{};
};

// The fastest pass. `work` returns the seconds to leave out.
double SecondsOf(const std::function<double()>& work) {
  double best = 1e9;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    const double left_out_seconds = work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() - left_out_seconds);
  }
  return best;
}

class RapidSpeedTest : public testing::TestWithParam<const char*> {};

TEST_P(RapidSpeedTest, CuttingCostsWhatHasChanged) {
  const Profile profile = *ParseProfile(GetParam());
  const std::unique_ptr<Chunker> base = MakeChunker(profile);
  Random random(TestSeed());
  Bytes old(kFileBytes);
  random.Fill(old);
  const Bytes bytes = Edited(random, old, kEdits, 100);

  const std::vector<RunChunk> old_chunks = CutPlainly(*base, kDigest, old);
  MemoryHints hints;
  for (std::size_t begin = 0; begin < old_chunks.size(); begin += 1024) {
    const std::size_t end = std::min(begin + 1024, old_chunks.size());
    hints.Record(std::make_shared<const CutRun>(
        CutRun::OfExactCuts(profile, kDigest,
                            {old_chunks.begin() + static_cast<std::ptrdiff_t>(begin),
                             old_chunks.begin() + static_cast<std::ptrdiff_t>(end)},
                            end == old_chunks.size())));
  }

  std::size_t plain_chunks = 0;
  const double plain_seconds = SecondsOf([&] {
    plain_chunks = 0;
    for (std::span<const std::uint8_t> rest = bytes; !rest.empty(); ++plain_chunks) {
      rest = rest.subspan(base->NextCut(rest));
    }
    return 0.0;
  });
  std::printf("%-10s plain %8.0f us, %zu chunks\n", GetParam(), plain_seconds * 1e6, plain_chunks);
  KnownFingerprints known;
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
    const double seconds = SecondsOf([&] {
      RapidCutter cutter(base.get(), profile, {kDigest, criterion, std::ref(known)}, &hints);
      chunks.clear();
      cutter.BeginFile();
      cutter.Cut(bytes, true, &chunks);
      counters = cutter.counters();
      return known.TakeSeconds();
    });
    std::printf(
        "  %-10s %8.0f us, 1/%.1f of plain, scanned %.2f %%, accepted %llu, rejected %llu\n", name,
        seconds * 1e6, plain_seconds / seconds,
        100.0 * static_cast<double>(counters.bytes_scanned) / static_cast<double>(bytes.size()),
        static_cast<unsigned long long>(counters.hints_accepted),
        static_cast<unsigned long long>(counters.hints_rejected));
    // What does not depend on the machine. An edit spoils a chunk or two; some more are scanned in
    // front of it and until a chunk is known again.
    EXPECT_LT(counters.bytes_scanned, bytes.size() / 8);
    EXPECT_TRUE(criterion || chunks.size() == plain_chunks);
  }
}

INSTANTIATE_TEST_SUITE_P(Profiles, RapidSpeedTest,
                         testing::Values("rabin-8k", "crc-8k", "fastcdc-8k", "mincdc-8k"));

}  // namespace
}  // namespace kerf
