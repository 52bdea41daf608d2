// What --access says now: its files are read anew when they have changed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/content_watch.h"
#include "server/access/access_state.h"

namespace kerf::access {

// How often they are looked at: a change is in force once two looks have seen the same.
inline constexpr std::chrono::milliseconds kAccessReloadInterval{1'000};

// Thread-safe.
class AccessSource {
 public:
  // Told of each change of the files that was seen, by a thread of its own or that of Reload: OK if
  // it is in force, else why what was there before still is. Once for each content.
  using OnReload = std::function<void(const absl::Status& status, const AccessState& state)>;

  // InvalidArgument for a file that is none (AccessState::Make), and errors of reading, name it.
  // `on_reload` may be null.
  static absl::StatusOr<std::unique_ptr<AccessSource>> Open(
      const std::string& path, OnReload on_reload,
      std::chrono::milliseconds interval = kAccessReloadInterval);
  AccessSource(const AccessSource&) = delete;
  AccessSource& operator=(const AccessSource&) = delete;
  ~AccessSource() = default;

  std::shared_ptr<const AccessState> current() const;
  // As TlsSource::Reload.
  absl::Status Reload();
  // By the clock of the wall, in which the file has its times. Seconds since 1970.
  static std::int64_t now_s();

 private:
  AccessSource(std::string path, OnReload on_reload)
      : path_(std::move(path)), on_reload_(std::move(on_reload)) {}

  void Adopt(const absl::StatusOr<AccessTexts>& texts);

  const std::string path_;
  const OnReload on_reload_;

  mutable std::mutex mutex_;
  std::shared_ptr<const AccessState> current_;
  // Of what stands in the files, as far as they were looked at.
  absl::Status status_;

  // Last: it uses all of them.
  std::optional<ContentWatch<AccessTexts>> watch_;
};

}  // namespace kerf::access
