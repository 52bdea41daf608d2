// Any text is a profile or an error; a profile cuts any bytes as its reference does.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "kernels/chunker.h"
#include "kernels/profile.h"
#include "kernels/reference/reference.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kerf::Profile;
  // The text ends at the first line feed; the rest is cut.
  const std::span<const std::uint8_t> input(data, size);
  const std::size_t text_size =
      static_cast<std::size_t>(std::find(input.begin(), input.end(), '\n') - input.begin());
  const std::string_view text(reinterpret_cast<const char*>(data), text_size);
  const absl::StatusOr<Profile> profile = kerf::ParseProfile(text);
  if (!profile.ok()) {
    KERF_CHECK(profile.status().code() == absl::StatusCode::kInvalidArgument);
    return 0;
  }
  KERF_CHECK(*kerf::ParseProfile(kerf::FormatProfile(*profile)) == *profile);
  const std::unique_ptr<kerf::Chunker> chunker = kerf::MakeChunker(*profile);
  std::span<const std::uint8_t> bytes = input.subspan(std::min(text_size + 1, size));
  while (!bytes.empty()) {
    const std::size_t length = chunker->NextCut(bytes);
    KERF_CHECK(0 < length && length <= std::min<std::size_t>(bytes.size(), profile->max_bytes));
    KERF_CHECK(length == bytes.size() || length >= profile->min_bytes);
    KERF_CHECK(length == kerf::ReferenceNextCut(*profile, bytes));
    bytes = bytes.subspan(length);
  }
  return 0;
}
