// How a stream begins: what its Open asks for, whether it may have it, and what it is told.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/strings.h"
#include "kernels/cuda/pipeline/gpu_set.h"
#include "kernels/registry.h"
#include "server/audit/call_record.h"
#include "server/errors/errors.h"
#include "server/hints/hint_cache.h"
#include "server/index/rules.h"
#include "server/session/features.h"
#include "server/worker/answer_encoder.h"
#include "server/worker/buffer_pool.h"
#include "server/worker/upload.h"
#include "server/worker/worker_settings.h"

namespace kerf {

Task<absl::Status> Upload::OnOpen(const v1::Open& open) {
  // Also of one that is refused.
  strand_.record().SetOpen(open.repository(), open.digest_algorithm(), open.profile(),
                           open.agent());
  KERF_CO_RETURN_IF_ERROR(session_.Open(open));
  is_opening_ = true;
  KERF_CO_RETURN_IF_ERROR(co_await CheckOpen());
  co_return Begin(open);
}

Task<absl::Status> Upload::CheckOpen() {
  // First: what the index would answer is not for everybody.
  KERF_CO_RETURN_IF_ERROR(strand_.sink().MayStoreIn(session_.parameters().repository.name));
  if (context_.repositories != nullptr) {
    KERF_CO_RETURN_IF_ERROR(co_await IsKnown(NewCall()));
  }
  // Any other epoch no index is far behind.
  if (session_.parameters().store_epoch <= index_rules::kMaxEpochStep) co_return absl::OkStatus();
  const std::shared_ptr<StreamCall> call = NewCall();
  call->digests.resize(1);
  KERF_CO_RETURN_IF_ERROR(co_await LookUp(call));
  co_return absl::OkStatus();
}

absl::Status Upload::Begin(const v1::Open& open) {
  const UploadProfile& profile = session_.parameters().profile;
  const RepositoryId& repository = session_.parameters().repository;
  KERF_RETURN_IF_ERROR(CheckCriterion(context_.hints.get(), repository, profile));
  if (ClientCuts(open.cutter())) {
    session_.LetClientCut();
    named_ = std::make_unique<NamedChunks>(repository.digest_algorithm);
  } else {
    KERF_RETURN_IF_ERROR(BeginCutting());
    ShareData(open.shared_memory());
    if (!session_.shares_data()) strand_.ReadAhead();
  }
  // One chunk must fit, however little a quota lets by.
  max_named_bytes_ = std::min<std::uint64_t>(
      std::max<std::uint64_t>(strand_.sink().NameableBytes(), profile.rule.max_bytes),
      context_.limits.max_named_bytes);
  AppendAnswer(Opened(), &answers_);
  return AccountSession();
}

v1::UploadAnswer Upload::Opened() const {
  const UploadProfile& profile = session_.parameters().profile;
  v1::UploadAnswer answer;
  v1::Opened& opened = *answer.mutable_opened();
  opened.set_session_id(strand_.session_id());
  FillLimits(context_.limits, opened.mutable_limits());
  opened.set_worker(context_.worker_name);
  if (session_.client_cuts() || session_.shares_data()) {
    opened.mutable_limits()->set_max_named_bytes(static_cast<std::uint32_t>(max_named_bytes_));
  }
  opened.set_takes_shared_data(session_.shares_data());
  if (session_.client_cuts()) {
    opened.set_cutter(v1::CUTTER_CLIENT);
  } else {
    opened.set_backend(std::string(gpu_ != nullptr ? kGpuBackend : ChosenBackend(profile.rule)));
  }
  opened.set_profile(FormatUploadProfile(profile));
  for (const std::string_view name : kServerFeatures) opened.add_features(std::string(name));
  if (context_.shared_memories != nullptr) opened.add_features(std::string(kSharedDataFeature));
  return answer;
}

bool Upload::ClientCuts(v1::Cutter wanted) const {
  const UploadProfile& profile = session_.parameters().profile;
  // Its cuts depend on hints, which the server has.
  if (profile.criterion.has_value()) return false;
  if (wanted == v1::CUTTER_CLIENT) return true;
  return wanted == v1::CUTTER_CLIENT_UNLESS_GPU && GpuPlan() == nullptr;
}

std::shared_ptr<const cuda::BatchPlan> Upload::GpuPlan() const {
  const UploadProfile& profile = session_.parameters().profile;
  if (context_.gpus == nullptr || profile.criterion.has_value()) return nullptr;
  // Where no piece is so large the CPU has all of them, and need not keep as much for them.
  const std::size_t most_bytes = GpuBufferBytes();
  if (most_bytes < context_.gpus->min_piece_bytes()) return nullptr;
  auto plan =
      context_.gpus->PlanOf(profile.rule, session_.parameters().repository.digest_algorithm);
  if (plan == nullptr || most_bytes < context_.gpus->min_piece_bytes(*plan)) return nullptr;
  return plan;
}

std::size_t Upload::GpuBufferBytes() const {
  const std::size_t max_chunk_bytes = session_.parameters().profile.rule.max_bytes;
  return std::max({context_.buffers->buffer_bytes(), 2 * max_chunk_bytes,
                   std::min({kGpuPieceBytes, context_.max_cut_buffer_bytes,
                             context_.gpus->max_piece_bytes()})});
}

absl::Status Upload::BeginCutting() {
  const UploadProfile& profile = session_.parameters().profile;
  const RepositoryId& repository = session_.parameters().repository;
  chunker_ = MakeChunker(profile.rule);
  if (auto plan = GpuPlan(); plan != nullptr) {
    gpu_ = std::make_unique<GpuPieces>(&context_, strand_.weak_from_this(), std::move(plan));
  }
  KERF_ASSIGN_OR_RETURN(const std::size_t capacity_bytes, CutBufferBytes());
  std::optional<HintedCutting> hinted;
  if (context_.hints != nullptr && HintScope(repository, profile).is_useful()) {
    hints_ = std::make_unique<FileHints>(context_.hints, repository, profile, context_.now);
    // A GPU that scans everything is quicker than hints.
    if (gpu_ == nullptr && IsWorthFollowing(profile)) {
      hinted = {profile, repository.digest_algorithm, hints_->source()};
    }
  }
  cutter_ = std::make_unique<CutBuffer>(chunker_.get(), capacity_bytes, context_.buffers, hinted);
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> Upload::CutBufferBytes() const {
  std::size_t capacity_bytes =
      std::max(context_.buffers->buffer_bytes(), 2 * chunker_->max_chunk_bytes());
  if (gpu_ != nullptr) capacity_bytes = std::max(capacity_bytes, GpuBufferBytes());
  if (capacity_bytes > context_.max_cut_buffer_bytes) {
    return MakeError(Reason::kProfileTooLarge,
                     Cat("chunks of up to ", chunker_->max_chunk_bytes(),
                         " bytes need a buffer of ", capacity_bytes,
                         "; this server gives a stream at most ", context_.max_cut_buffer_bytes));
  }
  // A stream that waits would hold a place; one that is refused can go elsewhere.
  MemoryBudget& budget = *context_.work_budget;
  if (!budget.HasRoomFor(capacity_bytes)) {
    return MakeError(Reason::kMemoryExhausted,
                     Cat("the server's streams hold ", budget.used_bytes(), " of ",
                         budget.limit_bytes(), " bytes; come back later"));
  }
  return capacity_bytes;
}

}  // namespace kerf
