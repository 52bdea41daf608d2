#include "kernels/rapid/run_seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/rapid/packing.h"

namespace kerf {
namespace {

using Bytes = std::span<const std::uint8_t>;
using Tag = std::array<std::uint8_t, kRunTagBytes>;

constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kEndedByEofFlag = 1;
// With its zero.
constexpr char kPurpose[] = "kerf cut run";

absl::Status Unreadable(std::string_view why) {
  return absl::DataLossError(ToAbsl(Cat("sealed run: ", why, "; it is a hint and may be dropped")));
}

void AppendText(std::string_view text, std::vector<std::uint8_t>& out) {
  rapid_packing::AppendVarint(static_cast<std::uint32_t>(text.size()), out);
  out.insert(out.end(), text.begin(), text.end());
}

Tag TagOf(const RunKey& key, std::string_view scope, const UploadProfile& profile,
          DigestAlgorithm digest_algorithm, Bytes body) {
  KERF_CHECK(scope.size() <= kMaxRunScopeBytes);
  std::vector<std::uint8_t> message(std::begin(kPurpose), std::end(kPurpose));
  AppendText(scope, message);
  AppendText(FormatUploadProfile(profile), message);
  message.push_back(static_cast<std::uint8_t>(digest_algorithm));
  message.insert(message.end(), body.begin(), body.end());
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> full;
  unsigned int full_bytes = 0;
  KERF_CHECK(HMAC(EVP_sha256(), key.bytes.data(), static_cast<int>(key.bytes.size()),
                  message.data(), message.size(), full.data(), &full_bytes) != nullptr);
  KERF_CHECK(full_bytes >= kRunTagBytes);
  Tag tag;
  std::copy_n(full.begin(), tag.size(), tag.begin());
  return tag;
}

// The chunks behind the head. Whoever holds the key wrote them; they are checked all the same.
absl::StatusOr<std::vector<RunChunk>> ReadChunks(rapid_packing::Reader& reader, std::size_t count,
                                                 std::size_t digest_bytes) {
  std::vector<RunChunk> chunks;
  chunks.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    const std::optional<std::uint32_t> length = reader.Varint();
    const std::optional<std::uint8_t> marker = reader.Byte();
    const std::optional<Bytes> digest = reader.Bytes(digest_bytes);
    if (!length || !marker || !digest) return Unreadable(Cat("cut off in chunk ", index));
    if (*length == 0 || *length > kMaxMaxBytes) {
      return Unreadable(Cat("chunk ", index, " of ", *length, " bytes, not 1 to ", kMaxMaxBytes));
    }
    RunChunk& chunk = chunks.emplace_back();
    std::ranges::copy(*digest, chunk.digest.bytes.begin());
    chunk.length_bytes = *length;
    chunk.marker = *marker;
  }
  if (!reader.empty()) return Unreadable("bytes behind its end");
  return chunks;
}

}  // namespace

std::vector<std::uint8_t> SealRun(const RunKey& key, std::string_view scope, const CutRun& run,
                                  std::optional<AcceptanceCriterion> criterion) {
  KERF_CHECK(run.Vouches(run.profile(), run.digest_algorithm()) != criterion.has_value());
  const std::size_t digest_bytes = DigestSizeBytes(run.digest_algorithm());
  std::vector<std::uint8_t> bytes = {kVersion,
                                     run.ended_by_eof() ? kEndedByEofFlag : std::uint8_t{0}};
  rapid_packing::AppendVarint(static_cast<std::uint32_t>(run.chunks().size()), bytes);
  for (const RunChunk& chunk : run.chunks()) {
    rapid_packing::AppendVarint(chunk.length_bytes, bytes);
    bytes.push_back(chunk.marker);
    const Bytes digest = Bytes(chunk.digest.bytes).first(digest_bytes);
    bytes.insert(bytes.end(), digest.begin(), digest.end());
  }
  UploadProfile profile = run.profile();
  profile.criterion = criterion;
  const Tag tag = TagOf(key, scope, profile, run.digest_algorithm(), bytes);
  bytes.insert(bytes.end(), tag.begin(), tag.end());
  return bytes;
}

absl::StatusOr<CutRun> OpenRun(const RunKey& key, std::string_view scope,
                               const UploadProfile& profile, DigestAlgorithm digest_algorithm,
                               Bytes bytes) {
  if (bytes.size() < kRunTagBytes) return Unreadable("shorter than a tag");
  const Bytes body = bytes.first(bytes.size() - kRunTagBytes);
  rapid_packing::Reader reader(body);
  const std::optional<std::uint8_t> version = reader.Byte();
  const std::optional<std::uint8_t> flags = reader.Byte();
  const std::optional<std::uint32_t> count = reader.Varint();
  if (!version || !flags || !count) return Unreadable("cut off in its head");
  if (*version != kVersion) {
    return Unreadable(Cat("version ", *version, ", this kerf reads ", int{kVersion}));
  }
  if (*flags > kEndedByEofFlag) return Unreadable(Cat("unknown flags ", *flags));
  if (*count == 0 || *count > CutRun::kMaxChunks) {
    return Unreadable(Cat(*count, " chunks, not 1 to ", CutRun::kMaxChunks));
  }
  const Tag tag = TagOf(key, scope, profile, digest_algorithm, body);
  if (CRYPTO_memcmp(tag.data(), bytes.data() + body.size(), tag.size()) != 0) {
    return Unreadable("the tag is not of this key, owner, profile and digest algorithm");
  }
  KERF_ASSIGN_OR_RETURN(std::vector<RunChunk> chunks,
                        ReadChunks(reader, *count, DigestSizeBytes(digest_algorithm)));
  const auto make = profile.criterion ? CutRun::OfHearsay : CutRun::OfExactCuts;
  return make(profile.rule, digest_algorithm, std::move(chunks), *flags == kEndedByEofFlag);
}

}  // namespace kerf
