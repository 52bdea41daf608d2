#include "server/index/index.h"

#include <algorithm>
#include <tuple>

#include "base/strings.h"

namespace kerf {
namespace {

bool IsNameCharacter(char character) {
  return (character >= 'A' && character <= 'Z') || (character >= 'a' && character <= 'z') ||
         (character >= '0' && character <= '9') || character == '.' || character == '_' ||
         character == '-';
}

}  // namespace

bool RepositoryOrder::operator()(const RepositoryId& a, const RepositoryId& b) const {
  const std::size_t a_bytes = a.name.size();
  const std::size_t b_bytes = b.name.size();
  return std::tie(a_bytes, a.name, a.digest_algorithm) <
         std::tie(b_bytes, b.name, b.digest_algorithm);
}

absl::Status ValidateRepositoryName(std::string_view name) {
  if (name.empty() || name.size() > kMaxRepositoryNameBytes) {
    return absl::InvalidArgumentError(ToAbsl(Cat(
        "a repository's name has 1 to ", kMaxRepositoryNameBytes, " bytes, not ", name.size())));
  }
  // The name itself is not repeated: it may hold anything, and the message goes into logs.
  const auto* wrong = std::find_if_not(name.data(), name.data() + name.size(), IsNameCharacter);
  if (wrong != name.data() + name.size()) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat("a repository's name is made of [A-Za-z0-9._-]; its byte ",
                   wrong - name.data() + 1, " is another")));
  }
  return absl::OkStatus();
}

}  // namespace kerf
