#include "client/lab/bench/figures.h"

#include <gtest/gtest.h>

namespace kerf::bench {
namespace {

constexpr std::uint64_t kGb = 1'000'000'000;

PassCost Pass(double seconds, double client, std::optional<double> server, bool has_server = true) {
  return {.bytes = kGb,
          .seconds = seconds,
          .client_cpu_seconds = client,
          .server_cpu_seconds = server,
          .has_server = has_server};
}

RowFigures Row(double mb_per_second, double cpu) {
  RowFigures row;
  row.mb_per_second = mb_per_second;
  row.cpu_per_gb = cpu;
  return row;
}

TEST(Figures, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({9, 1, 5}), 5);
  EXPECT_EQ(Median({9, 1, 5, 7}), 6);
}

TEST(Figures, CostsArePerGbAndPerMegabyte) {
  PassCost half = Pass(0.25, 0.5, 0.75);
  half.bytes = kGb / 2;
  const RowFigures row = Summarize({half});
  EXPECT_DOUBLE_EQ(row.seconds, 0.25);
  EXPECT_DOUBLE_EQ(row.mb_per_second, 2000);
  EXPECT_DOUBLE_EQ(row.client_cpu_per_gb, 1);
  EXPECT_DOUBLE_EQ(*row.server_cpu_per_gb, 1.5);
  EXPECT_DOUBLE_EQ(*row.cpu_per_gb, 2.5);
}

TEST(Figures, ARowIsOfMediansOfItsRounds) {
  const RowFigures row = Summarize({Pass(1, 1, 2), Pass(4, 3, 1), Pass(2, 2, 9)});
  EXPECT_DOUBLE_EQ(row.mb_per_second, 500);
  EXPECT_DOUBLE_EQ(row.client_cpu_per_gb, 2);
  EXPECT_DOUBLE_EQ(*row.server_cpu_per_gb, 2);
  EXPECT_DOUBLE_EQ(*row.cpu_per_gb, 4);
}

TEST(Figures, WhatIsNotKnownIsNotInvented) {
  const RowFigures row = Summarize({Pass(1, 1, 2), Pass(1, 1, std::nullopt)});
  EXPECT_FALSE(row.server_cpu_per_gb.has_value());
  EXPECT_FALSE(row.cpu_per_gb.has_value());
  const std::vector<PassCost> local = {Pass(1, 1, std::nullopt, false)};
  EXPECT_DOUBLE_EQ(*Summarize(local).cpu_per_gb, 1);
  EXPECT_TRUE(CostRatios({local, {Pass(1, 1, 1)}, {Pass(1, 1, std::nullopt)}}).empty());
}

TEST(Figures, RatiosAreOfOneRoundEach) {
  const std::vector<PassCost> local = {Pass(1, 0.5, std::nullopt, false),
                                       Pass(1, 1, std::nullopt, false)};
  const std::vector<double> ratios = CostRatios(
      {local, {Pass(1, 0.25, 0.25), Pass(1, 0.5, 0.5)}, {Pass(1, 1, 1), Pass(1, 1, 1.5)}});
  ASSERT_EQ(ratios.size(), 2u);
  EXPECT_DOUBLE_EQ(ratios[0], 2);
  EXPECT_DOUBLE_EQ(ratios[1], 1.25);
}

TEST(Figures, SharesOfAFrontAreOfOneRoundEach) {
  RoundCosts costs;
  costs.kerfd = {Pass(1, 1, 1), Pass(3, 1, 1)};
  EXPECT_TRUE(FrontShares(costs).empty());
  costs.front = {Pass(2, 1, 1), Pass(4, 1, 1)};
  EXPECT_EQ(FrontShares(costs), (std::vector<double>{0.5, 0.75}));
}

TEST(Figures, WhatSharedMemorySavesIsSavedOfTheTransport) {
  RoundCosts costs;
  costs.raw = {Pass(1, 0.75, 0), Pass(1, 0.75, 0), Pass(1, 0.75, 0)};
  costs.kerfd = {Pass(1, 1, 0.5), Pass(1, 1, 0.5), Pass(1, 1, 0.5)};
  EXPECT_TRUE(SharedGains(costs).empty());
  // A third of the transport is left; all of it; more is saved than there was.
  costs.shared = {Pass(1, 0.5, 0.5), Pass(1, 1, 0.5), Pass(1, 0.25, 0.25)};
  EXPECT_EQ(SharedGains(costs), (std::vector<double>{3, 1}));
}

TEST(Figures, OneStreamIsBoundByItsOneThread) {
  // 1 GB takes 1 s; kernels and rest take 0.8 s of the one thread that a stream has.
  WallInput input{.kernels = Row(2000, 0.5),
                  .raw = Row(1500, 0.6),
                  .kerfd = Row(1000, 1.4),
                  .stream_count = 1,
                  .core_count = 8};
  EXPECT_EQ(FindWall(input), Wall::kCutAndHash);
  input.kernels = Row(2000, 0.3);
  EXPECT_EQ(FindWall(input), Wall::kIndexAndAnswers);
  // With eight streams, eight threads have that time.
  input.stream_count = 8;
  EXPECT_EQ(FindWall(input), Wall::kWaiting);
}

TEST(Figures, ManyStreamsAreBoundByAllCores) {
  // 1 GB takes 1 s of 2 cores, and 1.6 s of CPU.
  WallInput input{.kernels = Row(2000, 0.5),
                  .raw = Row(1500, 0.9),
                  .kerfd = Row(1000, 1.6),
                  .stream_count = 8,
                  .core_count = 2};
  EXPECT_EQ(FindWall(input), Wall::kTransport);
  input.kernels = Row(2000, 0.7);
  input.raw = Row(1500, 0.6);
  EXPECT_EQ(FindWall(input), Wall::kCutAndHash);
  input.kernels = Row(2000, 0.2);
  EXPECT_EQ(FindWall(input), Wall::kIndexAndAnswers);
  input.kerfd = Row(400, 1.6);
  EXPECT_EQ(FindWall(input), Wall::kWaiting);
}

TEST(Figures, WithoutTheServersTimeTheWallIsUnknown) {
  RowFigures kerfd;
  kerfd.mb_per_second = 1000;
  EXPECT_EQ(FindWall({.kernels = Row(2000, 0.5), .raw = Row(1500, 0.9), .kerfd = kerfd}),
            Wall::kUnknown);
  EXPECT_EQ(WallName(Wall::kUnknown), "unknown");
}

}  // namespace
}  // namespace kerf::bench
