#include "base/tls/tls_source.h"

#include <utility>

#include "base/status.h"

namespace kerf {
namespace {

bool IsSame(const absl::StatusOr<TlsTexts>& one, const absl::StatusOr<TlsTexts>& other) {
  return one.status() == other.status() && (!one.ok() || *one == *other);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsSource>> TlsSource::Open(const TlsRules& rules,
                                                           OnReload on_reload,
                                                           std::chrono::milliseconds interval) {
  std::unique_ptr<TlsSource> source(new TlsSource(rules, std::move(on_reload)));
  KERF_ASSIGN_OR_RETURN(const TlsTexts texts, ReadTlsFiles(rules.files));
  KERF_ASSIGN_OR_RETURN(source->current_, TlsContext::Make(rules, texts));
  source->seen_ = source->done_ = texts;
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
  // Whoever writes several files writes one after the other, and a long one in pieces, of which the
  // first may be a good file, too: it is what it was at the last look, or it is waited for.
  if (!IsSame(texts, seen_)) {
    seen_ = std::move(texts);
    return;
  }
  if (IsSame(texts, done_)) return;
  done_ = texts;
  auto made = texts.ok() ? TlsContext::Make(rules_, *texts)
                         : absl::StatusOr<std::shared_ptr<const TlsContext>>(texts.status());
  if (made.ok()) {
    const std::lock_guard lock(mutex_);
    current_ = *made;
  }
  if (on_reload_ != nullptr) on_reload_(made.status(), *current());
}

}  // namespace kerf
