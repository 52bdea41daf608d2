#include "client/cli/exit_code.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace kerf::agent {
namespace {

TEST(ExitCodeTest, EveryCodeHasItsNumber) {
  // Those that are not named here are plain failures.
  const std::map<absl::StatusCode, int> codes = {
      {absl::StatusCode::kOk, 0},          {absl::StatusCode::kUnauthenticated, 4},
      {absl::StatusCode::kUnavailable, 5}, {absl::StatusCode::kDeadlineExceeded, 5},
      {absl::StatusCode::kDataLoss, 6},    {absl::StatusCode::kResourceExhausted, 7},
      {absl::StatusCode::kCancelled, 130},
  };
  for (int code = 0; code <= 16; ++code) {
    const auto status_code = static_cast<absl::StatusCode>(code);
    const auto found = codes.find(status_code);
    EXPECT_EQ(static_cast<int>(ExitCodeOf(absl::Status(status_code, "x"))),
              found == codes.end() ? 1 : found->second)
        << absl::StatusCodeToString(status_code);
  }
}

TEST(ExitCodeTest, HelpNamesThemAll) {
  for (const char* text :
       {"0 ok", "1 failure", "2 usage", "3 partial", "4 ", "5 ", "6 ", "7 ", "130 interrupted"}) {
    EXPECT_NE(std::string(kExitCodeHelp).find(text), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace kerf::agent
