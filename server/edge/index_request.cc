#include "server/edge/index_request.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/listener/client_peer.h"
#include "server/net/refused_unary_call.h"
#include "server/net/request_id_of.h"
#include "server/net/shard_key.h"

namespace kerf {
namespace {

// Of a request beside its entries; the protocol has few.
constexpr int kOtherFields = 16;
// What the name of a repository and its algorithm take in front of a request, at most.
constexpr std::size_t kPeekedBytes = 128;
static_assert(kMaxRepositoryNameBytes + 16 <= kPeekedBytes);

// Whether the message has no more fields than a request of kMaxIndexRequestEntries entries.
bool HasFewFields(const std::string& bytes) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  for (int count = 0; count <= kMaxIndexRequestEntries + kOtherFields; ++count) {
    const std::uint32_t tag = input.ReadTag();
    // The end, or what the parser will refuse.
    if (tag == 0 || !google::protobuf::internal::WireFormatLite::SkipField(&input, tag)) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::Status BadField(std::string_view field, std::string_view what) {
  return MakeError(Reason::kBadField, Cat(field, ": ", what), {{"field", std::string(field)}});
}

absl::StatusOr<RepositoryId> ParseRepository(const v1::RepositoryRef& ref) {
  if (absl::Status status = ValidateRepositoryName(ref.repository()); !status.ok()) {
    return BadField("repository.repository", MessageOf(status));
  }
  switch (ref.digest_algorithm()) {
    case v1::DIGEST_ALGORITHM_BLAKE3:
    case v1::DIGEST_ALGORITHM_SHA256:
    case v1::DIGEST_ALGORITHM_XXH3_128:
      return RepositoryId{ref.repository(), static_cast<DigestAlgorithm>(ref.digest_algorithm())};
    default:
      return BadField("repository.digest_algorithm", "unknown algorithm");
  }
}

absl::StatusOr<RepositoryId> ReadRepository(const AskedIndex& asked, const v1::RepositoryRef& ref) {
  KERF_ASSIGN_OR_RETURN(RepositoryId repository, ParseRepository(ref));
  KERF_RETURN_IF_ERROR(asked.gate->Check(asked.caller, asked.need, repository.name));
  KERF_RETURN_IF_ERROR(asked.quotas->CountCallOn(repository.name));
  return repository;
}

absl::Status CheckCount(int count) {
  if (count <= kMaxIndexRequestEntries) return absl::OkStatus();
  return MakeError(Reason::kBadField, Cat(count, " entries in one request; at most ",
                                          kMaxIndexRequestEntries, " are taken"));
}

absl::Status CheckLimit(std::uint32_t limit) {
  if (limit > 0 && limit <= kMaxIndexRequestEntries) return absl::OkStatus();
  return BadField("limit", Cat("is ", limit, "; 1 to ", kMaxIndexRequestEntries,
                               " entries are looked at by one call"));
}

absl::StatusOr<Digest> ReadDigest(const RepositoryId& repository, const std::string& bytes) {
  const std::size_t size_bytes = DigestSizeBytes(repository.digest_algorithm);
  if (bytes.size() != size_bytes) {
    return BadField("digest",
                    Cat("has ", bytes.size(), " bytes; one of this repository has ", size_bytes));
  }
  Digest digest;
  std::memcpy(digest.bytes.data(), bytes.data(), size_bytes);
  return digest;
}

absl::StatusOr<std::optional<Digest>> ReadAfter(const RepositoryId& repository,
                                                const std::string& after) {
  if (after.empty()) return std::optional<Digest>();
  return ReadDigest(repository, after);
}

std::string WireDigest(const RepositoryId& repository, const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()),
          DigestSizeBytes(repository.digest_algorithm)};
}

absl::Status ParseRequest(const grpc::ByteBuffer& buffer, google::protobuf::Message* request) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) {
    return MakeError(Reason::kInternal, "a request whose bytes cannot be read");
  }
  std::string bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  if (!HasFewFields(bytes)) return CheckCount(kMaxIndexRequestEntries + 1);
  if (request->ParseFromString(bytes)) return absl::OkStatus();
  return MakeError(Reason::kMalformedMessage,
                   Cat("the bytes are no ", request->GetDescriptor()->full_name()));
}

std::string PeekRepository(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return "";
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()),
                 std::min(slice.size(), kPeekedBytes - bytes.size()));
    if (bytes.size() == kPeekedBytes) break;
  }
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  // The field of all requests that have one.
  constexpr std::uint32_t kRepositoryTag =
      v1::GetIndexStatsRequest::kRepositoryFieldNumber << 3 | 2;
  std::uint32_t length = 0;
  std::string field;
  v1::RepositoryRef repository;
  if (input.ReadTag() != kRepositoryTag || !input.ReadVarint32(&length) || length > bytes.size() ||
      !input.ReadString(&field, static_cast<int>(length)) || !repository.ParseFromString(field) ||
      repository.repository().size() > kMaxRepositoryNameBytes) {
    return "";
  }
  return repository.repository();
}

AdmittedCall AdmitIndexCall(AskedIndex asked, const IncomingCall& call) {
  using Kind = audit::CallRecord::Kind;
  const bool is_read = call.need == access::Need::kRead || call.need == access::Need::kOperate;
  asked.record = audit::CallRecord::Begin(asked.audit, is_read ? Kind::kRead : Kind::kChange,
                                          {.method = std::string(call.method),
                                           .peer = PeerOf(*call.context),
                                           .request_id = RequestIdOf(*call.context)});
  access::Identity proven;
  absl::StatusOr<access::Identity> caller = asked.gate->Admit(*call.context, call.need, &proven);
  asked.record->SetCaller(proven.name, NameOf(proven.proof));
  const absl::Status admission = caller.ok() ? CheckShardKeyOf(*call.context) : caller.status();
  auto place = admission.ok() ? asked.quotas->EnterCall(*caller, asked.max_calls)
                              : absl::StatusOr<Places::Hold>(admission);
  if (!place.ok()) {
    asked.record->SetOutcome(place.status());
    return {.refused = Refuse(*call.context, place.status())};
  }
  asked.place = std::make_shared<const Places::Hold>(*std::move(place));
  asked.caller = *std::move(caller);
  asked.need = call.need;
  return {.asked = std::move(asked)};
}

}  // namespace kerf
