#include "client/lab/bench/process_costs.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/strings.h"

namespace kerf::bench {
namespace {

// At rest: less than 1 ms of CPU time in 20 ms. kerfd's watchdog alone needs far less.
constexpr std::chrono::milliseconds kRestInterval{20};
constexpr double kRestCpuSeconds = 0.001;
constexpr int kMaxRestIntervals = 100;
constexpr std::uint64_t kBytesPerKib = 1024;

double Seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// The number behind `name` in a line such as "VmRSS:     123 kB".
bool ReadKib(const std::string& line, const char* name, std::uint64_t* bytes) {
  const std::string prefix = Cat(name, ":");
  if (!line.starts_with(prefix)) return false;
  *bytes = std::strtoull(line.c_str() + prefix.size(), nullptr, 10) * kBytesPerKib;
  return true;
}

}  // namespace

double OwnCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return Seconds(time);
}

std::optional<double> CpuSeconds(pid_t process) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return std::nullopt;
  }
  return Seconds(time);
}

std::optional<double> CpuSecondsAtRest(pid_t process) {
  std::optional<double> last = CpuSeconds(process);
  for (int interval = 0; interval < kMaxRestIntervals && last.has_value(); ++interval) {
    std::this_thread::sleep_for(kRestInterval);
    const std::optional<double> now = CpuSeconds(process);
    if (!now.has_value() || *now - *last < kRestCpuSeconds) return now;
    last = now;
  }
  return last;
}

std::optional<MemoryUse> ReadMemory(pid_t process) {
  std::ifstream file(Cat("/proc/", process, "/status"));
  MemoryUse use;
  bool has_resident = false;
  bool has_peak = false;
  std::string line;
  while (std::getline(file, line)) {
    has_resident = has_resident || ReadKib(line, "VmRSS", &use.resident_bytes);
    has_peak = has_peak || ReadKib(line, "VmHWM", &use.peak_resident_bytes);
  }
  if (!has_resident || !has_peak) return std::nullopt;
  return use;
}

bool ResetPeak(pid_t process) {
  std::ofstream file(Cat("/proc/", process, "/clear_refs"));
  file << "5" << std::flush;
  return file.good();
}

Machine DescribeMachine() {
  Machine machine;
  std::ifstream cpu("/proc/cpuinfo");
  std::string line;
  while (machine.cpu_model.empty() && std::getline(cpu, line)) {
    if (line.starts_with("model name")) machine.cpu_model = line.substr(line.find(':') + 2);
  }
  if (machine.cpu_model.empty()) machine.cpu_model = "unknown";
  machine.core_count = std::max(1u, std::thread::hardware_concurrency());
  double load = 0;
  if (getloadavg(&load, 1) == 1) machine.load = load;
  return machine;
}

}  // namespace kerf::bench
