#include "client/c/client.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "base/rpc/library_logs.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/agent/backup/lane.h"
#include "client/c/error.h"
#include "client/c/options.h"
#include "client/cpp/channel.h"
#include "client/cpp/token_file.h"
#include "client/store/index/readable_index.h"

namespace kerf::c {
namespace {

constexpr std::size_t kMaxRepositoryCharacters = 64;
constexpr std::size_t kMaxDigestBytes = 32;

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

absl::Status BadArgument(const absl::Status& why, std::string_view what) {
  return ErrorOf(KERF_BAD_ARGUMENT, Cat(what, ": ", MessageOf(why)));
}

// As servers hold it to (docs/spec/protocol.md, Open).
absl::Status CheckRepository(const char* name) {
  const std::string_view text = name == nullptr ? std::string_view() : name;
  const bool is_one = !text.empty() && text.size() <= kMaxRepositoryCharacters &&
                      std::all_of(text.begin(), text.end(), [](unsigned char c) {
                        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                               (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                      });
  if (is_one) return absl::OkStatus();
  return ErrorOf(KERF_BAD_ARGUMENT, "repository: it is 1 to 64 of [A-Za-z0-9._-]");
}

absl::StatusOr<client::TlsChoice> TlsOf(const kerf_client_options& options) {
  const TlsFiles files{.certificate = TextOf(options.certificate_file),
                       .key = TextOf(options.key_file),
                       .ca = TextOf(options.ca_file)};
  const std::string name = TextOf(options.tls_name);
  client::TlsChoice tls;
  const bool is_tls = options.use_tls != 0 || !files.certificate.empty() || !files.key.empty() ||
                      !files.ca.empty() || !name.empty();
  if (is_tls) {
    auto made = client::TlsChoice::Make(files, name);
    if (!made.ok()) return BadArgument(made.status(), "TLS");
    tls = *std::move(made);
  }
  if (options.token_file == nullptr) return tls;
  auto token = client::TokenFile::Open(options.token_file);
  if (!token.ok()) return BadArgument(token.status(), "token_file");
  return tls.WithToken(*std::move(token));
}

std::chrono::milliseconds OrElse(std::uint32_t given_ms, std::chrono::milliseconds otherwise) {
  return given_ms == 0 ? otherwise : std::chrono::milliseconds(given_ms);
}

// gRPC writes lines of its own to standard error, which is the program's: from here on it says
// nothing.
void KeepLibrariesQuiet() {
  static const bool are_quiet = (LibraryLogs([](const LibraryLine&) {}), true);
  static_cast<void>(are_quiet);
}

kerf_verdict VerdictOf(agent::IndexVerdict verdict) {
  switch (verdict) {
    case agent::IndexVerdict::kDuplicate:
      return KERF_DUPLICATE;
    case agent::IndexVerdict::kUnverified:
      return KERF_UNVERIFIED;
    case agent::IndexVerdict::kNew:
      break;
  }
  return KERF_NEW;
}

}  // namespace

absl::StatusOr<std::unique_ptr<client::ServerIndex>> Reach::OpenIndex(
    std::chrono::milliseconds patience, client::CallCancellation* cancellation) const {
  std::string text;
  for (const std::string& server : servers) text += (text.empty() ? "" : ",") + server;
  KERF_ASSIGN_OR_RETURN(auto channels, client::OpenChannels({text, tls}, cancellation));
  client::CallOptions options;
  options.cancellation = cancellation;
  options.patience = patience;
  return std::make_unique<client::ServerIndex>(channels, repository, digest_algorithm, options);
}

absl::StatusOr<DigestAlgorithm> AlgorithmOf(kerf_digest digest) {
  switch (static_cast<int>(digest)) {
    case KERF_DIGEST_DEFAULT:
    case KERF_BLAKE3:
      return DigestAlgorithm::kBlake3;
    case KERF_SHA256:
      return DigestAlgorithm::kSha256;
    case KERF_XXH3_128:
      return DigestAlgorithm::kXxh3_128;
    default:
      return ErrorOf(KERF_BAD_ARGUMENT, Cat("digest: there is none ", static_cast<int>(digest)));
  }
}

absl::StatusOr<agent::StoredChunk> ReadEntry(const kerf_entry& entry,
                                             std::size_t digest_size_bytes) {
  if (entry.digest == nullptr) return ErrorOf(KERF_BAD_ARGUMENT, "an entry without digest");
  if (entry.locator == nullptr || entry.locator_size == 0 ||
      entry.locator_size > KERF_MAX_LOCATOR_SIZE) {
    return ErrorOf(KERF_BAD_ARGUMENT,
                   Cat("a locator of ", entry.locator == nullptr ? 0 : entry.locator_size,
                       " bytes; it has 1 to ", KERF_MAX_LOCATOR_SIZE));
  }
  // COL-10: there is no such chunk.
  if (entry.length == 0) return ErrorOf(KERF_BAD_ARGUMENT, "an entry of a chunk without bytes");
  agent::StoredChunk chunk;
  std::memcpy(chunk.digest.bytes.data(), entry.digest, digest_size_bytes);
  chunk.length_bytes = entry.length;
  chunk.locator.assign(reinterpret_cast<const char*>(entry.locator), entry.locator_size);
  return chunk;
}

absl::StatusOr<std::vector<agent::StoredChunk>> ReadEntries(const kerf_entry* entries,
                                                            std::size_t count,
                                                            std::size_t digest_size_bytes) {
  if (entries == nullptr && count > 0) return ErrorOf(KERF_BAD_ARGUMENT, "entries is NULL");
  std::vector<agent::StoredChunk> chunks;
  for (std::size_t index = 0; index < count; ++index) {
    KERF_ASSIGN_OR_RETURN(agent::StoredChunk chunk, ReadEntry(entries[index], digest_size_bytes));
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

absl::StatusOr<std::unique_ptr<Client>> Client::Open(const kerf_client_options* given) {
  constexpr std::size_t kFirstBytes = sizeof(kerf_client_options);
  KERF_ASSIGN_OR_RETURN(const kerf_client_options options,
                        ReadStruct(given, kFirstBytes, "kerf_client_options"));
  Reach reach;
  const std::string_view servers =
      options.servers == nullptr ? client::kDefaultServer : options.servers;
  auto parsed = client::ParseServers(servers);
  if (!parsed.ok()) return BadArgument(parsed.status(), "servers");
  reach.servers = *std::move(parsed);
  KERF_RETURN_IF_ERROR(CheckRepository(options.repository));
  reach.repository = options.repository;
  KERF_ASSIGN_OR_RETURN(reach.digest_algorithm, AlgorithmOf(options.digest));
  KERF_ASSIGN_OR_RETURN(reach.tls, TlsOf(options));
  reach.retry_for = OrElse(options.retry_for_ms, limits::kRetryFor);
  reach.silence = OrElse(options.silence_ms, agent::kAnswerLimit);
  reach.is_direct = options.is_direct != 0;
  reach.shares_memory = options.no_shared_memory == 0;
  KeepLibrariesQuiet();
  return std::unique_ptr<Client>(new Client(std::move(reach)));
}

// Cancelled, where nobody has cancelled, is a connection that broke.
absl::Status Client::AsOwn(const absl::Status& status) const {
  if (status.ok() || !cancellation_.cancelled()) return status;
  return ErrorOf(KERF_CANCELLED, "the client was cancelled");
}

absl::Status Client::OpenIndexLocked() {
  if (cancellation_.cancelled()) return AsOwn(absl::CancelledError(""));
  if (index_ != nullptr) return absl::OkStatus();
  KERF_ASSIGN_OR_RETURN(index_, reach_.OpenIndex(reach_.retry_for, &cancellation_));
  return absl::OkStatus();
}

absl::Status Client::LookupBatch(std::uint64_t epoch, std::span<const Digest> digests,
                                 kerf_lookup_answer* answers, std::uint64_t& index_epoch) {
  KERF_ASSIGN_OR_RETURN(const std::vector<agent::IndexAnswer> found,
                        index_->Lookup(epoch, digests));
  index_epoch = std::max(index_epoch, index_->looked_up_epoch());
  for (const agent::IndexAnswer& answer : found) {
    kerf_lookup_answer& out = *answers++;
    // NOLINTNEXTLINE(bugprone-invalid-enum-default-initialization): set in the next line.
    out = {};
    out.verdict = VerdictOf(answer.verdict);
    if (out.verdict == KERF_NEW) continue;
    if (answer.locator.size() > KERF_MAX_LOCATOR_SIZE) {
      return ErrorOf(KERF_DISAGREEMENT,
                     Cat("the server has answered a locator of ", answer.locator.size(), " bytes"));
    }
    out.length = answer.length_bytes;
    out.locator_size = static_cast<std::uint32_t>(answer.locator.size());
    std::memcpy(out.locator, answer.locator.data(), answer.locator.size());
  }
  return absl::OkStatus();
}

absl::Status Client::Lookup(std::uint64_t epoch, const std::uint8_t* digests, std::size_t count,
                            kerf_lookup_answer* answers, std::uint64_t* index_epoch) {
  if (epoch == 0) return ErrorOf(KERF_BAD_ARGUMENT, "store_epoch: a store's first epoch is 1");
  if (count > 0 && digests == nullptr) return ErrorOf(KERF_BAD_ARGUMENT, "digests is NULL");
  if (count > 0 && answers == nullptr) return ErrorOf(KERF_BAD_ARGUMENT, "answers is NULL");
  const std::size_t size_bytes = reach_.digest_size_bytes();
  if (count > SIZE_MAX / kMaxDigestBytes) {
    return ErrorOf(KERF_BAD_ARGUMENT, Cat("count: no memory holds ", count, " digests"));
  }
  const std::lock_guard lock(mutex_);
  KERF_RETURN_IF_ERROR(OpenIndexLocked());
  std::uint64_t highest_epoch = 0;
  std::vector<Digest> batch;
  for (std::size_t begin = 0; begin < count; begin += batch.size()) {
    batch.assign(std::min(count - begin, agent::kMaxIndexBatch), Digest());
    for (std::size_t index = 0; index < batch.size(); ++index) {
      std::memcpy(batch[index].bytes.data(), digests + (begin + index) * size_bytes, size_bytes);
    }
    KERF_RETURN_IF_ERROR(AsOwn(LookupBatch(epoch, batch, answers + begin, highest_epoch)));
  }
  if (index_epoch != nullptr) *index_epoch = highest_epoch;
  return absl::OkStatus();
}

absl::Status Client::Commit(std::uint64_t epoch, const kerf_entry* entries, std::size_t count) {
  if (epoch == 0) return ErrorOf(KERF_BAD_ARGUMENT, "store_epoch: a store's first epoch is 1");
  KERF_ASSIGN_OR_RETURN(const std::vector<agent::StoredChunk> chunks,
                        ReadEntries(entries, count, reach_.digest_size_bytes()));
  const std::lock_guard lock(mutex_);
  KERF_RETURN_IF_ERROR(OpenIndexLocked());
  std::span<const agent::StoredChunk> rest(chunks);
  while (!rest.empty()) {
    const std::size_t batch = std::min(rest.size(), limits::kMaxLateCommitEntries);
    KERF_RETURN_IF_ERROR(AsOwn(index_->Commit(epoch, rest.first(batch))));
    rest = rest.subspan(batch);
  }
  return absl::OkStatus();
}

}  // namespace kerf::c
