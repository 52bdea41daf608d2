#include "server/edge/index_request.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/listener/client_peer.h"
#include "server/net/refused_unary_call.h"
#include "server/net/request_id_of.h"
#include "server/net/shard_key.h"

namespace kerf {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Of a request beside its entries; the protocol has few.
constexpr int kOtherFields = 16;

// Whether the message has no more fields than a request of kMaxIndexRequestEntries entries.
bool HasFewFields(const std::string& bytes) {
  CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                         static_cast<int>(bytes.size()));
  for (int count = 0; count <= kMaxIndexRequestEntries + kOtherFields; ++count) {
    const std::uint32_t tag = input.ReadTag();
    // The end, or what the parser will refuse.
    if (tag == 0 || !WireFormatLite::SkipField(&input, tag)) return true;
  }
  return false;
}

constexpr std::uint32_t TagOf(
    int number, WireFormatLite::WireType type = WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
  return WireFormatLite::MakeTag(number, type);
}

// Reads the repository out of a request, as protobuf does: a field that comes again is merged with
// what came before, so that of names the last one counts.
class RepositoryPeek {
 public:
  explicit RepositoryPeek(CodedInputStream& input) : input_(input) {}

  // Nothing: it is no request, or has more fields than one.
  std::optional<PeekedRepository> Read() {
    const auto read = [this](std::uint32_t tag) {
      return tag == kRepositoryTag ? ReadReference() : WireFormatLite::SkipField(&input_, tag);
    };
    if (!ReadFields(read)) return std::nullopt;
    return std::move(peeked_);
  }

 private:
  // The field of all requests that have one.
  static constexpr std::uint32_t kRepositoryTag =
      TagOf(v1::GetIndexStatsRequest::kRepositoryFieldNumber);
  static constexpr std::uint32_t kNameTag = TagOf(v1::RepositoryRef::kRepositoryFieldNumber);
  static constexpr std::uint32_t kDigestTag =
      TagOf(v1::RepositoryRef::kDigestAlgorithmFieldNumber, WireFormatLite::WIRETYPE_VARINT);

  // Whether there was nothing but fields up to the end, each of which `read` takes or skips.
  template <typename Read>
  bool ReadFields(const Read& read) {
    while (const std::uint32_t tag = input_.ReadTag()) {
      if (++count_ > kMaxIndexRequestEntries + kOtherFields) return false;
      if (!read(tag)) return false;
    }
    return input_.ConsumedEntireMessage();
  }

  bool ReadReference() {
    int length = 0;
    if (!input_.ReadVarintSizeAsInt(&length)) return false;
    const CodedInputStream::Limit outer = input_.PushLimit(length);
    const auto read = [this](std::uint32_t tag) {
      if (tag == kNameTag) return ReadName();
      return tag == kDigestTag ? ReadDigestAlgorithm() : WireFormatLite::SkipField(&input_, tag);
    };
    if (!ReadFields(read)) return false;
    input_.PopLimit(outer);
    return true;
  }

  bool ReadName() {
    int length = 0;
    if (!input_.ReadVarintSizeAsInt(&length)) return false;
    peeked_.name.clear();
    // No repository has a longer one.
    if (length > static_cast<int>(kMaxRepositoryNameBytes)) return input_.Skip(length);
    return input_.ReadString(&peeked_.name, length);
  }

  bool ReadDigestAlgorithm() {
    std::uint64_t number = 0;
    if (!input_.ReadVarint64(&number)) return false;
    peeked_.digest_algorithm = static_cast<int>(static_cast<std::uint32_t>(number));
    return true;
  }

  CodedInputStream& input_;
  int count_ = 0;
  PeekedRepository peeked_;
};

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

PeekedRepository PeekRepository(const grpc::ByteBuffer& buffer) {
  // The reader asks for one that it may change; a copy has the same bytes, not a copy of them.
  grpc::ByteBuffer bytes = buffer;
  grpc::ProtoBufferReader slices(&bytes);
  CodedInputStream input(&slices);
  return RepositoryPeek(input).Read().value_or(PeekedRepository());
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

grpc::ServerUnaryReactor* RefuseForbidden(const AskedIndex& asked, const IncomingCall& call,
                                          const PeekedRepository& repository) {
  // What is no name is said by whoever reads the request.
  if (!ValidateRepositoryName(repository.name).ok()) return nullptr;
  const absl::Status status = asked.gate->Check(asked.caller, asked.need, repository.name);
  if (status.ok()) return nullptr;
  asked.record->SetRepository(repository.name, repository.digest_algorithm);
  asked.record->SetOutcome(status);
  return Refuse(*call.context, status);
}

}  // namespace kerf
