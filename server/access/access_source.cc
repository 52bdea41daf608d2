#include "server/access/access_source.h"

#include <utility>

#include "base/status.h"

namespace kerf::access {
namespace {

absl::StatusOr<std::shared_ptr<const AccessState>> Make(const std::string& path,
                                                        const absl::StatusOr<AccessTexts>& texts) {
  if (!texts.ok()) return texts.status();
  KERF_ASSIGN_OR_RETURN(AccessState state, AccessState::Make(path, *texts));
  return std::make_shared<const AccessState>(std::move(state));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AccessSource>> AccessSource::Open(
    const std::string& path, OnReload on_reload, std::chrono::milliseconds interval) {
  std::unique_ptr<AccessSource> source(new AccessSource(path, std::move(on_reload)));
  AccessReader reader(path);
  const absl::StatusOr<AccessTexts> texts = reader.Read();
  KERF_ASSIGN_OR_RETURN(source->current_, Make(path, texts));
  source->watch_.emplace(
      [reader = std::move(reader)]() mutable { return reader.Read(); }, texts,
      [self = source.get()](const absl::StatusOr<AccessTexts>& changed) { self->Adopt(changed); },
      interval);
  return source;
}

std::shared_ptr<const AccessState> AccessSource::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

absl::Status AccessSource::Reload() {
  watch_->LookNow();
  const std::lock_guard lock(mutex_);
  return status_;
}

std::int64_t AccessSource::now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::floor<std::chrono::seconds>(now).count();
}

void AccessSource::Adopt(const absl::StatusOr<AccessTexts>& texts) {
  auto made = Make(path_, texts);
  {
    const std::lock_guard lock(mutex_);
    status_ = made.status();
    if (made.ok()) current_ = *made;
  }
  if (on_reload_ != nullptr) on_reload_(made.status(), *current());
}

}  // namespace kerf::access
