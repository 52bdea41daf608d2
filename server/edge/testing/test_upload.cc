#include "server/edge/testing/test_upload.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf {
namespace {

// A guard against a hang, not a measure: nothing here is waited for that long unless it is broken.
constexpr std::chrono::seconds kPatience{60};

// Gone with the process. Not in TEST_TMPDIR: its path is longer than a socket's may be.
class SocketFolder {
 public:
  SocketFolder() : path_("/tmp/kerf-test-XXXXXX") { KERF_CHECK(mkdtemp(path_.data()) != nullptr); }
  ~SocketFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::span<const std::uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

std::string FreshSocketAddress() {
  static const SocketFolder folder;
  static std::atomic<int> counter{0};
  return Cat("unix:", folder.path(), "/", counter.fetch_add(1), ".sock");
}

std::shared_ptr<grpc::Channel> ConnectTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  // A connection of its own, not one that another test's channel has open.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A window that does not grow: who does not read is soon noticed.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

v1::Open OpenFor(std::string_view repository, std::string_view profile) {
  v1::Open open;
  open.set_repository(std::string(repository));
  open.set_profile(std::string(profile));
  open.set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  open.set_store_epoch(1);
  return open;
}

std::string ContentHashOf(std::string_view content) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(content.data(), content.size()));
  return {reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest};
}

std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return "details that cannot be read";
  if (details.code() != static_cast<int>(status.error_code())) return "a code that differs";
  std::string reason;
  for (const auto& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (!detail.UnpackTo(&info)) continue;
    if (!reason.empty()) return "more than one ErrorInfo";
    if (info.domain() != "kerf") return "another domain";
    reason = info.reason();
  }
  return reason.empty() ? Cat("no ErrorInfo: ", status.error_message()) : reason;
}

std::vector<RecipeChunk> PlainRecipe(std::string_view content, const v1::Open& open,
                                     std::uint64_t start_offset) {
  const auto profile = ParseProfile(open.profile());
  KERF_CHECK(profile.ok());
  const auto chunker = MakeChunker(*profile);
  const auto algorithm = static_cast<DigestAlgorithm>(open.digest_algorithm());
  std::vector<RecipeChunk> recipe;
  std::uint64_t offset = start_offset;
  while (!content.empty()) {
    const std::size_t length = chunker->NextCut(AsBytes(content));
    const Digest digest = Fingerprint(algorithm, AsBytes(content.substr(0, length)));
    offset += length;
    recipe.push_back({offset,
                      std::string(reinterpret_cast<const char*>(digest.bytes.data()),
                                  DigestSizeBytes(algorithm)),
                      XXH3_64bits(content.data(), length)});
    content.remove_prefix(length);
  }
  return recipe;
}

std::string NamedHashOf(const std::vector<RecipeChunk>& recipe, std::uint64_t start_offset) {
  std::string named;
  for (const RecipeChunk& chunk : recipe) {
    named += chunk.digest;
    const std::uint64_t length_bytes =
        chunk.end_offset - std::exchange(start_offset, chunk.end_offset);
    for (int shift = 0; shift < 32; shift += 8) {
      named.push_back(static_cast<char>(length_bytes >> shift));
    }
  }
  return ContentHashOf(named);
}

v1::ChunkDigests DigestsOf(const std::vector<RecipeChunk>& recipe, std::uint64_t start_offset) {
  v1::ChunkDigests named;
  for (const RecipeChunk& chunk : recipe) {
    named.mutable_digests()->append(chunk.digest);
    named.add_lengths_bytes(static_cast<std::uint32_t>(
        chunk.end_offset - std::exchange(start_offset, chunk.end_offset)));
  }
  return named;
}

TestUpload::TestUpload(const std::shared_ptr<grpc::Channel>& channel, bool read,
                       const std::string& shard_key)
    : stub_(v1::ChunkingService::NewStub(channel)), stream_(stub_->Upload(&context(shard_key))) {
  if (read) StartReading();
}

grpc::ClientContext& TestUpload::context(const std::string& shard_key) {
  if (!shard_key.empty()) context_.AddMetadata("kerf-shard-key", shard_key);
  return context_;
}

TestUpload::~TestUpload() {
  context_.TryCancel();
  StartReading();
  reader_.join();
}

void TestUpload::StartReading() {
  if (!reader_.joinable()) reader_ = std::thread([this] { Read(); });
}

void TestUpload::Read() {
  v1::UploadResponse response;
  while (stream_->Read(&response)) {
    const std::lock_guard lock(mutex_);
    for (auto& answer : *response.mutable_answers()) answers_.push_back(std::move(answer));
    changed_.notify_all();
  }
  const grpc::Status status = stream_->Finish();
  const std::lock_guard lock(mutex_);
  status_ = status;
  ended_ = true;
  changed_.notify_all();
}

bool TestUpload::Send(const v1::UploadRequest& request) { return stream_->Write(request); }

bool TestUpload::SendOpen(const v1::Open& open) {
  return SendFrame([&](v1::UploadFrame& frame) { *frame.mutable_open() = open; });
}

bool TestUpload::SendFrame(const std::function<void(v1::UploadFrame&)>& fill) {
  v1::UploadRequest request;
  fill(*request.add_frames());
  return Send(request);
}

