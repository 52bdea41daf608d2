#include "server/hints/scope.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace kerf {
namespace {

HintScope::Id IdOf(const RepositoryId& repository, const UploadProfile& profile) {
  // None of the parts has a line break in it.
  const std::string text =
      Cat("kerf hints\n", repository.name, "\n", DigestAlgorithmName(repository.digest_algorithm),
          "\n", FormatUploadProfile(profile), "\n");
  const Digest digest = Fingerprint(
      DigestAlgorithm::kSha256, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  HintScope::Id id;
  std::copy_n(digest.bytes.begin(), id.size(), id.begin());
  return id;
}

}  // namespace

HintScope::HintScope(RepositoryId repository, const UploadProfile& profile)
    : repository_(std::move(repository)), profile_(profile), id_(IdOf(repository_, profile_)) {}

}  // namespace kerf
