// Every backend of a rule that compares bytes cuts as the reference does. Eight bytes choose the
// rule and its parameters, the rest is cut; bytes that are few and repeated come from a ninth,
// which masks the rest.
#include <cstdint>
#include <span>
#include <string>

#include "base/strings.h"
#include "kernels/fuzz/check_backends.h"
#include "kernels/profile.h"

namespace {

using kerf::Cat;

constexpr std::size_t kHeaderBytes = 9;
constexpr std::uint32_t kMinWindowBytes = 64;

// Windows of 64 to 575 bytes and little room above them, so that short inputs have many chunks.
std::string ProfileText(std::span<const std::uint8_t> header) {
  const std::uint32_t window = kMinWindowBytes + header[1] * 2u + (header[2] & 1u);
  const std::uint32_t room = header[3] * 8u + (header[2] >> 1);
  switch (header[0] % 8) {
    case 0:
      return Cat("ae-max:window=", window, ",max=", window + 1 + room);
    case 1:
      return Cat("ae-min:window=", window, ",max=", window + 1 + room);
    case 2:
      return Cat("maxp:window=", window, ",max=", 2 * window + 1 + room);
    case 3:
      return Cat("ram:window=", window, ",max=", window + 1 + room);
    case 4:
      return Cat("mincdc:min=", window, ",max=", window + room);
    case 7:
      return Cat("maxp-local:window=", window, ",max=", 2 * window + 1 + room);
    default:
      return Cat("seqcdc:mode=", header[0] % 8 == 5 ? "increasing" : "decreasing",
                 ",length=", 1u + header[4] % 96u, ",trigger=", 1u + header[5],
                 ",skip=", header[6] * 2u + (header[7] & 1u), ",min=", window,
                 ",max=", window + room);
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
