// Whose hints: what was learned in one place is of no use in another one.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kernels/fingerprint/digest.h"
#include "kernels/rapid/upload_profile.h"
#include "server/index/index.h"

namespace kerf {

// A repository, its digest algorithm, and the profile that its files are cut by, criterion
// included: files that are cut otherwise know nothing of each other. Immutable.
class HintScope {
 public:
  using Id = std::array<std::uint8_t, 16>;

  HintScope(RepositoryId repository, const UploadProfile& profile);

  const std::string& repository() const { return repository_.name; }
  DigestAlgorithm digest_algorithm() const { return repository_.digest_algorithm; }
  const Profile& profile() const { return profile_.rule; }
  const UploadProfile& upload_profile() const { return profile_; }
  // Differs between any two scopes.
  const Id& id() const { return id_; }
  // Exact cuts can be concluded from its digests (kernels/rapid/cut_run.h): not from XXH3. Where
  // they cannot, nothing is recorded and nothing is found.
  bool is_useful() const { return digest_algorithm() != DigestAlgorithm::kXxh3_128; }

 private:
  const RepositoryId repository_;
  const UploadProfile profile_;
  const Id id_;
};

}  // namespace kerf
