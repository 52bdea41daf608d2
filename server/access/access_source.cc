#include "server/access/access_source.h"

#include <utility>

#include "base/small_file.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::access {
namespace {

absl::StatusOr<std::shared_ptr<const AccessRules>> Make(const std::string& path,
                                                        const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return text.status();
  absl::StatusOr<AccessRules> rules = AccessRules::Parse(*text);
  if (!rules.ok()) return Annotate(rules.status(), path);
  return std::make_shared<const AccessRules>(*std::move(rules));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AccessSource>> AccessSource::Open(
    const std::string& path, OnReload on_reload, std::chrono::milliseconds interval) {
  std::unique_ptr<AccessSource> source(new AccessSource(path, std::move(on_reload)));
  const auto read = [path] { return ReadSmallFile(path, kMaxAccessFileBytes); };
  const absl::StatusOr<std::string> text = read();
  KERF_ASSIGN_OR_RETURN(source->current_, Make(path, text));
  source->watch_.emplace(
      read, text,
      [self = source.get()](const absl::StatusOr<std::string>& changed) { self->Adopt(changed); },
      interval);
  return source;
}

std::shared_ptr<const AccessRules> AccessSource::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

std::int64_t AccessSource::now_s() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::floor<std::chrono::seconds>(now).count();
}

void AccessSource::Adopt(const absl::StatusOr<std::string>& text) {
  auto made = Make(path_, text);
  if (made.ok()) {
    const std::lock_guard lock(mutex_);
    current_ = *made;
  }
  if (on_reload_ != nullptr) on_reload_(made.status(), *current());
}

}  // namespace kerf::access
