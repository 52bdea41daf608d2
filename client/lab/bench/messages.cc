#include "client/lab/bench/messages.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "base/version.h"
#include "kerf/v1/chunking.pb.h"
#include "kernels/fingerprint/xxh3.h"

namespace kerf::bench {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Of kerf/v1/chunking.proto, all length-delimited.
constexpr char Tag(int field) { return static_cast<char>((field << 3) | 2); }
constexpr char kFramesTag = Tag(1);
constexpr char kDataTag = Tag(3);
constexpr char kCommitTag = Tag(5);
constexpr char kEntriesTag = Tag(1);
constexpr char kDigestTag = Tag(1);
constexpr char kLocatorTag = Tag(2);
// As long as the locators of kerf's own store: a pack's name and a place in it.
constexpr std::size_t kLocatorBytes = 32;

void AppendVarint(std::uint64_t value, std::string* encoded) {
  for (; value >= 0x80; value >>= 7) encoded->push_back(static_cast<char>(value | 0x80));
  encoded->push_back(static_cast<char>(value));
}

void AppendFrame(const v1::UploadFrame& frame, std::string* encoded) {
  encoded->push_back(kFramesTag);
  AppendVarint(frame.ByteSizeLong(), encoded);
  frame.AppendToString(encoded);
}

void AppendDataHeader(std::size_t data_bytes, std::string* encoded) {
  std::string field(1, kDataTag);
  AppendVarint(data_bytes, &field);
  encoded->push_back(kFramesTag);
  AppendVarint(field.size() + data_bytes, encoded);
  encoded->append(field);
}

grpc::ByteBuffer Buffer(const v1::UploadFrame& frame) {
  std::string encoded;
  AppendFrame(frame, &encoded);
  const grpc::Slice slice(encoded);
  return {&slice, 1};
}

}  // namespace

grpc::ByteBuffer OpenMessage(const ServiceOptions& options, const std::string& repository,
                             bool cuts, const std::string& token) {
  v1::UploadFrame frame;
  v1::Open& open = *frame.mutable_open();
  open.set_repository(repository);
  open.set_profile(FormatProfile(options.profile));
  open.set_digest_algorithm(static_cast<v1::DigestAlgorithm>(options.digest));
  open.set_store_epoch(1);
  if (cuts) open.set_cutter(v1::CUTTER_CLIENT);
  open.set_agent(Cat("kerf bench/", kVersion));
  open.set_shared_memory(token);
  return Buffer(frame);
}

grpc::ByteBuffer CommitMessage(std::span<const LocalChunk> chunks,
                               std::span<const std::size_t> positions, std::size_t digest_bytes) {
  // By hand, so that the benchmark's own work does not show in what it measures. Digests and
  // locators are below 128 bytes: each of their lengths is one byte.
  const std::size_t entry_bytes = 2 + digest_bytes + 2 + kLocatorBytes;
  std::string entries;
  entries.reserve(positions.size() * (2 + entry_bytes));
  for (const std::size_t position : positions) {
    entries.push_back(kEntriesTag);
    entries.push_back(static_cast<char>(entry_bytes));
    entries.push_back(kDigestTag);
    entries.push_back(static_cast<char>(digest_bytes));
    entries.append(reinterpret_cast<const char*>(chunks[position].digest.bytes.data()),
                   digest_bytes);
    entries.push_back(kLocatorTag);
    entries.push_back(static_cast<char>(kLocatorBytes));
    entries.append(kLocatorBytes, 'L');
  }
  std::string field(1, kCommitTag);
  AppendVarint(entries.size(), &field);
  std::string head(1, kFramesTag);
  AppendVarint(field.size() + entries.size(), &head);
  head += field;
  const std::array<grpc::Slice, 2> slices = {grpc::Slice(head), grpc::Slice(entries)};
  return {slices.data(), slices.size()};
}

FileMessages::FileMessages(Bytes file, std::uint32_t message_bytes)
    : file_(file),
      message_bytes_(message_bytes),
      count_(std::max<std::size_t>(1, (file.size() + message_bytes - 1) / message_bytes)) {
  const Xxh3Digest hash = Xxh3Of128(file);
  content_hash_.assign(hash.begin(), hash.end());
}

grpc::ByteBuffer FileMessages::Message(std::size_t index) const {
  std::string head;
  if (index == 0) {
    v1::UploadFrame frame;
    frame.mutable_file_begin()->set_file_key(kFileKey);
    frame.mutable_file_begin()->set_size_hint_bytes(file_.size());
    AppendFrame(frame, &head);
  }
  const std::size_t begin = index * message_bytes_;
  const Bytes data = file_.subspan(begin, std::min(message_bytes_, file_.size() - begin));
  AppendDataHeader(data.size(), &head);
  std::string tail;
  if (index + 1 == count_) {
    v1::UploadFrame frame;
    frame.mutable_file_end()->set_size_bytes(file_.size());
    frame.mutable_file_end()->set_content_hash(content_hash_);
    AppendFrame(frame, &tail);
  }
  const std::array<grpc::Slice, 3> slices = {
      grpc::Slice(head), grpc::Slice(data.data(), data.size(), grpc::Slice::STATIC_SLICE),
      grpc::Slice(tail)};
  return {slices.data(), tail.empty() ? 2u : 3u};
}

}  // namespace kerf::bench
