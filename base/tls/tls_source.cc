#include "base/tls/tls_source.h"

#include <utility>

#include "base/status.h"

namespace kerf {

absl::StatusOr<std::unique_ptr<TlsSource>> TlsSource::Open(const TlsRules& rules,
                                                           OnReload on_reload,
                                                           std::chrono::milliseconds interval) {
  std::unique_ptr<TlsSource> source(new TlsSource(rules, std::move(on_reload)));
  KERF_ASSIGN_OR_RETURN(source->texts_, ReadTlsFiles(rules.files));
  KERF_ASSIGN_OR_RETURN(source->current_, TlsContext::Make(rules, source->texts_));
  source->thread_ = std::jthread([self = source.get(), interval](const std::stop_token& stop) {
    self->Watch(stop, interval);
  });
  return source;
}

std::shared_ptr<const TlsContext> TlsSource::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

void TlsSource::Watch(const std::stop_token& stop, std::chrono::milliseconds interval) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  while (true) {
    stopped.wait_for(lock, stop, interval, [] { return false; });
    if (stop.stop_requested()) return;
    Look();
  }
}

void TlsSource::Look() {
  absl::StatusOr<TlsTexts> texts = ReadTlsFiles(rules_.files);
  if (texts.ok() && *texts == texts_ && status_.ok()) {
    is_doubted_ = false;
    return;
  }
  auto made = texts.ok() ? TlsContext::Make(rules_, *texts)
                         : absl::StatusOr<std::shared_ptr<const TlsContext>>(texts.status());
  if (made.ok()) {
    texts_ = *std::move(texts);
    status_ = absl::OkStatus();
    is_doubted_ = false;
    {
      const std::lock_guard lock(mutex_);
      current_ = *made;
    }
    if (on_reload_ != nullptr) on_reload_(absl::OkStatus(), **made);
    return;
  }
  // Whoever writes several files writes one after the other: said at the second look only.
  if (!std::exchange(is_doubted_, true) || made.status() == status_) return;
  status_ = made.status();
  if (on_reload_ != nullptr) on_reload_(status_, *current());
}

}  // namespace kerf
