// Any slicing of any bytes gives the cuts of the whole, and chunks stay what they were until they
// are released. Two bytes choose the profile and the size of the buffer, then each slice is a
// length byte, one that says how it is appended and what follows it, and its bytes.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "kernels/profile.h"
#include "kernels/stream_cutter.h"

namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::array<const char*, 14> kProfiles = {
    "fastcdc:min=64,avg=256,max=256,level=0",
    "fastcdc:min=64,avg=256,max=1021,level=3",
    "fastcdc2020:min=64,avg=1024,max=2048,level=0",
    "fastcdc2020:min=512,avg=2048,max=4096,level=1",
    "rabin:min=64,avg=256,max=1000",
    "crc:min=256,bits=6,max=1000",
    "tttd:min=64,avg=256,max=1000",
    "ae-max:window=64,max=1000",
    "maxp:window=64,max=1000",
    "ram:window=64,max=1000",
    "seqcdc:mode=increasing,length=2,trigger=3,skip=40,min=64,max=1000",
    "mincdc:min=64,max=200",
    "gear:min=64,avg=256,max=1000",
    "maxcdc:min=64,max=200"};

// What may happen behind a slice, as bits.
constexpr std::uint8_t kGathers = 1;
constexpr std::uint8_t kReleases = 2;
constexpr std::uint8_t kParks = 4;
constexpr std::uint8_t kEndsStream = 0x18;

// A cutter, and what it must give.
class Checked {
 public:
  Checked(const kerf::Chunker& chunker, std::size_t buffer_bytes)
      : chunker_(chunker), cutter_(chunker, buffer_bytes) {}

  std::size_t Append(Bytes bytes, bool gathers) {
    std::size_t taken = 0;
    if (gathers) {
      taken = cutter_.AppendBehind(bytes);
      if (taken == 0 && !bytes.empty()) {
        Release();
        cutter_.Compact();
        taken = cutter_.AppendBehind(bytes);
      }
    } else {
      Release();
      taken = cutter_.Append(bytes);
    }
    KERF_CHECK((taken == 0) == bytes.empty());
    const Bytes own = bytes.first(taken);
    stream_.insert(stream_.end(), own.begin(), own.end());
    Drain();
    return taken;
  }

  // Nothing that was given out has changed meanwhile.
  void Release() {
    for (const kerf::StreamChunk& chunk : gathered_) {
      KERF_CHECK(std::equal(chunk.bytes.begin(), chunk.bytes.end(),
                            all_.begin() + static_cast<std::ptrdiff_t>(chunk.offset_bytes)));
    }
    gathered_.clear();
    cutter_.Release();
  }

  void Park() {
    Release();
    cutter_.Park();
    KERF_CHECK(cutter_.memory_bytes() == cutter_.pending_bytes() + cutter_.ahead_bytes());
  }

  // Its cuts are those of the whole; another one begins behind it.
  void EndStream() {
    cutter_.Finish();
    Drain();
    KERF_CHECK(given_ == stream_.size());
    Bytes rest = stream_;
    for (const std::size_t length : lengths_) {
      KERF_CHECK(chunker_.NextCut(rest) == length);
      rest = rest.subspan(length);
    }
    stream_.clear();
    lengths_.clear();
    given_ = 0;
    begin_ = all_.size();
    cutter_.Begin(begin_);
  }

 private:
  void Drain() {
    while (const std::optional<kerf::StreamChunk> chunk = cutter_.Next()) {
      KERF_CHECK(chunk->offset_bytes == begin_ + given_);
      const auto own = stream_.begin() + static_cast<std::ptrdiff_t>(given_);
      KERF_CHECK(std::equal(chunk->bytes.begin(), chunk->bytes.end(), own));
      given_ += chunk->bytes.size();
      lengths_.push_back(chunk->bytes.size());
      all_.insert(all_.end(), chunk->bytes.begin(), chunk->bytes.end());
      gathered_.push_back(*chunk);
    }
  }

  const kerf::Chunker& chunker_;
  kerf::StreamCutter cutter_;
  // Of the stream in hand.
  std::vector<std::uint8_t> stream_;
  std::vector<std::size_t> lengths_;
  std::size_t given_ = 0;
  std::uint64_t begin_ = 0;
  // The chunks of all streams, by their offsets.
  std::vector<std::uint8_t> all_;
  std::vector<kerf::StreamChunk> gathered_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static const auto chunkers = [] {
    std::array<std::unique_ptr<kerf::Chunker>, kProfiles.size()> made;
    for (std::size_t index = 0; index < made.size(); ++index) {
      made[index] = kerf::MakeChunker(*kerf::ParseProfile(kProfiles[index]));
    }
    return made;
  }();
  const kerf::Chunker& chunker = *chunkers[data[0] % kProfiles.size()];
  Checked cutter(chunker, 2 * chunker.max_chunk_bytes() + data[1]);
  Bytes input(data + 2, size - 2);
  while (input.size() >= 2) {
    const std::uint8_t next = input[1];
    const std::size_t want = std::min<std::size_t>(input[0] * 16u, input.size() - 2);
    const std::size_t taken = cutter.Append(input.subspan(2, want), (next & kGathers) != 0);
    input = input.subspan(2 + taken);
    if ((next & kEndsStream) == kEndsStream) cutter.EndStream();
    if ((next & kReleases) != 0) cutter.Release();
    if ((next & kParks) != 0) cutter.Park();
  }
  cutter.EndStream();
  cutter.Release();
  return 0;
}
