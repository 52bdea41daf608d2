#include "server/reloader.h"

#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "server/logging/logging.h"

namespace kerf {

Reloader::Reloader(std::vector<ReloadedFiles> files, ServiceManager& manager)
    : files_(std::move(files)),
      manager_(manager),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void Reloader::Ask() {
  const std::lock_guard lock(mutex_);
  is_asked_ = true;
  asked_.notify_one();
}

void Reloader::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (asked_.wait(lock, stop, [this] { return is_asked_; })) {
    is_asked_ = false;
    lock.unlock();
    Reload();
    lock.lock();
  }
}

void Reloader::Reload() {
  manager_.BeginReload();
  std::string wrong;
  for (const ReloadedFiles& files : files_) {
    const absl::Status status = files.reload();
    if (!status.ok()) wrong += Cat("; ", files.name, " goes on as it was: ", MessageOf(status));
  }
  if (!wrong.empty()) {
    Log(LogLevel::kError, Cat("SIGHUP: files are read again", wrong));
  } else if (files_.empty()) {
    Log(LogLevel::kInfo, "SIGHUP: kerfd follows no files; settings are read as it starts");
  } else {
    std::string names;
    for (const ReloadedFiles& files : files_) names += (names.empty() ? "" : ", ") + files.name;
    Log(LogLevel::kInfo, Cat("SIGHUP: what the files say is in force: ", names));
  }
  manager_.EndReload(wrong.empty() ? "serves" : Cat("serves", wrong));
}

}  // namespace kerf
