// The arithmetic of a benchmark report: medians, costs, and which part is the wall. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace kerf::bench {

// What one pass over the data cost. CPU seconds are user plus system time of the whole process.
struct PassCost {
  std::uint64_t bytes = 0;
  double seconds = 0;
  double client_cpu_seconds = 0;
  // Nothing: there is no server, or its time cannot be known.
  std::optional<double> server_cpu_seconds;
  bool has_server = false;
};

// One line of the report: medians over the rounds. A GB is 10^9 bytes.
struct RowFigures {
  double seconds = 0;
  double mb_per_second = 0;
  double client_cpu_per_gb = 0;
  std::optional<double> server_cpu_per_gb;
  // Of client and server; nothing if the server's is not known.
  std::optional<double> cpu_per_gb;
};

// The middle one, or the mean of the two in the middle. Of at least one value.
double Median(std::vector<double> values);

// Client and server together; nothing if the server's share is not known.
std::optional<double> CpuPerGb(const PassCost& pass);

// Of at least one pass.
RowFigures Summarize(const std::vector<PassCost>& passes);

// The passes over the same data of each round, in the same order of rounds.
struct RoundCosts {
  std::vector<PassCost> kernels;
  std::vector<PassCost> raw;
  std::vector<PassCost> kerfd;
  // Through a front; empty where there is none.
  std::vector<PassCost> front = {};
  // Where the client shares its memory; empty if that is not measured.
  std::vector<PassCost> shared = {};
  // Where the client cuts; empty if that is not measured.
  std::vector<PassCost> local_cut = {};
};

// kerfd's CPU time over the sum of the raw stream's and of cutting and hashing, of each round.
// Empty if the server's time is not known.
std::vector<double> CostRatios(const RoundCosts& costs);

// How many more bytes go through a CPU second of the transport where memory is shared, of each
// round: what kerfd saves is saved of what the raw stream costs. Empty if that is not measured, or
// not known; a round in which nothing of it is left has none.
std::vector<double> SharedGains(const RoundCosts& costs);

// The rate through the front as a share of that straight to kerfd, of each round. Empty without a
// front.
std::vector<double> FrontShares(const RoundCosts& costs);

// What keeps bytes from going faster.
enum class Wall : std::uint8_t {
  // The raw stream's own work in client and server.
  kTransport,
  // The kernels.
  kCutAndHash,
  // What kerfd adds: the copy, look-ups, commits, answers, and the client's reading of them.
  kIndexAndAnswers,
  // No part has used up what it may use: the time goes into waiting, here or for the processors
  // that other programs use.
  kWaiting,
  // The server's CPU time is not known.
  kUnknown,
};
std::string_view WallName(Wall wall);

struct WallInput {
  RowFigures kernels;
  RowFigures raw;
  RowFigures kerfd;
  std::size_t stream_count = 1;
  std::size_t core_count = 1;
};

// Something is used up from this share on.
inline constexpr double kUsedUpShare = 0.75;

// The rule. Transport is the raw row's CPU time, index and answers what kerfd's row has beyond raw
// and kernels. (1) A stream is cut, looked up and answered by one thread at a time: if kernels plus
// index and answers fill kUsedUpShare of the time of min(streams, cores) threads, the larger of the
// two is the wall. (2) Else, if all CPU time fills kUsedUpShare of all cores, the largest of the
// three. (3) Else, waiting.
Wall FindWall(const WallInput& input);

}  // namespace kerf::bench
