#include "client/agent/top/table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "client/agent/top/activity.h"

namespace kerf::agent {
namespace {

WorkerLook LookAt(const std::string& address, std::uint64_t uptime_ms) {
  WorkerLook look;
  look.address = address;
  look.name = "name-of-" + address;
  look.status.emplace();
  v1::WorkerCounts& counts = *look.status->mutable_counts();
  counts.set_uptime_ms(uptime_ms);
  counts.set_stream_count(3);
  counts.set_max_stream_count(10);
  counts.set_memory_byte_count(100);
  counts.set_max_memory_byte_count(400);
  return look;
}

// A second and a half later: 3 MB came in, 40 chunks of 400 bytes were answered.
WorkerLook Later(const WorkerLook& before) {
  WorkerLook now = before;
  v1::WorkerCounts& counts = *now.status->mutable_counts();
  counts.set_uptime_ms(counts.uptime_ms() + 1500);
  counts.set_ingest_byte_count(counts.ingest_byte_count() + 3'000'000);
  counts.set_new_chunk_count(counts.new_chunk_count() + 7);
  counts.set_duplicate_chunk_count(counts.duplicate_chunk_count() + 30);
  counts.set_unverified_chunk_count(counts.unverified_chunk_count() + 3);
  counts.set_new_byte_count(counts.new_byte_count() + 60);
  counts.set_duplicate_byte_count(counts.duplicate_byte_count() + 300);
  counts.set_unverified_byte_count(counts.unverified_byte_count() + 40);
  counts.set_hints_accepted_count(counts.hints_accepted_count() + 1);
  counts.set_hints_rejected_count(counts.hints_rejected_count() + 1);
  counts.set_hints_absent_count(counts.hints_absent_count() + 1);
  counts.set_hints_late_count(counts.hints_late_count() + 1);
  return now;
}

TEST(ActivityTest, IsWhatHappenedBetweenTwoLooks) {
  const WorkerLook before = Later(LookAt("a", 10'000));
  const auto activity = ActivityBetween(&before, Later(before));
  ASSERT_TRUE(activity.has_value());
  EXPECT_DOUBLE_EQ(activity->ingest_bytes_per_second, 2'000'000);
  EXPECT_DOUBLE_EQ(activity->chunks_per_second, 40 / 1.5);
  EXPECT_DOUBLE_EQ(activity->duplicate_share().value(), 0.75);
  EXPECT_DOUBLE_EQ(activity->hint_share().value(), 0.25);
}

TEST(ActivityTest, IsNotKnownWithoutAnEarlierLook) {
  const WorkerLook now = LookAt("a", 1000);
  WorkerLook lost;
  lost.address = "a";
  WorkerLook old = now;
  old.status->clear_counts();
  EXPECT_FALSE(ActivityBetween(nullptr, now).has_value());
  EXPECT_FALSE(ActivityBetween(&lost, now).has_value());
  EXPECT_FALSE(ActivityBetween(&now, lost).has_value());
  EXPECT_FALSE(ActivityBetween(&old, now).has_value());
  // No time has passed.
  EXPECT_FALSE(ActivityBetween(&now, now).has_value());
}

TEST(ActivityTest, AProcessThatWasStartedAnewCountsFromZero) {
  WorkerLook before = LookAt("a", 50'000);
  before.status->mutable_counts()->set_ingest_byte_count(1'000'000'000);
  WorkerLook now = LookAt("a", 2'000);
  now.status->mutable_counts()->set_ingest_byte_count(4000);
  EXPECT_DOUBLE_EQ(ActivityBetween(&before, now)->ingest_bytes_per_second, 2000);
  EXPECT_FALSE(ActivityBetween(&before, now)->duplicate_share().has_value());
}

TEST(ActivityTest, WhatAServerCannotHaveDoneIsNothing) {
  WorkerLook before = LookAt("a", 1000);
  before.status->mutable_counts()->set_ingest_byte_count(5000);
  before.status->mutable_counts()->set_duplicate_byte_count(5000);
  WorkerLook now = LookAt("a", 2000);
  now.status->mutable_counts()->set_new_byte_count(10);
  const auto activity = ActivityBetween(&before, now);
  EXPECT_EQ(activity->ingest_bytes_per_second, 0);
  EXPECT_EQ(activity->duplicate_bytes, 0u);
  // More duplicates than bytes; more than any number in a table has room for.
  now.status->mutable_counts()->set_new_byte_count(0);
  now.status->mutable_counts()->set_duplicate_byte_count(std::numeric_limits<std::uint64_t>::max());
  now.status->mutable_counts()->set_unverified_byte_count(6000);
  now.status->mutable_counts()->set_ingest_byte_count(std::numeric_limits<std::uint64_t>::max());
  now.status->mutable_counts()->set_uptime_ms(1001);
  EXPECT_LE(ActivityBetween(&before, now)->duplicate_share().value_or(0), 1);
  EXPECT_NE(TopTable({now}, {before})[1].find(" PiB/s"), std::string::npos)
      << TopTable({now}, {before})[1];
}

TEST(TopTableTest, ShowsAllWorkersTheirSumAndWhatIsWrong) {
  WorkerLook lost;
  lost.address = "c:1";
  lost.name = "gamma";
  lost.error = "no\x1b[2Jbody";
  WorkerLook draining = LookAt("a", 1000);
  draining.status->mutable_counts()->set_draining(true);
  WorkerLook degraded = LookAt("b", 1000);
  degraded.status->add_degradations("GPU 0: is lost");
  const WorkerLooks before = {draining, degraded, lost};
  const std::vector<std::string> lines = TopTable({Later(draining), Later(degraded), lost}, before);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0],
            "WORKER    STATE    STREAMS STALLED          IN CHUNKS/S  DEDUP  HINTS MEMORY");
  EXPECT_EQ(lines[1],
            "name-of-a draining    3/10       0   1.9 MiB/s       27  75.0%  25.0%  25.0%");
  EXPECT_EQ(lines[2],
            "name-of-b degraded    3/10       0   1.9 MiB/s       27  75.0%  25.0%  25.0%");
  EXPECT_EQ(lines[3],
            "gamma     lost           -       -           -        -      -      -      -");
  EXPECT_EQ(lines[4],
            "all 3                 6/20       0   3.8 MiB/s       53  75.0%  25.0%  25.0%");
  EXPECT_EQ(lines[5], "name-of-b: GPU 0: is lost");
  EXPECT_EQ(lines[6], "gamma at c:1 is lost: no\\x1b[2Jbody");
}

TEST(TopTableTest, WhatIsNotKnownIsADash) {
  const std::vector<std::string> lines = TopTable({LookAt("a", 1000)}, {});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1],
            "name-of-a serving     3/10       0           -        -      -      -  25.0%");
  WorkerLook old = LookAt("b", 0);
  old.name.clear();
  old.status->clear_counts();
  const std::vector<std::string> of_old = TopTable({old}, {});
  ASSERT_EQ(of_old.size(), 3u);
  EXPECT_EQ(of_old[1],
            "b        serving        -       -           -        -      -      -      -");
  EXPECT_NE(of_old[2].find("older"), std::string::npos);
}

TEST(TopTableTest, NoServerSteersATerminal) {
  WorkerLook look = LookAt("a", 1000);
  std::string all;
  for (int code = 0; code < 256; ++code) all += static_cast<char>(code);
  look.address = look.name = all;
  WorkerLook long_named = LookAt("b", 1000);
  long_named.name = std::string(500, '\x1b');
  look.status->add_degradations(all);
  WorkerLook lost;
  lost.address = lost.name = lost.error =
      "\x1b]0;title\x07\n\r\xc2\x9b"
      "2J\xff\x7f";
  for (const std::string& line : TopTable({look, long_named, lost}, {})) {
    for (const char character : line) {
      const auto byte = static_cast<unsigned char>(character);
      EXPECT_TRUE(byte >= 0x20 && byte < 0x7F) << line;
    }
    EXPECT_LT(line.size(), 2000u);
  }
  EXPECT_LT(TopTable({long_named}, {})[1].size(), 150u);
}

TEST(TopTableTest, FitsIntoAWindow) {
  const std::vector<std::string> lines = {
      "gr\xc3\xbc\xc3\x9f"
      "e",
      "second", "third"};
  EXPECT_EQ(FitTo(lines, 3, 80), lines);
  EXPECT_EQ(FitTo(lines, 5, 4), (std::vector<std::string>{"gr\xc3\xbc\xc3\x9f", "seco", "thir"}));
  EXPECT_EQ(FitTo(lines, 2, 80), (std::vector<std::string>{"gr\xc3\xbc\xc3\x9f"
                                                           "e",
                                                           "... and 2 more lines"}));
  EXPECT_EQ(FitTo(lines, 1, 3), (std::vector<std::string>{"..."}));
}

TEST(TopJsonTest, HasRatesAndTotals) {
  const WorkerLook before = LookAt("a", 1000);
  const nlohmann::json object = TopJson(Later(before), &before);
  EXPECT_EQ(object["state"], "serving");
  EXPECT_EQ(object["worker"], "name-of-a");
  EXPECT_EQ(object["uptime_seconds"], 2.5);
  EXPECT_EQ(object["ingest_bytes_per_second"], 2'000'000);
  EXPECT_EQ(object["duplicate_share"], 0.75);
  EXPECT_EQ(object["hint_share"], 0.25);
  EXPECT_EQ(object["duplicate_bytes"], 300);
  EXPECT_EQ(object["hints_late"], 1);
  const nlohmann::json first = TopJson(before, nullptr);
  for (const char* key :
       {"ingest_bytes_per_second", "chunks_per_second", "duplicate_share", "hint_share"}) {
    EXPECT_TRUE(first[key].is_null()) << key;
  }
  WorkerLook lost;
  lost.address = "c";
  lost.error = "why";
  EXPECT_EQ(TopJson(lost, nullptr)["state"], "lost");
  EXPECT_EQ(TopJson(lost, nullptr)["message"], "why");
}

}  // namespace
}  // namespace kerf::agent
