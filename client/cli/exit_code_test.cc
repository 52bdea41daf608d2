#include "client/cli/exit_code.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "base/strings.h"
#include "client/cpp/failed_call.h"

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

TEST(ExitCodeTest, AServerThatDeniesIsNotAFileThatIsDenied) {
  const absl::Status denied = absl::PermissionDeniedError("not for you");
  EXPECT_EQ(ExitCodeOf(denied), ExitCode::kFailure);
  EXPECT_EQ(ExitCodeOf(client::WithRequestId(denied, "id")), ExitCode::kAuthentication);
}

TEST(ExitCodeTest, HelpNamesThemAll) {
  for (const NamedExitCode& named : kExitCodes) {
    EXPECT_NE(std::string(kExitCodeHelp).find(Cat(static_cast<int>(named.code), " ", named.name)),
              std::string::npos)
        << named.name;
  }
}

// The first table of docs/exit_codes.md, whose other one e2e/exit_codes_test.cc has.
TEST(ExitCodeTest, ThePageNamesThemAll) {
  std::ifstream page(Cat(std::getenv("TEST_SRCDIR"), "/kerf/docs/exit_codes.md"));
  ASSERT_TRUE(page.good());
  std::map<int, std::string> documented;
  for (std::string line; std::getline(page, line) && !line.starts_with("## ");) {
    int code = 0;
    char name[32] = "";
    // What it could read is counted.
    // NOLINTNEXTLINE(cert-err34-c,bugprone-unchecked-string-to-number-conversion)
    if (std::sscanf(line.c_str(), "| %d | %31[^|]", &code, name) == 2) documented[code] = name;
  }
  std::map<int, std::string> defined;
  for (const NamedExitCode& named : kExitCodes) {
    defined[static_cast<int>(named.code)] = Cat(named.name, " ");
  }
  EXPECT_EQ(documented, defined);
}

}  // namespace
}  // namespace kerf::agent
