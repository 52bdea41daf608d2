// Nobody who logs waits for whoever takes the lines.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "base/check.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "server/logging/logging.h"

namespace kerf {
namespace {

using std::chrono::seconds;

constexpr char kEnd[] = "the end";

// Standard error is a pipe, while this is there.
class Pipe {
 public:
  Pipe() : before_(dup(STDERR_FILENO)) {
    int ends[2];
    KERF_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    reader_ = UniqueFd(ends[0]);
    KERF_CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
  }
  ~Pipe() { Close(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  // What comes until nobody writes to it any more.
  std::string ReadAll() {
    std::string text;
    char bytes[4096];
    while (true) {
      const ssize_t count = read(reader_.get(), bytes, sizeof bytes);
      if (count <= 0) return text;
      text.append(bytes, static_cast<std::size_t>(count));
      // Of what is new, and of what was cut.
      const std::size_t from = text.size() - std::min(text.size(), 2 * sizeof bytes);
      if (text.find(kEnd, from) != std::string::npos) is_end_seen_ = true;
    }
  }
  bool is_end_seen() const { return is_end_seen_; }
  void Close() const { KERF_CHECK(dup2(before_.get(), STDERR_FILENO) >= 0); }

 private:
  UniqueFd before_;
  UniqueFd reader_;
  std::atomic<bool> is_end_seen_{false};
};

// One test, as the log is one of the process.
TEST(LogBehindTest, NobodyWaitsAndWhatIsLostIsSaid) {
  constexpr int kLines = 20'000;
  SetLogFormat(LogFormat::kJson);
  Pipe pipe;
  {
    const LogBehind behind;
    const auto began_at = std::chrono::steady_clock::now();
    for (int number = 0; number < kLines; ++number) Log(LogLevel::kInfo, Cat(number));
    // A guard against a hang: a full pipe would keep it for ever.
    EXPECT_LT(std::chrono::steady_clock::now() - began_at, seconds(20));
    EXPECT_GE(LostLogLineCount(), kLines - kMaxWaitingLogLines - (64 << 10) / 16);
    // Nobody takes them still: it ends all the same.
  }
  EXPECT_LT(LostLogLineCount(), static_cast<std::uint64_t>(kLines));
  std::string text;
  std::thread reader([&] { text = pipe.ReadAll(); });
  // All that waited is taken at last. Its patience may end before, where the machine is busy.
  for (Log(LogLevel::kInfo, kEnd); !pipe.is_end_seen();) const LogBehind behind;
  {
    const LogBehind behind;
    Log(LogLevel::kInfo, "last of all");
  }
  pipe.Close();
  reader.join();

  std::istringstream lines(text);
  int next = 0;
  std::uint64_t lost = 0;
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    last = object["message"];
    if (object.contains("lost")) {
      lost += std::stoull(object["lost"].get<std::string>());
      EXPECT_EQ(object["level"], "warning");
    } else if (std::isdigit(static_cast<unsigned char>(last[0])) != 0) {
      // In their order, and the newest of them are there.
      EXPECT_GE(std::stoi(last), next);
      next = std::stoi(last) + 1;
    }
  }
  EXPECT_EQ(next, kLines);
  // Whoever ends has waited for it.
  EXPECT_EQ(last, "last of all");
  EXPECT_EQ(lost, LostLogLineCount());
}

}  // namespace
}  // namespace kerf
