#include "server/index/set_aside.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

// Those of one second.
constexpr int kMaxOfOneTime = 100;

void DeleteOldest(const std::string& folder, const std::string& prefix, std::size_t kept_count) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix)) names.push_back(name);
  }
  // By their times.
  std::sort(names.begin(), names.end());
  for (; names.size() > kept_count; names.erase(names.begin())) {
    Log(LogLevel::kWarning, Cat("deleting ", folder, "/", names.front(), ": ", kept_count,
                                " damaged indexes are newer"));
    std::filesystem::remove_all(Cat(folder, "/", names.front()), error);
  }
}

}  // namespace

absl::StatusOr<std::string> SetAside(const std::string& folder, const std::string& name,
                                     int kept_count) {
  const std::string prefix = name + ".damaged-";
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%SZ", absl::Now(), absl::UTCTimeZone());
  const std::string from = Cat(folder, "/", name);
  for (int number = 0; number < kMaxOfOneTime; ++number) {
    const std::string to =
        Cat(folder, "/", prefix, time, number == 0 ? std::string() : Cat("-", number));
    std::error_code error;
    if (std::filesystem::exists(to, error)) continue;
    if (rename(from.c_str(), to.c_str()) != 0) {
      return absl::UnavailableError(
          ToAbsl(Cat("cannot rename ", from, " to ", to, ": ", std::strerror(errno))));
    }
    const UniqueFd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened.valid()) fsync(opened.get());
    DeleteOldest(folder, prefix, static_cast<std::size_t>(kept_count));
    return to;
  }
  return absl::UnavailableError(ToAbsl(Cat(from, ": too many are set aside at once")));
}

}  // namespace kerf
