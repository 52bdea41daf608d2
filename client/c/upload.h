// One upload of a C program: callbacks, what is pending, and a lane that does the rest.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/backup/chunk_taker.h"
#include "client/agent/backup/lane.h"
#include "client/c/callback_nest.h"
#include "client/c/client.h"
#include "client/c/kerf.h"
#include "client/c/pushed_file.h"
#include "client/cpp/call_cancellation.h"
#include "client/cpp/out_of_memory.h"
#include "client/store/format/chunk_ref.h"
#include "kerf/v1/chunking.pb.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::c {

// The functions of kerf.h that send are held to their thread rule here; the others are thread-safe.
class Upload final : private agent::ChunkTaker {
 public:
  // The handle is what on_commit is given, and outlives the upload.
  static absl::StatusOr<std::unique_ptr<Upload>> Open(const Reach& reach,
                                                      const kerf_upload_options* options,
                                                      kerf_upload* handle);
  ~Upload() override;

  absl::Status WaitOpened();
  absl::Status SendFile(const kerf_file_options* file, kerf_read read, void* read_user);
  absl::Status BeginFile(const kerf_file_options* file);
  absl::Status Write(const void* data, std::size_t size_bytes);
  absl::Status EndFile();
  absl::Status AbandonFile();
  absl::Status WaitAnswered();
  absl::Status Finish();

  absl::Status Commit(const kerf_entry* entries, std::size_t count);
  absl::Status ReportStale(const kerf_entry* entries, std::size_t count);
  void Cancel();
  absl::Status ReadTotals(kerf_totals* totals);
  // What `body` does with this upload. If it throws, nobody knows how far it came: the upload has
  // ended, and says so from then on.
  template <typename Body>
  absl::Status OrEnd(const Body& body) {
    try {
      const absl::Status status = client::OrOutOfMemory(body);
      return client::IsOutOfMemory(status) ? Fail(status) : status;
    } catch (...) {
      EndByBug();
      throw;
    }
  }
  // Before the destructor. False if the calling thread runs a callback that this would wait for.
  bool BeginEnd() { return nest_.BeginWait(); }

 private:
  // Held while a function sends.
  class Turn {
   public:
    explicit Turn(Upload& upload) : upload_(&upload) {}
    ~Turn() {
      if (upload_ != nullptr) upload_->EndTurn();
    }
    Turn(Turn&& other) noexcept : upload_(std::exchange(other.upload_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;

   private:
    Upload* upload_;
  };
  // Held while a callback runs, but for `read`, which runs beside the others.
  class CallbackScope;
  enum class State { kBetween, kInFile, kFinished };
  struct Pending {
    std::uint32_t length_bytes = 0;
    // How often it was answered so.
    std::uint32_t answer_count = 0;
  };
  struct FileOptions {
    std::string key;
    std::uint64_t size_hint_bytes = 0;
    void* user = nullptr;
  };

  Upload(const Reach& reach, const kerf_upload_options& options, kerf_upload* handle);

  absl::Status OpenLane();
  absl::StatusOr<FileOptions> ReadFile(const kerf_file_options* file) const;
  // All of one file; for the lane's sending thread, which may be one of the library's own.
  absl::Status Send(const FileOptions& file, const agent::Lane::Reader& reader,
                    absl::Status& read_status);
  absl::Status Take(agent::ChunkLane& lane, const agent::AnsweredChunk& chunk,
                    std::span<const std::uint8_t> bytes) override;
  absl::Status AskForCommit();
  absl::Status CallOnCommit();
  // The upload ends with `status`, which it returns: whoever sends is told so from here on.
  absl::Status Fail(const absl::Status& status);
  void EndByBug();
  void TellRecipe(std::uint64_t number, void* user, const agent::FileOutcome& outcome);
  void NoteIndexEpoch(std::uint64_t epoch);
  absl::Status CheckAllCommitted() const;
  void NoteLateCommits(std::vector<v1::CommitEntry> entries);
  absl::Status TellLate(std::chrono::milliseconds patience);
  void GiveUpLate();
  void Notify(kerf_notice notice, const std::string& text);
  absl::StatusOr<Turn> Begin(State state);
  void EndTurn();
  absl::Status OwnFailure() const;
  // The status, unless this side has cancelled, or has ended the upload.
  absl::Status AsOwn(const absl::Status& status) const;
  // The rest with mutex_ held.
  absl::Status CheckCommittableLocked(std::span<const agent::StoredChunk> chunks) const;
  std::uint64_t TakePendingLocked(std::span<const agent::StoredChunk> chunks,
                                  std::vector<v1::CommitEntry>& entries);
  void RememberLocked(const agent::StoredChunk& chunk);

  const Reach reach_;
  const kerf_upload_options options_;
  const std::string profile_;
  const std::string name_;
  const std::string agent_;
  kerf_upload* const handle_;

  CallbackNest nest_;
  std::atomic<bool> is_sending_ = false;
  std::atomic<bool> is_cancelled_ = false;
  client::CallCancellation late_cancellation_;
  // Only who sends.
  State state_ = State::kBetween;
  std::unique_ptr<PushedFile> pushed_;

  // Of callbacks: before mutex_.
  std::mutex callback_mutex_;

  mutable std::mutex mutex_;
  absl::flat_hash_map<Digest, Pending, DigestHash> pending_;
  // Reported, and not committed.
  absl::flat_hash_map<Digest, std::uint32_t, DigestHash> stale_;
  // Lengths of what was committed last, for what a lost stream leaves; the oldest first.
  absl::flat_hash_map<Digest, std::uint32_t, DigestHash> committed_;
  std::deque<Digest> committed_order_;
  std::vector<agent::StoredChunk> late_;
  kerf_totals totals_ = {};
  // Of this side's own: of the lane's it says itself why.
  absl::Status failure_;
  std::uint64_t pending_answer_count_ = 0;

  std::mutex watch_mutex_;
  std::condition_variable_any watch_changed_;
  std::unique_ptr<agent::Lane> lane_;
  // Last: it uses all of the above.
  std::jthread watch_thread_;
};

}  // namespace kerf::c

// Of kerf.h.
struct kerf_upload {
  std::unique_ptr<kerf::c::Upload> inner;
};
