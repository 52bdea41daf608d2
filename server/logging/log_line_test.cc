#include "server/logging/log_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kerf {
namespace {

TEST(LogLineTest, TextIsReadByPeopleAndSplitByPrograms) {
  const std::vector<LogField> fields = {
      {"a", "1"}, {"b", ""}, {"c", "two words"}, {"d", "q\"b\\"}, {"e", "x=y"}};
  EXPECT_EQ(TextLineOf("Went well", fields),
            "Went well a=1 b=\"\" c=\"two words\" d=\"q\\\"b\\\\\" e=\"x=y\"");
  EXPECT_EQ(TextLineOf("alone", {}), "alone");
}

TEST(LogLineTest, APeerCannotForgeALine) {
  const std::vector<LogField> fields = {{"peer", "x\n2026 error FORGED\r\x1b[2J\x7f"}};
  const std::string line = TextLineOf("stream\nended", fields);
  EXPECT_EQ(line.find_first_of("\n\r\x1b\x7f"), std::string::npos) << line;
}

TEST(LogLineTest, NothingSteersATerminalOrEndsALineInAnyEncoding) {
  // Of 8 bits, in UTF-8, and as the separators that some take for ends of lines; an overlong
  // newline.
  const std::string words =
      "a\x9b"
      "b\xc2\x9b"
      "c\xc2\x85"
      "d\xe2\x80\xa8"
      "e\xe2\x80\xa9"
      "f\xc0\x8a";
  EXPECT_EQ(TextLineOf(words, {}), "a?b?c?d?e?f??");
  EXPECT_EQ(TextLineOf("sch\xc3\xb6n", {}), "sch\xc3\xb6n");
  const std::string line = JsonMembersOf(words, {});
  for (const char character : line) {
    EXPECT_TRUE(character >= 0x20 && character < 0x7F) << line;
  }
}

TEST(LogLineTest, APeerCannotForgeAField) {
  const std::vector<LogField> fields = {{"peer", "ipv4:1"}};
  EXPECT_EQ(TextLineOf("said hello reason=OK peer=me", fields),
            "\"said hello reason=OK peer=me\" peer=ipv4:1");
  EXPECT_EQ(TextLineOf("said \" \\", fields), "\"said \\\" \\\\\" peer=ipv4:1");
  // What cannot be mistaken stays as it is.
  EXPECT_EQ(TextLineOf("it's \\ fine", fields), "it's \\ fine peer=ipv4:1");
}

TEST(LogLineTest, JsonIsOneObjectWhateverComes) {
  std::string all;
  for (int code = 0; code < 256; ++code) all += static_cast<char>(code);
  const std::vector<LogField> fields = {{"request_id", "a\"b\\c\n"}, {"peer", all}};
  const std::string line = "{" + JsonMembersOf("said \"hello\"\n\xff", fields) + "}";
  EXPECT_EQ(line.find_first_of("\n\r"), std::string::npos) << line;
  const nlohmann::json object = nlohmann::json::parse(line);
  EXPECT_EQ(object["message"], "said \"hello\"\n\xef\xbf\xbd");
  EXPECT_EQ(object["request_id"], "a\"b\\c\n");
  EXPECT_TRUE(object["peer"].is_string());
  EXPECT_EQ(object.size(), 3u);
}

}  // namespace
}  // namespace kerf
