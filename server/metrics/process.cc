#include "server/metrics/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace kerf::metrics {
namespace {

// Of /proc/self/stat behind the name, which may have any characters in it; counted from 0.
constexpr int kUserTicks = 11;
constexpr int kSystemTicks = 12;
constexpr int kThreads = 17;
constexpr int kStartTicks = 19;
constexpr int kVirtualBytes = 20;
constexpr int kResidentPages = 21;
constexpr int kFieldCount = 22;

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<std::vector<std::uint64_t>> ReadFields() {
  const std::string text = ReadAll("/proc/self/stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  std::vector<std::uint64_t> fields;
  for (std::string field; fields.size() < kFieldCount && rest >> field;) {
    // Letters and negative numbers are none that is needed.
    const bool is_number = field.find_first_not_of("0123456789") == std::string::npos;
    fields.push_back(is_number ? std::stoull(field) : 0);
  }
  if (fields.size() < kFieldCount) return std::nullopt;
  return fields;
}

// When the system was started, since 1970.
std::optional<std::uint64_t> ReadBootTime() {
  std::istringstream lines(ReadAll("/proc/stat"));
  std::string key;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::uint64_t seconds = 0;
    if (words >> key >> seconds && key == "btime") return seconds;
  }
  return std::nullopt;
}

}  // namespace

void AddProcess(Page& page) {
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (const auto fields = ReadFields(); fields.has_value()) {
    const auto ticks = static_cast<double>((*fields)[kUserTicks] + (*fields)[kSystemTicks]);
    page.AddReal(kProcessCpuSeconds, ticks / ticks_per_second);
    if (const auto boot_time = ReadBootTime(); boot_time.has_value()) {
      page.AddReal(kProcessStartTime,
                   static_cast<double>(*boot_time) +
                       static_cast<double>((*fields)[kStartTicks]) / ticks_per_second);
    }
    page.Add(kProcessResidentBytes,
             (*fields)[kResidentPages] * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
    page.Add(kProcessVirtualBytes, (*fields)[kVirtualBytes]);
    page.Add(kProcessThreads, (*fields)[kThreads]);
  }
  std::error_code error;
  std::filesystem::directory_iterator fds("/proc/self/fd", error);
  if (!error) {
    // Less the one that counts them.
    const auto count = std::distance(fds, std::filesystem::directory_iterator());
    page.Add(kProcessOpenFds, static_cast<std::uint64_t>(count > 0 ? count - 1 : 0));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) page.Add(kProcessMaxFds, limit.rlim_cur);
}

}  // namespace kerf::metrics
