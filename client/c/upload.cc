#include "client/c/upload.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>

#include "base/status.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "client/c/error.h"
#include "client/c/options.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/shard_key.h"
#include "kernels/rapid/upload_profile.h"

namespace kerf::c {
namespace {

constexpr char kDefaultProfile[] = "mincdc-8k";
constexpr char kDefaultName[] = "c";
constexpr char kDefaultAgent[] = "libkerf";
// What this client understands beyond release 0.1.0 (PRO-92).
constexpr char kIndexEpochFeature[] = "index-epoch";
constexpr std::size_t kMaxKeyBytes = 4096;
constexpr std::size_t kMaxAgentBytes = 128;
// How soon a stream that is silent is noticed.
constexpr std::chrono::milliseconds kWatchInterval{100};
// How long a server is waited for, at the end, that is to be told what lost streams have left.
constexpr std::chrono::milliseconds kLateFor{15'000};

// Two programs that lost one server must not wait for the same time.
std::uint64_t RandomSeed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::string TextOr(const char* text, const char* otherwise) {
  return text == nullptr ? otherwise : text;
}

absl::StatusOr<v1::Cutter> CutterOf(kerf_cut cut) {
  switch (static_cast<int>(cut)) {
    case KERF_CUT_SERVER:
      return v1::CUTTER_UNSPECIFIED;
    case KERF_CUT_HERE:
      return v1::CUTTER_CLIENT;
    case KERF_CUT_HERE_UNLESS_GPU:
      return v1::CUTTER_CLIENT_UNLESS_GPU;
    default:
      return ErrorOf(KERF_BAD_ARGUMENT, Cat("cut: there is none ", static_cast<int>(cut)));
  }
}

kerf_verdict VerdictOf(v1::Verdict verdict) {
  if (verdict == v1::VERDICT_DUPLICATE) return KERF_DUPLICATE;
  return verdict == v1::VERDICT_UNVERIFIED ? KERF_UNVERIFIED : KERF_NEW;
}

absl::Status CallbackFailed(std::string_view name, std::int64_t result) {
  return ErrorOf(KERF_CALLBACK_FAILED, Cat(name, " has returned ", result));
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

absl::Status CheckOptions(const kerf_upload_options& options) {
  if (options.store_epoch == 0) {
    return ErrorOf(KERF_BAD_ARGUMENT, "store_epoch: a store's first epoch is 1");
  }
  if (options.on_chunk == nullptr) return ErrorOf(KERF_BAD_ARGUMENT, "on_chunk is NULL");
  if (options.on_commit == nullptr) return ErrorOf(KERF_BAD_ARGUMENT, "on_commit is NULL");
  if (options.agent != nullptr && std::string_view(options.agent).size() > kMaxAgentBytes) {
    return ErrorOf(KERF_BAD_ARGUMENT, Cat("agent: it has at most ", kMaxAgentBytes, " bytes"));
  }
  // No server can read such an Open, and each says so as if its connection had broken.
  if (options.agent != nullptr && !IsUtf8(options.agent)) {
    return ErrorOf(KERF_BAD_ARGUMENT, "agent: it is no UTF-8");
  }
  return absl::OkStatus();
}

}  // namespace

class Upload::CallbackScope {
 public:
  explicit CallbackScope(Upload& upload) : lock_(upload.callback_mutex_), running_(upload.nest_) {}

 private:
  const std::lock_guard<std::mutex> lock_;
  const CallbackNest::Running running_;
};

absl::StatusOr<std::unique_ptr<Upload>> Upload::Open(const Reach& reach,
                                                     const kerf_upload_options* given,
                                                     kerf_upload* handle) {
  KERF_ASSIGN_OR_RETURN(const kerf_upload_options options,
                        ReadStruct(given, sizeof(kerf_upload_options), "kerf_upload_options"));
  KERF_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<Upload> upload(new Upload(reach, options, handle));
  KERF_RETURN_IF_ERROR(upload->OpenLane());
  return upload;
}

Upload::Upload(const Reach& reach, const kerf_upload_options& options, kerf_upload* handle)
    : reach_(reach),
      options_(options),
      profile_(TextOr(options.profile, kDefaultProfile)),
      name_(TextOr(options.name, kDefaultName)),
      agent_(TextOr(options.agent, kDefaultAgent)),
      handle_(handle) {}

Upload::~Upload() {
  if (lane_ == nullptr) return;
  Cancel();
  pushed_ = nullptr;
  watch_thread_.request_stop();
  // It is not there if it could not be started.
  if (watch_thread_.joinable()) watch_thread_.join();
  lane_ = nullptr;
}

absl::Status Upload::OpenLane() {
  const absl::StatusOr<UploadProfile> profile = ParseUploadProfile(profile_);
  if (!profile.ok()) {
    return ErrorOf(KERF_BAD_ARGUMENT, Cat("profile: ", MessageOf(profile.status())));
  }
  agent::Lane::Options options;
  options.profile = profile->rule;
  options.digest_size_bytes = reach_.digest_size_bytes();
  options.answer_limit = reach_.silence;
  options.on_pressure = [this] { return AskForCommit(); };
  options.on_index_epoch = [this](std::uint64_t epoch) { NoteIndexEpoch(epoch); };
  client::ResumingUpload::Options& upload = options.upload;
  v1::Open& open = upload.stream.open;
  open.set_repository(reach_.repository);
  open.set_profile(profile_);
  open.set_digest_algorithm(static_cast<v1::DigestAlgorithm>(reach_.digest_algorithm));
  open.set_store_epoch(options_.store_epoch);
  open.set_agent(agent_);
  open.add_features(kIndexEpochFeature);
  KERF_ASSIGN_OR_RETURN(const v1::Cutter cutter, CutterOf(options_.cut));
  open.set_cutter(cutter);
  upload.stream.shard_key = client::ShardKey(reach_.repository, name_);
  upload.servers = reach_.servers;
  upload.tls = reach_.tls;
  upload.direct = reach_.is_direct;
  upload.shares_memory = reach_.shares_memory;
  upload.retry.time = reach_.retry_for;
  upload.seed = RandomSeed();
  upload.reached = reach_.reached;
  upload.on_lost = [this](const client::ResumingUpload::Lost& lost) {
    Notify(KERF_NOTICE_LOST,
           Cat(lost.server, ": ", MessageOf(lost.status), "; again in ", lost.wait.count(), " ms"));
  };
  upload.on_resumed = [this] {
    {
      const std::lock_guard lock(mutex_);
      ++totals_.resume_count;
    }
    Notify(KERF_NOTICE_RESUMED, "the upload goes on");
  };
  upload.on_cut_here = [this] {
    const std::lock_guard lock(mutex_);
    ++totals_.cut_here_count;
  };
  upload.on_shared = [this] {
    const std::lock_guard lock(mutex_);
    ++totals_.shared_count;
  };
  upload.on_detour = [this](const absl::Status& why) {
    Notify(KERF_NOTICE_DETOUR, std::string(MessageOf(why)));
  };
  upload.on_late_commits = [this](std::vector<v1::CommitEntry> entries) {
    NoteLateCommits(std::move(entries));
  };
  agent::ChunkTaker& taker = *this;
  lane_ = std::make_unique<agent::Lane>(std::move(options), taker);
  watch_thread_ = std::jthread([this](const std::stop_token& stop) {
    std::unique_lock lock(watch_mutex_);
    const auto is_over = [&] { return stop.stop_requested(); };
    while (!watch_changed_.wait_for(lock, stop, kWatchInterval, is_over) && !is_over()) {
      // What it fails with is told by who sends.
      OrEnd([this] { return lane_->Watch(); }).IgnoreError();
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<Upload::Turn> Upload::Begin(State state) {
  const auto in_callback = [] {
    return ErrorOf(KERF_WRONG_STATE,
                   "a callback of the upload calls this, or one that such a callback waits for");
  };
  if (nest_.IsCalling()) return in_callback();
  if (is_sending_.exchange(true)) {
    return ErrorOf(KERF_WRONG_STATE, "another thread sends through this upload just now");
  }
  // Another thread may have begun to wait for this one.
  if (!nest_.BeginWait()) {
    is_sending_ = false;
    return in_callback();
  }
  Turn turn(*this);
  if (const absl::Status failure = OwnFailure(); !failure.ok()) return AsOwn(failure);
  if (state_ == state) return turn;
  switch (state_) {
    case State::kBetween:
      return ErrorOf(KERF_WRONG_STATE, "no file was begun: kerf_upload_begin_file");
    case State::kInFile:
      return ErrorOf(KERF_WRONG_STATE,
                     "a file was begun: kerf_upload_end_file, or kerf_upload_abandon_file");
    case State::kFinished:
      break;
  }
  return ErrorOf(KERF_WRONG_STATE, "the upload has finished");
}

void Upload::EndTurn() {
  nest_.EndWait();
  is_sending_ = false;
}

absl::Status Upload::OwnFailure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

absl::Status Upload::AsOwn(const absl::Status& status) const {
  if (status.ok()) return status;
  if (is_cancelled_) return ErrorOf(KERF_CANCELLED, "the upload was cancelled");
  // What this side has ended itself is cancelled to the lane.
  absl::Status failure = OwnFailure();
  return failure.ok() ? status : failure;
}

absl::Status Upload::WaitOpened() {
  KERF_ASSIGN_OR_RETURN(const Turn turn, Begin(State::kBetween));
  while (true) {
    const absl::StatusOr<bool> is_opened = lane_->WaitOpened(kWatchInterval);
    if (!is_opened.ok()) return AsOwn(is_opened.status());
    if (*is_opened) return absl::OkStatus();
  }
}

absl::StatusOr<Upload::FileOptions> Upload::ReadFile(const kerf_file_options* given) const {
  if (given == nullptr) return FileOptions{};
  KERF_ASSIGN_OR_RETURN(const kerf_file_options options,
                        ReadStruct(given, sizeof(kerf_file_options), "kerf_file_options"));
  if (options.key_size > kMaxKeyBytes || (options.key == nullptr && options.key_size > 0)) {
    return ErrorOf(KERF_BAD_ARGUMENT, Cat("key: it has at most ", kMaxKeyBytes, " bytes"));
  }
  FileOptions file;
  file.size_hint_bytes = options.size_hint;
  file.user = options.user;
  if (options.key_size > 0)
    file.key.assign(static_cast<const char*>(options.key), options.key_size);
  return file;
}

absl::Status Upload::Send(const FileOptions& file, const agent::Lane::Reader& reader,
                          absl::Status& read_status) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++totals_.file_count;
  }
  return OrEnd([&] {
    return lane_->SendFile(
        file.key, file.size_hint_bytes, reader,
        [this, number, user = file.user](const agent::FileOutcome& outcome) {
          TellRecipe(number, user, outcome);
        },
        read_status);
  });
}

absl::Status Upload::SendFile(const kerf_file_options* given, kerf_read read, void* read_user) {
  if (read == nullptr) return ErrorOf(KERF_BAD_ARGUMENT, "read is NULL");
  KERF_ASSIGN_OR_RETURN(const FileOptions file, ReadFile(given));
  KERF_ASSIGN_OR_RETURN(const Turn turn, Begin(State::kBetween));
  absl::Status read_status;
  const absl::Status status = Send(
      file,
      [&](std::span<std::uint8_t> span) -> absl::StatusOr<std::size_t> {
        const CallbackNest::Running running(nest_);
        const std::int64_t count = read(read_user, span.data(), span.size());
        if (count < 0 || static_cast<std::uint64_t>(count) > span.size()) {
          return CallbackFailed("read", count);
        }
        return static_cast<std::size_t>(count);
      },
      read_status);
  return status.ok() ? read_status : AsOwn(status);
}

absl::Status Upload::BeginFile(const kerf_file_options* given) {
  KERF_ASSIGN_OR_RETURN(const FileOptions file, ReadFile(given));
  KERF_ASSIGN_OR_RETURN(const Turn turn, Begin(State::kBetween));
  // A failure of before.
  KERF_RETURN_IF_ERROR(AsOwn(lane_->Watch()));
  pushed_ = std::make_unique<PushedFile>([this, file](const PushedFile::Reader& reader) {
    absl::Status read_status;
    return Send(file, reader, read_status);
  });
  state_ = State::kInFile;
  return absl::OkStatus();
}

absl::Status Upload::Write(const void* data, std::size_t size_bytes) {
  if (data == nullptr && size_bytes > 0) return ErrorOf(KERF_BAD_ARGUMENT, "data is NULL");
  KERF_ASSIGN_OR_RETURN(const Turn turn, Begin(State::kInFile));
  return AsOwn(pushed_->Write({static_cast<const std::uint8_t*>(data), size_bytes}));
}

absl::Status Upload::EndFile() {
  KERF_ASSIGN_OR_RETURN(const Turn turn, Begin(State::kInFile));
  const absl::Status status = pushed_->End();
  pushed_ = nullptr;
  state_ = State::kBetween;
  return AsOwn(status);
}

absl::Status Upload::AbandonFile() {
  KERF_ASSIGN_OR_RETURN(const Turn turn, Begin(State::kInFile));
  const absl::Status status = pushed_->Abandon(absl::AbortedError("the file was abandoned"));
  pushed_ = nullptr;
  state_ = State::kBetween;
  return AsOwn(status);
}

absl::Status Upload::WaitAnswered() {
  KERF_ASSIGN_OR_RETURN(const Turn turn, Begin(State::kBetween));
  return AsOwn(lane_->WaitAnswered());
}

absl::Status Upload::Finish() {
  KERF_ASSIGN_OR_RETURN(const Turn turn, Begin(State::kBetween));
  KERF_RETURN_IF_ERROR(AsOwn(lane_->WaitAnswered()));
  KERF_RETURN_IF_ERROR(AsOwn(AskForCommit()));
  KERF_RETURN_IF_ERROR(CheckAllCommitted());
  KERF_RETURN_IF_ERROR(AsOwn(TellLate(kLateFor)));
  KERF_RETURN_IF_ERROR(AsOwn(lane_->Finish()));
  // Of another thread, or of a callback that has not looked at what it was told.
  KERF_RETURN_IF_ERROR(OwnFailure());
  state_ = State::kFinished;
  // Of a stream that was lost meanwhile.
  KERF_RETURN_IF_ERROR(AsOwn(TellLate(kLateFor)));
  GiveUpLate();
  return absl::OkStatus();
}

void Upload::Cancel() {
  is_cancelled_ = true;
  late_cancellation_.Cancel();
  lane_->Cancel();
}

absl::Status Upload::ReadTotals(kerf_totals* given) {
  KERF_ASSIGN_OR_RETURN(const kerf_totals asked,
                        ReadStruct(given, sizeof(kerf_totals), "kerf_totals"));
  const std::lock_guard lock(mutex_);
  kerf_totals totals = totals_;
  totals.struct_size = asked.struct_size;
  totals.pending_count = pending_.size();
  std::memcpy(given, &totals, std::min(asked.struct_size, sizeof(kerf_totals)));
  return absl::OkStatus();
}

// What the lane and its streams say.

absl::Status Upload::Take(agent::ChunkLane& /*lane*/, const agent::AnsweredChunk& chunk,
                          std::span<const std::uint8_t> bytes) {
  // COL-10. What was cut here has been compared with what was named.
  if (!chunk.is_cut_here && Fingerprint(reach_.digest_algorithm, bytes) != chunk.digest) {
    // The lane asks once more.
    return client::WrongAnswer(
        Cat("a chunk of ", bytes.size(), " bytes was named ",
            DigestToHex(chunk.digest, reach_.digest_size_bytes()),
            ", which is not its fingerprint: the server or a memory is faulty"));
  }
  // NOLINTNEXTLINE(bugprone-invalid-enum-default-initialization): set below.
  kerf_chunk given{};
  given.struct_size = sizeof given;
  given.verdict = VerdictOf(chunk.verdict);
  given.length = chunk.length_bytes;
  given.data = bytes.data();
  given.digest = chunk.digest.bytes.data();
  given.digest_size = reach_.digest_size_bytes();
  if (given.verdict != KERF_NEW) {
    given.locator = reinterpret_cast<const std::uint8_t*>(chunk.locator.data());
    given.locator_size = chunk.locator.size();
  }
  const CallbackScope scope(*this);
  if (is_cancelled_) return absl::CancelledError("the upload was cancelled");
  {
    const std::lock_guard lock(mutex_);
    ++totals_.chunk_count;
    if (given.verdict != KERF_DUPLICATE) {
      Pending& pending = pending_[chunk.digest];
      pending.length_bytes = chunk.length_bytes;
      ++pending.answer_count;
      ++pending_answer_count_;
    }
  }
  const int result = options_.on_chunk(options_.user, &given);
  return result == 0 ? absl::OkStatus() : CallbackFailed("on_chunk", result);
}

absl::Status Upload::AskForCommit() {
  // The file that asks for it may be left in its middle: nothing can go on behind that.
  if (const absl::Status status = CallOnCommit(); !status.ok()) return Fail(status);
  return TellLate({});
}

absl::Status Upload::CallOnCommit() {
  const CallbackScope scope(*this);
  std::uint64_t before = 0;
  {
    const std::lock_guard lock(mutex_);
    before = pending_answer_count_;
  }
  const int result = options_.on_commit(options_.user, handle_);
  if (result != 0) return CallbackFailed("on_commit", result);
  const std::lock_guard lock(mutex_);
  // It would be asked for ever.
  if (before > 0 && pending_answer_count_ >= before) {
    return ErrorOf(KERF_CALLBACK_FAILED, Cat("on_commit has committed none of the ",
                                             pending_.size(), " chunks that are pending"));
  }
  return absl::OkStatus();
}

absl::Status Upload::Fail(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = status;
  }
  lane_->Cancel();
  return status;
}

void Upload::EndByBug() {
  Fail(client::OrOutOfMemory([] {
    return ErrorOf(KERF_UNEXPECTED, "an earlier call of this upload has met a bug of libkerf");
  })).IgnoreError();
}

void Upload::TellRecipe(std::uint64_t number, void* user, const agent::FileOutcome& outcome) {
  if (options_.on_recipe == nullptr) return;
  std::vector<kerf_recipe_chunk> chunks(outcome.recipe.size());
  for (std::size_t index = 0; index < chunks.size(); ++index) {
    const agent::ChunkRef& chunk = outcome.recipe[index];
    std::copy(chunk.digest.bytes.begin(), chunk.digest.bytes.end(), chunks[index].digest);
    chunks[index].length = chunk.length_bytes;
  }
  kerf_recipe recipe{};
  recipe.struct_size = sizeof recipe;
  recipe.file_number = number;
  recipe.file_user = user;
  recipe.size = outcome.content_bytes;
  recipe.chunks = chunks.data();
  recipe.chunk_count = chunks.size();
  const CallbackScope scope(*this);
  options_.on_recipe(options_.user, &recipe);
}

void Upload::NoteIndexEpoch(std::uint64_t epoch) {
  {
    const std::lock_guard lock(mutex_);
    if (epoch <= totals_.index_epoch) return;
    totals_.index_epoch = epoch;
  }
  if (epoch <= options_.store_epoch || options_.on_index_epoch == nullptr) return;
  const CallbackScope scope(*this);
  options_.on_index_epoch(options_.user, epoch);
}

void Upload::Notify(kerf_notice notice, const std::string& text) {
  if (options_.on_notice == nullptr) return;
  const CallbackScope scope(*this);
  options_.on_notice(options_.user, notice, text.c_str());
}

}  // namespace kerf::c
