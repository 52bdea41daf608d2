#include "client/cpp/shard_key.h"

#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "kernels/fingerprint/xxh3.h"

namespace kerf::client {

std::string ShardKey(std::string_view repository, std::string_view name) {
  std::string text(repository);
  text.push_back('\0');
  text += name;
  const std::uint64_t hash =
      Xxh3Of64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  return Cat(absl::Hex(hash, absl::kZeroPad16));
}

}  // namespace kerf::client
