// What processes of this machine use: CPU time and memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace kerf::bench {

// User plus system time of all threads since the process began, ended threads included. In
// nanoseconds of resolution, where /proc counts ticks of 10 ms.
double OwnCpuSeconds();
// Nothing if the process is not there.
std::optional<double> CpuSeconds(pid_t process);

// Waits until the process has used next to no CPU time for a moment, so that what it still does for
// earlier work is not counted to later work. Returns its CPU time then; gives up after 2 s.
std::optional<double> CpuSecondsAtRest(pid_t process);

struct MemoryUse {
  std::uint64_t resident_bytes = 0;
  // Since the process began, or since the last ResetPeak.
  std::uint64_t peak_resident_bytes = 0;
};
std::optional<MemoryUse> ReadMemory(pid_t process);
// The peak begins anew with what is resident now. False if the system does not let us.
bool ResetPeak(pid_t process);

struct Machine {
  std::string cpu_model;
  std::uint32_t core_count = 0;
  // Over the last minute; other programs' work counts.
  double load = 0;
};
Machine DescribeMachine();

}  // namespace kerf::bench
