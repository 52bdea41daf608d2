// One file through one upload of kerf.h: what an agent does about each chunk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "client/c/conformance/formats.h"
#include "client/c/conformance/kit.h"
#include "client/c/conformance/kit_store.h"
#include "client/c/kerf.h"

namespace kerf::c::conformance {

// The failure that an error of libkerf is, which is freed.
absl::Status TakeError(kerf_error* error);

class FileUpload {
 public:
  // It commits as soon as chunks of so many bytes are to be committed.
  FileUpload(Kit& kit, KitStore& store, const View& view, std::uint64_t commit_bytes)
      : kit_(kit), store_(store), view_(view), commit_bytes_(commit_bytes) {}
  FileUpload(const FileUpload&) = delete;
  FileUpload& operator=(const FileUpload&) = delete;

  // Once. OK behind the whole way; `recipe` may be there behind a failure, too: then all chunks
  // were compared and are durable (CLI-9).
  absl::Status Run(kerf_client* client, const std::string& key);

  // A collection came between: all of it begins again (COL-23).
  bool is_behind() const { return is_behind_; }
  bool has_recipe() const { return has_recipe_; }
  const Recipe& recipe() const { return recipe_; }

 private:
  // What the index is told of a chunk.
  struct Told {
    std::string digest;
    std::string locator;
    std::uint32_t length_bytes = 0;
  };

  absl::Status Send(kerf_upload* upload, const std::string& key);
  absl::StatusOr<std::int64_t> Read(void* buffer, std::size_t size);
  absl::Status Take(const kerf_chunk& chunk);
  absl::Status Place(const kerf_chunk& given, const Chunk& chunk);
  void WillCommit(const Chunk& chunk, const std::string& locator);
  absl::Status Commit();
  // What a callback returns; the first failure is kept.
  int Note(const absl::Status& status);

  Kit& kit_;
  KitStore& store_;
  const View& view_;
  const std::uint64_t commit_bytes_;
  kerf_upload* upload_ = nullptr;
  Recipe recipe_;
  bool has_recipe_ = false;
  bool is_behind_ = false;
  // CONTENT_MISMATCH: what was answered may be what is wrong (CLI-39).
  bool is_suspect_ = false;
  absl::Status callback_failure_;
  absl::Status read_failure_;
  // Where this upload has found or put them.
  absl::flat_hash_map<std::string, std::string> placed_;
  std::vector<Told> to_commit_;
  std::uint64_t to_commit_bytes_ = 0;
  std::vector<Told> to_report_;
};

}  // namespace kerf::c::conformance
