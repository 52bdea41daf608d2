#include "server/index/set_aside.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <compare>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

// What is behind the prefix of a name: a time of the clock that the machine had, and a number for
// those of one second.
struct Stamp {
  std::string time;
  int number = 0;

  friend auto operator<=>(const Stamp&, const Stamp&) = default;
};

Stamp StampOf(std::string_view text) {
  const std::size_t dash = text.find('-');
  Stamp stamp{std::string(text.substr(0, dash)), 0};
  if (dash == std::string_view::npos) return stamp;
  // What is no number stays 0.
  std::from_chars(text.data() + dash + 1, text.data() + text.size(), stamp.number);
  return stamp;
}

std::string TextOf(const Stamp& stamp) {
  return stamp.number == 0 ? stamp.time : Cat(stamp.time, "-", stamp.number);
}

struct Found {
  Stamp stamp;
  std::string name;
};

std::vector<Found> FoundIn(const std::string& folder, const std::string& prefix) {
  std::vector<Found> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    found.push_back({StampOf(std::string_view(name).substr(prefix.size())), name});
  }
  return found;
}

// `last` is the one that came last: those whose time is later were named by a clock that was ahead,
// and are older.
void DeleteOldest(const std::string& folder, const std::string& prefix, const Stamp& last,
                  std::size_t kept_count) {
  std::vector<Found> all = FoundIn(folder, prefix);
  std::sort(all.begin(), all.end(), [&](const Found& left, const Found& right) {
    return std::pair(left.stamp <= last, left.stamp) < std::pair(right.stamp <= last, right.stamp);
  });
  std::error_code error;
  for (std::size_t index = 0; index + kept_count < all.size(); ++index) {
    const std::string path = Cat(folder, "/", all[index].name);
    Log(LogLevel::kWarning, Cat("deleting ", path, ": ", kept_count, " damaged indexes are newer"));
    std::filesystem::remove_all(path, error);
  }
}

}  // namespace

absl::StatusOr<std::string> SetAside(const std::string& folder, const std::string& name,
                                     int kept_count) {
  const std::string prefix = name + ".damaged-";
  Stamp stamp{absl::FormatTime("%Y%m%dT%H%M%SZ", absl::Now(), absl::UTCTimeZone()), 0};
  for (const Found& other : FoundIn(folder, prefix)) {
    if (other.stamp.time == stamp.time) {
      stamp.number = std::max(stamp.number, other.stamp.number + 1);
    }
  }
  const std::string from = Cat(folder, "/", name);
  const std::string to = Cat(folder, "/", prefix, TextOf(stamp));
  if (rename(from.c_str(), to.c_str()) != 0) {
    return absl::UnavailableError(
        ToAbsl(Cat("cannot rename ", from, " to ", to, ": ", std::strerror(errno))));
  }
  const UniqueFd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.valid()) fsync(opened.get());
  DeleteOldest(folder, prefix, stamp, static_cast<std::size_t>(kept_count));
  return to;
}

}  // namespace kerf
