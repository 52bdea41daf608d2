#include "client/c/conformance/file_upload.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"

namespace kerf::c::conformance {
namespace {

// It allows each cut that the kit's server makes, from 64 bytes to a MiB.
constexpr char kProfile[] = "mincdc:min=64,max=1048576";
// Before libkerf lets no more be reported.
constexpr std::size_t kMaxStale = 1024;

std::string_view BytesOf(const void* data, std::size_t size) {
  return {static_cast<const char*>(data), size};
}

template <typename Told>
std::vector<kerf_entry> EntriesOf(const std::vector<Told>& told) {
  std::vector<kerf_entry> entries;
  for (const Told& one : told) {
    entries.push_back({reinterpret_cast<const std::uint8_t*>(one.digest.data()),
                       reinterpret_cast<const std::uint8_t*>(one.locator.data()),
                       one.locator.size(), one.length_bytes});
  }
  return entries;
}

const char* KindOf(kerf_code code) {
  switch (static_cast<int>(code)) {
    case KERF_RETRYABLE:
      return "retryable";
    case KERF_REFUSED:
      return "refused";
    case KERF_EPOCH_BEHIND:
      return "epoch_behind";
    case KERF_DISAGREEMENT:
      return "disagreement";
    default:
      return "other";
  }
}

}  // namespace

absl::Status TakeError(kerf_error* error) {
  if (error == nullptr) return absl::OkStatus();
  const absl::Status failure =
      Failure(KindOf(kerf_error_code(error)), kerf_error_message(error), kerf_error_reason(error));
  kerf_error_free(error);
  return failure;
}

int FileUpload::Note(const absl::Status& status) {
  if (status.ok()) return 0;
  if (callback_failure_.ok()) callback_failure_ = status;
  return 1;
}

absl::Status FileUpload::Run(kerf_client* client, const std::string& key) {
  recipe_ = {};
  recipe_.key = key;
  recipe_.epoch = view_.epoch;
  recipe_.has_plan = view_.has_plan;
  kerf_upload_options options = KERF_UPLOAD_OPTIONS_INIT;
  options.profile = kProfile;
  options.store_epoch = view_.epoch;
  options.user = this;
  options.on_chunk = [](void* user, const kerf_chunk* chunk) {
    auto* const self = static_cast<FileUpload*>(user);
    return self->Note(self->Take(*chunk));
  };
  options.on_commit = [](void* user, kerf_upload* /*upload*/) {
    auto* const self = static_cast<FileUpload*>(user);
    return self->Note(self->Commit());
  };
  options.on_recipe = [](void* user, const kerf_recipe* recipe) {
    auto* const self = static_cast<FileUpload*>(user);
    for (const kerf_recipe_chunk& chunk : std::span(recipe->chunks, recipe->chunk_count)) {
      // Not made in the call: gcc 12 takes the string's move for an overrun.
      Chunk& known = self->recipe_.chunks.emplace_back();
      known.digest = BytesOf(chunk.digest, sizeof chunk.digest);
      known.length_bytes = chunk.length;
    }
    self->recipe_.size_bytes = recipe->size;
    self->has_recipe_ = true;
  };
  options.on_index_epoch = [](void* user, std::uint64_t epoch) {
    static_cast<FileUpload*>(user)->recipe_.index_epoch = epoch;
  };
  kerf_error* error = nullptr;
  kerf_upload_open(client, &options, &upload_, &error);
  KERF_RETURN_IF_ERROR(TakeError(error));
  const absl::Status status = Send(upload_, key);
  kerf_upload_free(upload_);
  if (is_suspect_) has_recipe_ = false;
  if (!callback_failure_.ok() || !read_failure_.ok()) {
    has_recipe_ = false;
    return callback_failure_.ok() ? read_failure_ : callback_failure_;
  }
  // Of what was given to on_chunk all is stored, but maybe not durable yet.
  if (has_recipe_) KERF_RETURN_IF_ERROR(store_.Sync());
  return status;
}

absl::Status FileUpload::Send(kerf_upload* upload, const std::string& key) {
  kerf_file_options file = KERF_FILE_OPTIONS_INIT;
  file.key = key.data();
  file.key_size = key.size();
  const auto read = [](void* user, void* buffer, std::size_t size) -> std::int64_t {
    auto* const self = static_cast<FileUpload*>(user);
    const absl::StatusOr<std::int64_t> count = self->Read(buffer, size);
    if (count.ok()) return *count;
    self->read_failure_ = count.status();
    return -1;
  };
  kerf_error* error = nullptr;
  kerf_code code = kerf_upload_send_file(upload, &file, read, this, &error);
  if (code == KERF_OK) code = kerf_upload_finish(upload, &error);
  is_behind_ = code == KERF_EPOCH_BEHIND;
  is_suspect_ =
      error != nullptr && std::string_view(kerf_error_reason(error)) == "CONTENT_MISMATCH";
  return TakeError(error);
}

absl::StatusOr<std::int64_t> FileUpload::Read(void* buffer, std::size_t size) {
  KERF_ASSIGN_OR_RETURN(const Json answer, kit_.Ask({{"ask", "read"}, {"size", size}}));
  const std::string data = FromBase64(answer["data"]);
  std::memcpy(buffer, data.data(), std::min(size, data.size()));
  return static_cast<std::int64_t>(data.size());
}

absl::Status FileUpload::Take(const kerf_chunk& given) {
  const Chunk chunk{std::string(BytesOf(given.digest, given.digest_size)), given.length};
  if (!placed_.contains(chunk.digest)) KERF_RETURN_IF_ERROR(Place(given, chunk));
  if (given.verdict != KERF_DUPLICATE) WillCommit(chunk, placed_[chunk.digest]);
  const bool is_due = to_report_.size() >= kMaxStale || to_commit_bytes_ >= commit_bytes_;
  return is_due ? Commit() : absl::OkStatus();
}

void FileUpload::WillCommit(const Chunk& chunk, const std::string& locator) {
  to_commit_.push_back({chunk.digest, locator, chunk.length_bytes});
  to_commit_bytes_ += chunk.length_bytes;
}

// Where the store has it in safety, or where it is put.
absl::Status FileUpload::Place(const kerf_chunk& given, const Chunk& chunk) {
  KERF_ASSIGN_OR_RETURN(KitStore::Found found, store_.Find(view_, chunk));
  if (!found.safe_locator.empty()) {
    placed_[chunk.digest] = std::move(found.safe_locator);
    return absl::OkStatus();
  }
  KERF_ASSIGN_OR_RETURN(std::string locator,
                        store_.Put(chunk.digest, BytesOf(given.data, given.length)));
  // What a plan condemns is there, and not stale (CLI-21).
  if (given.verdict == KERF_DUPLICATE && !found.is_anywhere) {
    to_report_.push_back({chunk.digest, std::string(BytesOf(given.locator, given.locator_size)),
                          chunk.length_bytes});
    WillCommit(chunk, locator);
  }
  placed_[chunk.digest] = std::move(locator);
  return absl::OkStatus();
}

absl::Status FileUpload::Commit() {
  KERF_RETURN_IF_ERROR(store_.Sync());
  kerf_error* error = nullptr;
  const std::vector<kerf_entry> stale = EntriesOf(to_report_);
  kerf_upload_report_stale(upload_, stale.data(), stale.size(), &error);
  KERF_RETURN_IF_ERROR(TakeError(error));
  const std::vector<kerf_entry> placed = EntriesOf(to_commit_);
  kerf_upload_commit(upload_, placed.data(), placed.size(), &error);
  to_report_.clear();
  to_commit_.clear();
  to_commit_bytes_ = 0;
  return TakeError(error);
}

}  // namespace kerf::c::conformance
