// Any slicing of any bytes gives the cuts of the whole. Two bytes choose the profile and the size
// of the buffer, then each slice is a length byte and what follows it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kerf::StreamChunk;
  if (size < 2) return 0;
  static const auto chunkers = [] {
    std::array<std::unique_ptr<kerf::Chunker>, kProfiles.size()> made;
    for (std::size_t index = 0; index < made.size(); ++index) {
      made[index] = kerf::MakeChunker(*kerf::ParseProfile(kProfiles[index]));
    }
    return made;
  }();
  const kerf::Chunker& chunker = *chunkers[data[0] % kProfiles.size()];
  kerf::StreamCutter cutter(chunker, 2 * chunker.max_chunk_bytes() + data[1]);

  std::vector<std::uint8_t> stream;
  std::vector<std::size_t> lengths;
  std::size_t given = 0;
  const auto drain = [&] {
    while (const std::optional<StreamChunk> chunk = cutter.Next()) {
      KERF_CHECK(chunk->offset_bytes == given);
      KERF_CHECK(std::equal(chunk->bytes.begin(), chunk->bytes.end(),
                            stream.begin() + static_cast<std::ptrdiff_t>(given)));
      given += chunk->bytes.size();
      lengths.push_back(chunk->bytes.size());
    }
  };
  Bytes input(data + 2, size - 2);
  while (!input.empty()) {
    const std::size_t want = std::min<std::size_t>(input[0] * 16u, input.size() - 1);
    const std::size_t taken = cutter.Append(input.subspan(1, want));
    KERF_CHECK((taken == 0) == (want == 0));
    stream.insert(stream.end(), input.begin() + 1,
                  input.begin() + 1 + static_cast<std::ptrdiff_t>(taken));
    input = input.subspan(1 + taken);
    drain();
  }
  cutter.Finish();
  drain();
  KERF_CHECK(given == stream.size());

  Bytes rest = stream;
  for (const std::size_t length : lengths) {
    KERF_CHECK(chunker.NextCut(rest) == length);
    rest = rest.subspan(length);
  }
  return 0;
}
