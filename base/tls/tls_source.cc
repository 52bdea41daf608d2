#include "base/tls/tls_source.h"

#include <utility>

#include "base/status.h"

namespace kerf {
absl::StatusOr<std::unique_ptr<TlsSource>> TlsSource::Open(const TlsRules& rules,
                                                           OnReload on_reload,
                                                           std::chrono::milliseconds interval) {
  std::unique_ptr<TlsSource> source(new TlsSource(rules, std::move(on_reload)));
  KERF_ASSIGN_OR_RETURN(const TlsTexts texts, ReadTlsFiles(rules.files));
  KERF_ASSIGN_OR_RETURN(source->current_, TlsContext::Make(rules, texts));
  source->watch_.emplace(
      [rules] { return ReadTlsFiles(rules.files); }, texts,
      [self = source.get()](const absl::StatusOr<TlsTexts>& changed) { self->Adopt(changed); },
      interval);
  return source;
}

std::shared_ptr<const TlsContext> TlsSource::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

absl::Status TlsSource::Reload() {
  watch_->LookNow();
  const std::lock_guard lock(mutex_);
  return status_;
}

void TlsSource::Adopt(const absl::StatusOr<TlsTexts>& texts) {
  auto made = texts.ok() ? TlsContext::Make(rules_, *texts)
                         : absl::StatusOr<std::shared_ptr<const TlsContext>>(texts.status());
  {
    const std::lock_guard lock(mutex_);
    status_ = made.status();
    if (made.ok()) current_ = *made;
  }
  if (on_reload_ != nullptr) on_reload_(made.status(), *current());
}

}  // namespace kerf
