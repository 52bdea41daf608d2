// The TLS context of now: files are read anew when they have changed.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/content_watch.h"
#include "base/tls/tls_context.h"

namespace kerf {

// How often files are looked at: a change is in force once two looks have seen the same.
inline constexpr std::chrono::milliseconds kTlsReloadInterval{2'000};

// Connections that were made before a change stay as they are. Thread-safe.
class TlsSource {
 public:
  // Told of each change of the files that was seen, by a thread of its own or that of Reload: OK if
  // it is in force, else why what was there before still is. Once for each content.
  using OnReload = std::function<void(const absl::Status& status, const TlsContext& context)>;

  // The errors of ReadTlsFiles and TlsContext::Make. `on_reload` may be null.
  static absl::StatusOr<std::unique_ptr<TlsSource>> Open(
      const TlsRules& rules, OnReload on_reload,
      std::chrono::milliseconds interval = kTlsReloadInterval);
  TlsSource(const TlsSource&) = delete;
  TlsSource& operator=(const TlsSource&) = delete;
  ~TlsSource() = default;

  std::shared_ptr<const TlsContext> current() const;

  // Reads the files at once, for those who say that all of them are written. OK: what they say is
  // in force; else why what was there before still is, each time that it is asked.
  absl::Status Reload();

 private:
  TlsSource(TlsRules rules, OnReload on_reload)
      : rules_(std::move(rules)), on_reload_(std::move(on_reload)) {}

  void Adopt(const absl::StatusOr<TlsTexts>& texts);

  const TlsRules rules_;
  const OnReload on_reload_;

  mutable std::mutex mutex_;
  std::shared_ptr<const TlsContext> current_;
  // Of what stands in the files, as far as they were looked at.
  absl::Status status_;

  // Last: it uses all of them.
  std::optional<ContentWatch<TlsTexts>> watch_;
};

}  // namespace kerf
