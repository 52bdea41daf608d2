#include "client/agent/backup/stream_command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::Status NoFailure() { return absl::OkStatus(); }

std::unique_ptr<StreamCommand> StartShell(const std::string& script) {
  auto command = StreamCommand::Start({"sh", "-c", script});
  EXPECT_TRUE(command.ok()) << command.status();
  return command.ok() ? *std::move(command) : nullptr;
}

// All that it writes.
std::string OutputOf(const StreamCommand& command) {
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(command.output(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(count));
  }
  return text;
}

TEST(StreamCommandTest, GivesItsOutputAndThatItWentWell) {
  const auto command = StartShell("printf one; sleep 0.05; printf ' two'");
  ASSERT_NE(command, nullptr);
  EXPECT_EQ(OutputOf(*command), "one two");
  EXPECT_TRUE(command->AwaitSuccess(NoFailure).ok());
}

TEST(StreamCommandTest, ArgumentsArriveAsTheyAre) {
  auto command = StreamCommand::Start({"printf", "%s.", "[a,b]", "", "two words", "--flag"});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(OutputOf(**command), "[a,b]..two words.--flag.");
  EXPECT_TRUE((*command)->AwaitSuccess(NoFailure).ok());
}

TEST(StreamCommandTest, AFailureIsOneHoweverMuchItWrote) {
  for (const auto& [end, text] : std::vector<std::pair<std::string, std::string>>{
           {"exit 3", "exit code 3"}, {"kill -9 $$", "signal 9"}}) {
    const auto command = StartShell(Cat("printf secret; ", end));
    ASSERT_NE(command, nullptr);
    EXPECT_EQ(OutputOf(*command), "secret");
    const absl::Status status = command->AwaitSuccess(NoFailure);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    // A password may be among the arguments.
    EXPECT_THAT(std::string(MessageOf(status)),
                AllOf(HasSubstr(text), HasSubstr("sh, whose output"), Not(HasSubstr("secret"))));
  }
}

TEST(StreamCommandTest, TheEndOfItsOutputIsNotItsEnd) {
  const auto command = StartShell("printf all; exec >&-; sleep 0.1; exit 4");
  ASSERT_NE(command, nullptr);
  EXPECT_EQ(OutputOf(*command), "all");
  EXPECT_THAT(std::string(MessageOf(command->AwaitSuccess(NoFailure))), HasSubstr("exit code 4"));
}

TEST(StreamCommandTest, NobodyWaitsOnceTheRunHasFailed) {
  const auto command = StartShell("exec >&-; exec sleep 600");
  ASSERT_NE(command, nullptr);
  EXPECT_EQ(OutputOf(*command), "");
  int asked = 0;
  const absl::Status status = command->AwaitSuccess([&asked]() -> absl::Status {
    return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("enough");
  });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST(StreamCommandTest, WhatIsNotThereCannotBeRun) {
  const auto command = StreamCommand::Start({"no-such-program-of-kerf"});
  EXPECT_TRUE(absl::IsUnavailable(command.status())) << command.status();
  EXPECT_THAT(std::string(MessageOf(command.status())), HasSubstr("no-such-program-of-kerf"));
}

TEST(StreamCommandTest, EndsItWhereNobodyWantsTheRest) {
  const testing::TemporaryDirectory folder;
  const auto begin = std::chrono::steady_clock::now();
  {
    const auto command =
        StartShell(Cat("trap 'echo ended > ", folder / "ended",
                       "; exit 0' TERM; printf x; exec >&-\n", "while true; do sleep 0.02; done"));
    ASSERT_NE(command, nullptr);
    EXPECT_EQ(OutputOf(*command), "x");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(access((folder / "ended").c_str(), F_OK), 0);
}

TEST(StreamCommandTest, EndsAlsoWhatDoesNotWantToEnd) {
  const auto begin = std::chrono::steady_clock::now();
  {
    const auto command =
        StartShell("trap '' TERM; printf x; exec >&-; while true; do sleep 0.02; done");
    ASSERT_NE(command, nullptr);
    EXPECT_EQ(OutputOf(*command), "x");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(StreamCommandTest, HasNoFileOfThisProcess) {
  const testing::TemporaryDirectory folder;
  // As one that was opened without O_CLOEXEC.
  const int file = open((folder / "file").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(file, 3);
  const auto command = StartShell(Cat("test -e /proc/self/fd/", file, " && printf open"));
  ASSERT_NE(command, nullptr);
  EXPECT_EQ(OutputOf(*command), "");
  close(file);
}

TEST(StreamCommandTest, SignalsThatThisProcessIgnoresAreItsOwn) {
  std::signal(SIGPIPE, SIG_IGN);
  // With it nobody would be told of an exit code.
  std::signal(SIGCHLD, SIG_IGN);
  const auto command = StartShell("kill -PIPE $$; exit 0");
  ASSERT_NE(command, nullptr);
  EXPECT_EQ(OutputOf(*command), "");
  EXPECT_THAT(std::string(MessageOf(command->AwaitSuccess(NoFailure))),
              HasSubstr(Cat("signal ", SIGPIPE)));
}

}  // namespace
}  // namespace kerf::agent
