// What is remembered behind a cut changes no cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/reference/reference.h"
#include "kernels/registry.h"
#include "kernels/stream_cutter.h"

namespace kerf {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Runs, ramps, a few values, random bytes and copies of what was there, one after the other: what
// makes cuts lie close together for a while, and then not.
Bytes MixedBytes(Random& random, std::size_t size) {
  Bytes bytes;
  while (bytes.size() < size) {
    const std::size_t length = std::size_t{1} << random.Between(3, 14);
    const std::size_t kind = random.Below(5);
    const auto base = static_cast<std::uint8_t>(random.Next());
    const std::uint64_t step = random.Between(1, 200);
    const std::size_t begin = bytes.size();
    for (std::size_t index = 0; index < length; ++index) {
      switch (kind) {
        case 0:
          bytes.push_back(base);
          break;
        case 1:
          bytes.push_back(static_cast<std::uint8_t>(base + index / step));
          break;
        case 2:
          bytes.push_back(static_cast<std::uint8_t>(base + random.Below(2)));
          break;
        case 3:
          bytes.push_back(static_cast<std::uint8_t>(random.Next()));
          break;
        default:
          bytes.push_back(begin > step ? bytes[bytes.size() - step] : base);
      }
    }
  }
  bytes.resize(size);
  return bytes;
}

Profile RandomProfile(Random& random) {
  const std::uint64_t kind = random.Below(5);
  const std::uint64_t min = random.OneIn(2) ? 64 : random.Between(64, 300);
  const std::uint64_t max =
      random.OneIn(4) ? random.Between(16 * min, 20 * min) : random.Between(16 * min, 40'000);
  if (kind == 2) {
    const std::uint64_t avg = std::uint64_t{256} << random.Below(5);
    const std::uint64_t most = std::max(avg, max);
    return *ParseProfile(Cat("tttd:min=", std::min(min, avg), ",avg=", avg, ",max=", most));
  }
  if (kind == 3) {
    const std::uint64_t avg = std::uint64_t{256} << random.Below(5);
    return *ParseProfile(
        Cat("rabin:min=", std::min(min, avg), ",avg=", avg, ",max=", std::max(avg, max)));
  }
  if (kind == 4) {
    return *ParseProfile(Cat("crc:min=", 256 + random.Below(100), ",bits=", random.Between(6, 10),
                             ",max=", std::max<std::uint64_t>(max, 400)));
  }
  return *ParseProfile(Cat(kind == 0 ? "mincdc" : "maxcdc", ":min=", min, ",max=", max));
}

// Cuts `bytes` in slices and holds each cut to the specification.
void CheckStream(const Chunker& chunker, const Profile& profile, const Bytes& bytes,
                 Random& random) {
  StreamCutter cutter(chunker, 2 * chunker.max_chunk_bytes() + random.Below(100'000));
  std::size_t done = 0;
  const auto drain = [&] {
    while (const std::optional<StreamChunk> chunk = cutter.Next()) {
      const std::size_t expected = ReferenceNextCut(profile, std::span(bytes).subspan(done));
      ASSERT_EQ(chunk->bytes.size(), expected) << FormatProfile(profile) << " at " << done;
      done += expected;
      // A cut that somebody else made, as a hint or a GPU does.
      if (random.OneIn(200) && cutter.pending_bytes() > 0) {
        done += cutter.Take(random.Between(1, std::min<std::size_t>(cutter.pending_bytes(), 5000)))
                    .bytes.size();
      }
    }
  };
  for (std::size_t position = 0; position < bytes.size();) {
    const std::size_t slice = random.Between(1, random.OneIn(3) ? 100 : 30'000);
    const std::span rest = std::span(bytes).subspan(position);
    position += cutter.Append(rest.first(std::min(slice, rest.size())));
    ASSERT_NO_FATAL_FAILURE(drain());
  }
  cutter.Finish();
  ASSERT_NO_FATAL_FAILURE(drain());
  ASSERT_EQ(done, bytes.size());
}

// Profiles, bytes and backends that are drawn.
template <typename Check>
void CheckRounds(const Check& check) {
  const std::uint64_t seed = TestSeed();
  for (std::uint64_t round = 0; round < 60; ++round) {
    Random random(seed + round);
    const Profile profile = RandomProfile(random);
    const Bytes bytes = MixedBytes(random, random.Between(1, 120'000));
    const std::vector<std::string_view> backends = BackendsFor(profile);
    const std::string_view backend = backends[random.Below(backends.size())];
    const std::unique_ptr<Chunker> chunker = *MakeChunkerOf(backend, profile);
    ASSERT_NO_FATAL_FAILURE(check(*chunker, profile, bytes, random))
        << "round " << round << ", " << backend;
  }
}

TEST(CutAheadTest, CutsAreThoseOfTheSpecification) { CheckRounds(CheckStream); }

TEST(CutAheadTest, CutsOfRunsAreThoseOfTheSpecification) {
  Random random(TestSeed());
  for (const char* const text : {"mincdc:min=64,max=9000", "maxcdc:min=64,max=9000",
                                 "tttd:min=64,avg=256,max=9000", "tttd:min=64,avg=4096,max=9000",
                                 "rabin:min=64,avg=256,max=9000", "crc:min=256,bits=6,max=9000"}) {
    const Profile profile = *ParseProfile(text);
    const std::unique_ptr<Chunker> chunker = MakeChunker(profile);
    for (std::size_t byte = 0; byte < 256; byte += random.Between(1, 32)) {
      const Bytes bytes(random.Between(20'000, 40'000), static_cast<std::uint8_t>(byte));
      ASSERT_NO_FATAL_FAILURE(CheckStream(*chunker, profile, bytes, random)) << byte;
    }
  }
}

// As RapidCutter does: it asks once to try what a hint predicts, and once more for the cut; and
// what is cut off need not be what was answered.
void CheckAsked(const Chunker& chunker, const Profile& profile, const Bytes& bytes,
                Random& random) {
  const std::unique_ptr<CutAhead> ahead = chunker.MakeAhead();
  if (ahead == nullptr) return;
  const std::uint64_t foreign_one_in = random.Between(2, 50);
  for (std::size_t done = 0; done < bytes.size();) {
    const std::span<const std::uint8_t> rest = std::span(bytes).subspan(done);
    const std::size_t seen = random.OneIn(2)
                                 ? rest.size()
                                 : std::min(rest.size(), profile.max_bytes + random.Below(3000));
    const std::size_t expected = ReferenceNextCut(profile, rest);
    for (std::uint64_t times = random.Below(4); times > 0; --times) {
      ASSERT_EQ(ahead->NextCut(rest.first(seen)), expected)
          << FormatProfile(profile) << " at " << done;
      if (random.OneIn(3)) ahead->Charge(std::min<std::size_t>(seen, profile.max_bytes), expected);
    }
    const std::size_t passed = random.OneIn(foreign_one_in)
                                   ? random.Between(1, std::min<std::size_t>(rest.size(), 2000))
                                   : expected;
    ahead->Pass(passed);
    done += passed;
  }
}

TEST(CutAheadTest, AskingAgainAndPassingAnotherLengthChangesNothing) { CheckRounds(CheckAsked); }

TEST(CutAheadTest, AnotherFileBeginsWithoutWhatWasSeenOfTheLast) {
  const std::uint64_t seed = TestSeed();
  const Profile profile = *ParseProfile("mincdc:min=64,max=20000");
  const std::unique_ptr<Chunker> chunker = MakeChunker(profile);
  StreamCutter cutter(*chunker);
  Random random(seed);
  for (int file = 0; file < 30; ++file) {
    const Bytes bytes = MixedBytes(random, random.Between(1, 60'000));
    cutter.Reset();
    ASSERT_EQ(cutter.Append(bytes), bytes.size());
    if (!random.OneIn(3)) cutter.Finish();
    std::size_t done = 0;
    while (const std::optional<StreamChunk> chunk = cutter.Next()) {
      ASSERT_EQ(chunk->bytes.size(), ReferenceNextCut(profile, std::span(bytes).subspan(done)));
      done += chunk->bytes.size();
    }
  }
}

}  // namespace
}  // namespace kerf
