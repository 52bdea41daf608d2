// `kerf token new`: tokens for those who do not want certificates.
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/hex.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "client/agent/verbs/verbs.h"
#include "client/store/format/durable_file.h"

namespace kerf::agent {
namespace {

constexpr char kTokenExamples[] =
    "  kerf token new nightly --output nightly.token --repository 3f2a91d05c7be6481a2b3c4d5e6f7081";
constexpr char kNewExamples[] =
    "  kerf token new nightly --output nightly.token --role gc --repository ID-OF-A-STORE\n"
    "The token is in that file alone, which is its owner's. What is printed goes into the file of\n"
    "kerfd --access: it has the token's SHA-256, of which nobody makes the token. Then\n"
    "  kerf backup DIR --server HOST:7461 --tls-ca ca.pem --token-file nightly.token";

constexpr std::size_t kMaxIdBytes = 32;
constexpr std::size_t kMaxRepositoryBytes = 64;
// Of 62 letters: 190 bits.
constexpr std::size_t kSecretBytes = 32;
constexpr std::string_view kLetters =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

struct TokenFlags {
  std::string id;
  std::string output;
  std::string role = "write";
  std::vector<std::string> repositories;
};

std::string CheckId(const std::string& id) {
  const bool is_id =
      !id.empty() && id.size() <= kMaxIdBytes &&
      id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  return is_id ? "" : "it is 1 to 32 of [a-z0-9-]";
}

std::string CheckRole(const std::string& role) {
  const bool is_role = role == "read" || role == "write" || role == "gc" || role == "admin";
  return is_role ? "" : "it is read, write, gc or admin";
}

std::string CheckRepository(const std::string& pattern) {
  std::string_view name = pattern;
  if (name.ends_with('*')) name.remove_suffix(1);
  const bool is_name =
      !pattern.empty() && name.size() <= kMaxRepositoryBytes &&
      name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
          std::string_view::npos;
  return is_name ? "" : "it is 1 to 64 of [A-Za-z0-9._-], with one * at its end at most";
}

// So that no letter is likelier than another: bytes that would make it so are drawn again.
std::string DrawSecret() {
  constexpr std::size_t kFair = 256 / kLetters.size() * kLetters.size();
  std::string secret;
  while (secret.size() < kSecretBytes) {
    unsigned char byte = 0;
    KERF_CHECK(RAND_bytes(&byte, 1) == 1);
    if (byte < kFair) secret += kLetters[byte % kLetters.size()];
  }
  return secret;
}

std::string HexHash(const std::string& text) {
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> hash{};
  SHA256(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), hash.data());
  return HexOf(hash);
}

absl::Status WriteToken(const std::string& path, const std::string& token) {
  const std::string text = token + "\n";
  // One that is there is not written over: somebody may use it.
  KERF_ASSIGN_OR_RETURN(const UniqueFd file, CreateNewFile(path));
  absl::Status status = PWriteExactly(
      file.get(), {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, 0, path);
  if (status.ok()) status = SyncFile(file.get(), path);
  if (!status.ok()) RemoveFile(path).IgnoreError();
  return status;
}

ExitCode Run(Context& context, const TokenFlags& flags) {
  const std::string token = Cat("kerf_", flags.id, "_", DrawSecret());
  if (const absl::Status status = WriteToken(flags.output, token); !status.ok()) {
    return FailWith(context, status);
  }
  std::string patterns;
  for (const std::string& repository : flags.repositories) {
    patterns += Cat(patterns.empty() ? "\"" : ", \"", repository, "\"");
  }
  const std::string hash = HexHash(token);
  const std::string stanza =
      Cat("[[identity]]\nname = \"token/", flags.id, "\"\nsha256 = \"", hash,
          "\"\n[[identity.grant]]\nrole = \"", flags.role, "\"\nrepositories = [", patterns, "]");
  context.reporter.Result(stanza);
  context.reporter.Json("summary", {{"name", Cat("token/", flags.id)},
                                    {"sha256", hash},
                                    {"token_file", flags.output},
                                    {"access", stanza}});
  return ExitCode::kOk;
}

}  // namespace

void AddTokenVerb(Context& context) {
  const Verb verb =
      AddVerb(context, "token", "Make tokens, which tell a server who asks", kTokenExamples);
  verb.RequireVerb();
  const Verb make = verb.AddVerb("new", "Make a token, and the lines that let it in", kNewExamples);
  auto flags = std::make_shared<TokenFlags>();
  make.AddOption("id", flags->id, "Who will show it: 1 to 32 of [a-z0-9-]")
      .Check(CheckId)
      .Type("ID")
      .Required();
  make.AddOption("--output", flags->output, "The file to put it into, which must not be there")
      .Check(RefuseEmpty)
      .Type("FILE")
      .Required();
  make.AddOption("--role", flags->role, "What it may do: read, write, gc or admin")
      .Check(CheckRole)
      .Type("ROLE")
      .ShowDefault();
  make.AddOption(
          "--repository", flags->repositories,
          "Where: a repository, which for a store is what `kerf stats` calls so; with a * at "
          "its end all that begin like that (repeatable)")
      .Check(CheckRepository)
      .Repeat()
      .Type("NAME")
      .Required();
  make.OnRun([&context, flags] { return Run(context, *flags); });
}

}  // namespace kerf::agent