bool TestUpload::SendFile(std::string_view content, std::size_t slice_bytes,
                          std::uint64_t start_offset) {
  v1::UploadRequest request;
  v1::FileBegin& begin = *request.add_frames()->mutable_file_begin();
  begin.set_file_key("a file");
  begin.set_start_offset(start_offset);
  std::string_view rest = content;
  while (!rest.empty()) {
    const std::size_t count = slice_bytes == 0 ? rest.size() : std::min(slice_bytes, rest.size());
    request.add_frames()->set_data(std::string(rest.substr(0, count)));
    rest.remove_prefix(count);
    if (slice_bytes == 0) continue;
    if (!Send(request)) return false;
    request.Clear();
  }
  v1::FileEnd& end = *request.add_frames()->mutable_file_end();
  end.set_size_bytes(start_offset + content.size());
  end.set_content_hash(ContentHashOf(content));
  return Send(request);
}

bool TestUpload::SendNamed(const std::vector<RecipeChunk>& recipe, std::size_t frame_chunks,
                           std::uint64_t start_offset) {
  v1::UploadRequest request;
  v1::FileBegin& begin = *request.add_frames()->mutable_file_begin();
  begin.set_file_key("a file");
  begin.set_start_offset(start_offset);
  const std::size_t step = frame_chunks == 0 ? 4096 : frame_chunks;
  std::uint64_t offset = start_offset;
  for (std::size_t first = 0; first < recipe.size(); first += step) {
    const auto from = recipe.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<RecipeChunk> part(
        from, from + static_cast<std::ptrdiff_t>(std::min(step, recipe.size() - first)));
    *request.add_frames()->mutable_chunk_digests() = DigestsOf(part, offset);
    offset = part.back().end_offset;
    if (frame_chunks == 0) continue;
    if (!Send(request)) return false;
    request.Clear();
  }
  v1::FileEnd& end = *request.add_frames()->mutable_file_end();
  end.set_size_bytes(offset);
  end.set_content_hash(NamedHashOf(recipe, start_offset));
  return Send(request);
}

bool TestUpload::CommitAnswered(const std::string& locator) {
  v1::UploadRequest request;
  v1::Commit& commit = *request.add_frames()->mutable_commit();
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> digests;
    for (; committed_answers_ < answers_.size(); ++committed_answers_) {
      for (const v1::Chunk& chunk : answers_[committed_answers_].chunks().chunks()) {
        if (chunk.verdict() != v1::VERDICT_DUPLICATE) digests.push_back(chunk.digest());
      }
    }
    std::sort(digests.begin(), digests.end());
    digests.erase(std::unique(digests.begin(), digests.end()), digests.end());
    for (const std::string& digest : digests) {
      v1::CommitEntry& entry = *commit.add_entries();
      entry.set_digest(digest);
      entry.set_locator(locator);
    }
  }
  return Send(request);
}

bool TestUpload::WaitFor(
    const std::function<bool(const std::vector<v1::UploadAnswer>&)>& condition) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPatience, [&] { return ended_ || condition(answers_); });
  return condition(answers_);
}

bool TestUpload::WaitForDone(std::size_t file_count) {
  return WaitForAnswer(&v1::UploadAnswer::has_file_done, file_count).has_value();
}

std::optional<v1::UploadAnswer> TestUpload::WaitForAnswer(bool (v1::UploadAnswer::*is_kind)() const,
                                                          std::size_t nth) {
  std::optional<v1::UploadAnswer> found;
  WaitFor([&](const std::vector<v1::UploadAnswer>& answers) {
    std::size_t count = 0;
    for (const v1::UploadAnswer& answer : answers) {
      if ((answer.*is_kind)() && ++count == nth) found = answer;
    }
    return found.has_value();
  });
  return found;
}

bool TestUpload::WaitForChunks(std::uint64_t number, std::uint64_t offset_bytes) {
  return WaitFor([&](const std::vector<v1::UploadAnswer>& answers) {
    return std::any_of(answers.begin(), answers.end(), [&](const v1::UploadAnswer& answer) {
      return answer.chunks().file_number() == number && answer.chunks().chunks_size() > 0 &&
             answer.chunks().chunks().rbegin()->end_offset() >= offset_bytes;
    });
  });
}

grpc::Status TestUpload::WaitForEnd() {
  StartReading();
  std::unique_lock lock(mutex_);
  KERF_CHECK(changed_.wait_for(lock, kPatience, [&] { return ended_; }));
  return status_;
}

std::vector<v1::UploadAnswer> TestUpload::answers() {
  const std::lock_guard lock(mutex_);
  return answers_;
}

std::vector<v1::Chunk> TestUpload::ChunksOf(std::uint64_t number) {
  std::vector<v1::Chunk> chunks;
  for (const v1::UploadAnswer& answer : answers()) {
    if (!answer.has_chunks() || answer.chunks().file_number() != number) continue;
    chunks.insert(chunks.end(), answer.chunks().chunks().begin(), answer.chunks().chunks().end());
  }
  return chunks;
}

std::vector<RecipeChunk> TestUpload::RecipeOf(std::uint64_t number) {
  std::vector<RecipeChunk> recipe;
  for (const v1::Chunk& chunk : ChunksOf(number)) {
    recipe.push_back({chunk.end_offset(), chunk.digest(), chunk.check()});
  }
  return recipe;
}

}  // namespace kerf
