// Packed hints of any bytes are read as written or refused, and exact mode cuts as the base
// whatever is said of chunks by one who cannot seal. Three bytes choose the profile, what is lied
// and the slicing; then four bytes at a time make the new file from pieces of an old one.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/rapid/rapid_cutter.h"
#include "kernels/rapid/run_seal.h"
#include "kernels/rapid/size_list.h"
#include "kernels/rapid/testing/memory_hints.h"
#include "kernels/rapid/testing/small_profiles.h"

namespace {

using Bytes = std::vector<std::uint8_t>;
using kerf::CutRun;
using kerf::Hint;
using kerf::RunChunk;

constexpr kerf::DigestAlgorithm kDigest = kerf::DigestAlgorithm::kBlake3;
constexpr std::size_t kOldBytes = 6000;
constexpr std::size_t kMaxNewBytes = 20000;

struct Case {
  kerf::Profile profile;
  std::unique_ptr<kerf::Chunker> base;
};

const Case& CaseOf(std::uint8_t choice) {
  static const auto cases = [] {
    std::array<Case, kerf::kSmallProfiles.size()> made;
    for (std::size_t index = 0; index < made.size(); ++index) {
      made[index].profile = *kerf::ParseProfile(kerf::kSmallProfiles[index]);
      made[index].base = kerf::MakeChunker(made[index].profile);
    }
    return made;
  }();
  return cases[choice % cases.size()];
}

// Pieces of the old file, or runs of one byte.
Bytes MakeNew(const Bytes& old, std::span<const std::uint8_t> script) {
  Bytes bytes;
  for (; script.size() >= 4 && bytes.size() < kMaxNewBytes; script = script.subspan(4)) {
    const std::size_t begin = (script[0] | script[1] << 8) % old.size();
    const std::size_t count = std::min<std::size_t>(script[2] * 16u, old.size() - begin);
    if (script[3] % 4 == 0) {
      bytes.insert(bytes.end(), script[2], script[3]);
    } else {
      bytes.insert(bytes.end(), old.begin() + static_cast<std::ptrdiff_t>(begin),
                   old.begin() + static_cast<std::ptrdiff_t>(begin + count));
    }
  }
  return bytes;
}

// Truth, and lies of all kinds but a false seal.
void Tell(const Case& with, const Bytes& old, std::uint8_t lies, kerf::MemoryHints& hints) {
  kerf::Random random(lies);
  std::vector<RunChunk> chunks = kerf::CutPlainly(*with.base, kDigest, old);
  const auto truth =
      std::make_shared<const CutRun>(CutRun::OfExactCuts(with.profile, kDigest, chunks, true));
  hints.Record(truth);
  if (lies == 0) return;
  for (RunChunk& chunk : chunks) {
    if (random.OneIn(4)) chunk.length_bytes = static_cast<std::uint32_t>(random.Between(1, 2000));
  }
  const auto lie = std::make_shared<const CutRun>(
      CutRun::OfHearsay(with.profile, kDigest, chunks, random.OneIn(2)));
  for (const RunChunk& chunk : truth->chunks()) {
    Hint& hint = hints.At(chunk.digest);
    hint.state = Hint::State::kReady;
    if (random.OneIn(4)) hint.run = lie;
    if (random.OneIn(4)) hint.next_index = random.Below(chunks.size() + 2);
    if (random.OneIn(2)) {
      hint.next_sizes.Hit({static_cast<std::uint32_t>(random.Between(1, 2000)), 0},
                          kerf::SizeList::kMaxSizes);
    }
  }
}

void CheckExactMode(const Case& with, const Bytes& bytes, std::uint8_t slicing,
                    kerf::MemoryHints& hints) {
  kerf::RapidCutter cutter(with.base.get(), with.profile, {kDigest, std::nullopt, {}}, &hints);
  cutter.BeginFile();
  kerf::Random random(slicing);
  std::vector<kerf::RapidChunk> chunks;
  std::size_t done = 0;
  for (std::size_t visible = 0; visible < bytes.size();) {
    visible = std::min<std::size_t>(visible + random.Between(1, 4000), bytes.size());
    done +=
        cutter.Cut(std::span(bytes).first(visible).subspan(done), visible == bytes.size(), &chunks);
  }
  KERF_CHECK(done == bytes.size());
  const std::vector<RunChunk> plain = kerf::CutPlainly(*with.base, kDigest, bytes);
  KERF_CHECK(
      std::ranges::equal(plain, chunks, [](const RunChunk& left, const kerf::RapidChunk& right) {
        return left.length_bytes == right.length_bytes && left.digest == right.digest;
      }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> input(data, size);
  const absl::StatusOr<kerf::SizeList> list = kerf::SizeList::Unpack(input);
  KERF_CHECK(!list.ok() || std::ranges::equal(list->Pack(), input));
  if (size < 3) return 0;
  const Case& with = CaseOf(data[0]);
  KERF_CHECK(!kerf::OpenRun({}, "fuzz", with.profile, kDigest, input).ok());

  Bytes old(kOldBytes);
  kerf::Random(data[0]).Fill(old);
  // Few values: extrema tie.
  if (data[1] % 2 == 1) {
    for (std::uint8_t& byte : old) byte = static_cast<std::uint8_t>(byte % 5 * 63);
  }
  kerf::MemoryHints hints;
  Tell(with, old, data[1] / 2, hints);
  CheckExactMode(with, MakeNew(old, input.subspan(3)), data[2], hints);
  return 0;
}
