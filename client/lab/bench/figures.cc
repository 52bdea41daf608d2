#include "client/lab/bench/figures.h"

#include <algorithm>

#include "base/check.h"

namespace kerf::bench {
namespace {

constexpr double kBytesPerGb = 1e9;
constexpr double kBytesPerMb = 1e6;

double PerGb(double value, const PassCost& pass) {
  return value / (static_cast<double>(pass.bytes) / kBytesPerGb);
}

}  // namespace

double Median(std::vector<double> values) {
  KERF_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<double> CpuPerGb(const PassCost& pass) {
  if (!pass.has_server) return PerGb(pass.client_cpu_seconds, pass);
  if (!pass.server_cpu_seconds.has_value()) return std::nullopt;
  return PerGb(pass.client_cpu_seconds + *pass.server_cpu_seconds, pass);
}

RowFigures Summarize(const std::vector<PassCost>& passes) {
  std::vector<double> seconds;
  std::vector<double> rates;
  std::vector<double> client;
  std::vector<double> server;
  std::vector<double> total;
  for (const PassCost& pass : passes) {
    seconds.push_back(pass.seconds);
    rates.push_back(static_cast<double>(pass.bytes) / kBytesPerMb / pass.seconds);
    client.push_back(PerGb(pass.client_cpu_seconds, pass));
    if (pass.server_cpu_seconds.has_value()) {
      server.push_back(PerGb(*pass.server_cpu_seconds, pass));
    }
    if (const auto cpu = CpuPerGb(pass); cpu.has_value()) total.push_back(*cpu);
  }
  RowFigures row;
  row.seconds = Median(seconds);
  row.mb_per_second = Median(rates);
  row.client_cpu_per_gb = Median(client);
  if (server.size() == passes.size()) row.server_cpu_per_gb = Median(server);
  if (total.size() == passes.size()) row.cpu_per_gb = Median(total);
  return row;
}

std::vector<double> CostRatios(const RoundCosts& costs) {
  KERF_CHECK(costs.kernels.size() == costs.raw.size() && costs.raw.size() == costs.kerfd.size());
  std::vector<double> ratios;
  for (std::size_t round = 0; round < costs.kerfd.size(); ++round) {
    const auto kernels = CpuPerGb(costs.kernels[round]);
    const auto raw = CpuPerGb(costs.raw[round]);
    const auto kerfd = CpuPerGb(costs.kerfd[round]);
    if (!kernels || !raw || !kerfd) return {};
    ratios.push_back(*kerfd / (*raw + *kernels));
  }
  return ratios;
}

std::vector<double> SharedGains(const RoundCosts& costs) {
  std::vector<double> gains;
  for (std::size_t round = 0; round < costs.shared.size(); ++round) {
    const std::optional<double> raw = CpuPerGb(costs.raw[round]);
    const std::optional<double> kerfd = CpuPerGb(costs.kerfd[round]);
    const std::optional<double> shared = CpuPerGb(costs.shared[round]);
    if (!raw || !kerfd || !shared) continue;
    const double left = *raw - (*kerfd - *shared);
    if (left > 0) gains.push_back(*raw / left);
  }
  return gains;
}

std::vector<double> FrontShares(const RoundCosts& costs) {
  KERF_CHECK(costs.front.empty() || costs.front.size() == costs.kerfd.size());
  std::vector<double> shares;
  for (std::size_t round = 0; round < costs.front.size(); ++round) {
    const PassCost& straight = costs.kerfd[round];
    const PassCost& through = costs.front[round];
    KERF_CHECK(straight.bytes == through.bytes);
    shares.push_back(straight.seconds / through.seconds);
  }
  return shares;
}

std::string_view WallName(Wall wall) {
  switch (wall) {
    case Wall::kTransport:
      return "transport";
    case Wall::kCutAndHash:
      return "cut_and_hash";
    case Wall::kIndexAndAnswers:
      return "index_and_answers";
    case Wall::kWaiting:
      return "waiting";
    case Wall::kUnknown:
      return "unknown";
  }
  KERF_CHECK(false && "a wall that exists");
  return "";
}

Wall FindWall(const WallInput& input) {
  if (!input.kernels.cpu_per_gb || !input.raw.cpu_per_gb || !input.kerfd.cpu_per_gb) {
    return Wall::kUnknown;
  }
  const double kernels = *input.kernels.cpu_per_gb;
  const double transport = *input.raw.cpu_per_gb;
  const double rest = std::max(0.0, *input.kerfd.cpu_per_gb - kernels - transport);
  const double seconds_per_gb = kBytesPerGb / kBytesPerMb / input.kerfd.mb_per_second;
  const double strands = static_cast<double>(std::min(input.stream_count, input.core_count));
  if (kernels + rest >= kUsedUpShare * seconds_per_gb * strands) {
    return kernels >= rest ? Wall::kCutAndHash : Wall::kIndexAndAnswers;
  }
  if (*input.kerfd.cpu_per_gb >=
      kUsedUpShare * seconds_per_gb * static_cast<double>(input.core_count)) {
    if (transport >= kernels && transport >= rest) return Wall::kTransport;
    return kernels >= rest ? Wall::kCutAndHash : Wall::kIndexAndAnswers;
  }
  return Wall::kWaiting;
}

}  // namespace kerf::bench
