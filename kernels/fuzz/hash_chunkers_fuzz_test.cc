// Every backend of a rule that looks at hashes cuts as the reference does. Six bytes choose the
// rule and its parameters, a seventh masks the rest, which is cut.
#include <cstdint>
#include <span>
#include <string>

#include "base/strings.h"
#include "kernels/fuzz/check_backends.h"
#include "kernels/profile.h"

namespace {

using kerf::Cat;

constexpr std::size_t kHeaderBytes = 7;
constexpr std::uint32_t kMinBytes = 64;
constexpr std::uint32_t kMinCrcMinBytes = 256;

// Chunks as small as the rules allow, so that short inputs have many, up to some that are longer
// than a block of the widest vectors (4 KiB).
std::string ProfileText(std::span<const std::uint8_t> header) {
  const std::uint32_t avg = 256u << header[1] % 7u;
  const std::uint32_t min = kMinBytes + header[2] % 193u;
  const std::uint32_t max = avg + header[3] * 16u + (header[4] & 7u);
  const std::string sizes = Cat("min=", min, ",avg=", avg, ",max=", max);
  switch (header[0] % 7) {
    case 0:
      return Cat("gear:", sizes);
    case 1:
      return Cat("fastcdc:", sizes, ",level=", header[5] % 4u);
    case 2:
      return Cat("maxcdc:min=", min, ",max=", min + header[3] * 4u);
    case 3:
      return Cat("crc:min=", kMinCrcMinBytes + header[2], ",bits=", 6u + header[1] % 8u,
                 ",max=", 2 * kMinCrcMinBytes + header[3] * 64u);
    case 4:
      return Cat("rabin:", sizes);
    case 5:
      return Cat("tttd:", sizes);
    default: {
      // All even, and masks of ten bits at least.
      const std::uint32_t level = header[5] % 4u;
      const std::uint32_t even_avg = 1024u << (level + header[1] % 4u);
      return Cat("fastcdc2020:min=", min & ~1u, ",avg=", even_avg,
                 ",max=", even_avg + header[3] * 16u + (header[4] & 6u), ",level=", level);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHeaderBytes) return 0;
  const std::span<const std::uint8_t> input(data, size);
  const kerf::Profile profile = *kerf::ParseProfile(ProfileText(input.first(kHeaderBytes)));
  kerf::CheckBackends(profile, input.subspan(kHeaderBytes), input[kHeaderBytes - 1]);
  return 0;
}
