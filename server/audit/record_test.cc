#include "server/audit/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/hash_chain.h"
#include "base/random.h"
#include "base/sanitizers.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "server/audit/wall_clock.h"

namespace kerf::audit {
namespace {

// All texts that peers or files may have a say in.
std::vector<std::string*> TextsOf(Record& record) {
  return {
      &record.identity,         &record.proof,   &record.peer,  &record.method,  &record.repository,
      &record.digest_algorithm, &record.profile, &record.agent, &record.outcome, &record.message,
      &record.request_id,       &record.session, &record.worker};
}

// Whatever the texts are: one line of printable ASCII, an object with the same members as always.
nlohmann::json Read(const Record& record) {
  ChainPoint point;
  const std::string line = SealLine(MembersOf(record), &point);
  EXPECT_LT(line.size(), kMaxChainLineBytes);
  EXPECT_TRUE(std::all_of(line.begin(), line.end() - 1, [](char byte) {
    return byte >= ' ' && byte <= '~';
  })) << line;
  EXPECT_EQ(line.back(), '\n');
  const auto read = ReadChainLine(std::string_view(line).substr(0, line.size() - 1));
  EXPECT_TRUE(read.has_value() && read->is_intact) << line;
  EXPECT_FALSE(read.has_value() && ReadTornTail(read->members).has_value()) << line;
  const auto parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(parsed.is_object()) << line;
  EXPECT_EQ(parsed.size(), 19u) << line;
  EXPECT_EQ(parsed.value("event", ""), "call") << line;
  return parsed;
}

TEST(RecordTest, HasEveryMemberOfThePage) {
  Record record{.unix_ms = 1'764'103'427'123,
                .peer = "ipv4:192.0.2.1:7",
                .method = "kerf.v1.ChunkingService/Upload",
                .repository = "anna",
                .digest_algorithm = "blake3",
                .profile = "fastcdc2020-8k",
                .agent = "kerf/0.1 host",
                .counts = {{"files", 3}, {"chunks", 0}, {"bytes", 18'446'744'073'709'551'615u}},
                .outcome = "OK",
                .request_id = "0123",
                .session = "s-1",
                .worker = "w1"};
  EXPECT_EQ(MembersOf(record),
            "\"time\":\"2025-11-25T20:43:47.123Z\",\"event\":\"call\",\"identity\":\"\","
            "\"proof\":\"none\",\"peer\":\"ipv4:192.0.2.1:7\","
            "\"method\":\"kerf.v1.ChunkingService/Upload\",\"repository\":\"anna\","
            "\"digest\":\"blake3\",\"profile\":\"fastcdc2020-8k\",\"agent\":\"kerf/0.1 host\","
            "\"counts\":{\"files\":3,\"bytes\":18446744073709551615},\"outcome\":\"OK\","
            "\"message\":\"\",\"request_id\":\"0123\",\"session\":\"s-1\",\"worker\":\"w1\"");
  Read(record);
}

TEST(RecordTest, WordsOfAPeerForgeNothing) {
  const std::vector<std::string> texts = {
      "\"}\n{\"seq\":1",
      "\",\"event\":\"torn\",\"bytes\":1,\"sha256\":\"" + ChainHashOf("") + "\"",
      "\",\"outcome\":\"OK",
      "\\",
      "\\\"",
      std::string("\0\x01\x1b[2J\x7f\r\n", 9),
      "\xe2\x80\xa8\xe2\x80\xa9\xc2\x85",
      "\xff\xfe\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80",
      "\xf0\x9f\x92\xbe",
  };
  for (const std::string& text : texts) {
    Record record;
    for (std::string* member : TextsOf(record)) *member = text;
    const auto read = Read(record);
    EXPECT_EQ(read["agent"], read["method"]);
  }
  Record record{.agent = texts[1]};
  EXPECT_EQ(Read(record)["agent"], texts[1]) << "text stays what it was";
}

TEST(RecordTest, AnyBytesAreOneLine) {
  constexpr int kRounds = kIsSanitized ? 400 : 2'000;
  Random random(TestSeed());
  for (int round = 0; round < kRounds; ++round) {
    Record record;
    for (std::string* member : TextsOf(record)) {
      member->resize(random.Below(random.OneIn(10) ? 2'000 : 300));
      random.Fill({reinterpret_cast<std::uint8_t*>(member->data()), member->size()});
    }
    Read(record);
  }
}

TEST(RecordTest, TheLongestTextsFitIntoALine) {
  for (const char worst : {'\0', '\xff', '\x7f', '"'}) {
    Record record;
    for (std::string* member : TextsOf(record)) member->assign(100'000, worst);
    for (int count = 0; count < 32; ++count) {
      record.counts.emplace_back("a_long_name_of_a_count", ~std::uint64_t{0});
    }
    ChainPoint point{~std::uint64_t{0} - 1, ChainHashOf("")};
    EXPECT_LT(SealLine(MembersOf(record), &point).size(), kMaxChainLineBytes);
  }
  Record record{.agent = std::string(300, 'a')};
  EXPECT_EQ(Read(record)["agent"], std::string(256, 'a') + "\xe2\x80\xa6");
  record.agent.resize(256);
  EXPECT_EQ(Read(record)["agent"], std::string(256, 'a'));
}

TEST(RecordTest, TimesAreUtcWithMilliseconds) {
  EXPECT_EQ(FormatTime(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(FormatTime(951'782'400'001), "2000-02-29T00:00:00.001Z");
  EXPECT_GT(WallClockMs(), 1'700'000'000'000);
}

}  // namespace
}  // namespace kerf::audit
