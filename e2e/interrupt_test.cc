// SIGINT and SIGTERM while a verb is at its work, or waits for somebody: it ends soon, says by
// which signal, and leaves nothing behind.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "e2e/file_lease.h"
#include "e2e/round_trip.h"

namespace kerf::e2e {
namespace {

using ::testing::IsEmpty;

using Arguments = std::vector<std::string>;

// Less than what ends a run that does not end by itself (client/cli/interrupt.h: 10 s). No tighter:
// where others have the processors a step of a measurement takes seconds.
constexpr std::chrono::seconds kSoon{9};

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Interrupt : public RoundTrip {
 protected:
  Interrupt() {
    std::filesystem::create_directory(tree_);
    WriteText(tree_ + "/file", std::string(300'000, 'x'));
    world_.Backup({"tree"});
    std::filesystem::create_directory(world_ / "scratch");
    world_.SetEnvironment("TMPDIR", world_ / "scratch");
  }

  // Sends the signal, and looks at the end and at what is left.
  void ExpectEnd(Program& run, int signal_number) {
    const auto start = std::chrono::steady_clock::now();
    run.Signal(signal_number);
    const Completed end = run.Wait();
    EXPECT_EQ(end.exit_code, 128 + signal_number) << end.err;
    EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
    EXPECT_THAT(NamesIn(world_.store() + "/tmp"), IsEmpty());
    EXPECT_THAT(NamesIn(world_.store() + "/pending"), IsEmpty());
    EXPECT_THAT(NamesIn(world_ / "scratch"), IsEmpty());
  }

  // Until it has come so far that it waits.
  template <typename Condition>
  static void WaitFor(const Program& run, const Condition& condition) {
    auto& program = const_cast<Program&>(run);
    while (!condition()) {
      ASSERT_FALSE(program.HasEnded());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  static constexpr int kSignals[] = {SIGINT, SIGTERM};
};

// A file of the store that nobody can open, as of a file server that is away.
TEST_F(Interrupt, WhileAFileOfTheStoreDoesNotOpen) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(world_.store())) {
    const std::string path = entry.path();
    if (path.ends_with(".pack") || path.ends_with(".snap")) files.push_back(path);
  }
  std::vector<std::unique_ptr<FileLease>> leases;
  for (const std::string& file : files) {
    leases.push_back(std::make_unique<FileLease>(file));
    if (!leases.back()->held()) GTEST_SKIP() << "no leases here";
  }
  int number = 0;
  for (const Arguments& arguments : std::vector<Arguments>{{"backup", "tree"},
                                                           {"restore", "latest", "--target", "out"},
                                                           {"verify", "--read-data"},
                                                           {"snapshots"},
                                                           {"ls", "latest"},
                                                           {"forget", "--keep-last", "1"},
                                                           {"stats"},
                                                           {"copy", "--to", "other", "--create"},
                                                           {"repair"},
                                                           {"repair", "--packs", "--apply"},
                                                           {"gc"},
                                                           {"index", "check"},
                                                           {"index", "rebuild"}}) {
    SCOPED_TRACE(nlohmann::json(arguments).dump());
    const auto run = world_.Start(arguments);
    WaitFor(*run, [&] {
      return std::any_of(leases.begin(), leases.end(),
                         [](const auto& lease) { return lease->is_wanted(); });
    });
    ExpectEnd(*run, kSignals[number++ % 2]);
    // A lease that was asked for is taken away one day: anew.
    leases.clear();
    for (const std::string& file : files) leases.push_back(std::make_unique<FileLease>(file));
  }
  leases.clear();
  EXPECT_EQ(world_.KerfJson({"gc"}).exit_code, kOk);
  EXPECT_EQ(world_.KerfJson({"verify", "--read-data"}).exit_code, kOk);
  EXPECT_EQ(Restore("latest").exit_code, kOk);
  ExpectRestored(tree_);
}

TEST_F(Interrupt, WhileAServerSaysNothing) {
  world_.server().Signal(SIGSTOP);
  int number = 0;
  for (const Arguments& arguments : std::vector<Arguments>{{"backup", "tree", "--force"},
                                                           {"gc"},
                                                           {"index", "stats"},
                                                           {"index", "check"},
                                                           {"index", "rebuild"},
                                                           {"index", "export", "--output", "list"},
                                                           {"ping"},
                                                           {"top"},
                                                           {"copy", "--to", "other", "--create"}}) {
    SCOPED_TRACE(nlohmann::json(arguments).dump());
    const std::vector<std::string> before = NamesIn(world_.path());
    const auto run = world_.Start(arguments);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ASSERT_FALSE(run->HasEnded()) << run->Wait().err;
    ExpectEnd(*run, kSignals[number++ % 2]);
    if (arguments[0] != "copy") {
      EXPECT_EQ(NamesIn(world_.path()), before);
    }
  }
  EXPECT_THAT(NamesIn(world_ / "other/tmp"), IsEmpty());
  EXPECT_THAT(NamesIn(world_ / "other/pending"), IsEmpty());
  world_.server().Signal(SIGCONT);
  EXPECT_EQ(world_.KerfJson({"gc"}).exit_code, kOk);
  EXPECT_EQ(world_.KerfJson({"verify", "--read-data"}).exit_code, kOk);
}

// Its reader has gone to lunch: less(1), or a pipe to a machine far away.
TEST_F(Interrupt, WhileNobodyReadsWhatItPrints) {
  std::string text;
  for (std::uint64_t line = 0; line < 500'000; ++line) text += Cat(line * 7919, "\n");
  WriteText(world_ / "large", text);
  std::filesystem::resize_file(world_ / "large", 130 << 20);
  int number = 0;
  for (const std::string flags : {"--threads 1", "--threads 2"}) {
    SCOPED_TRACE(flags);
    const std::string fifo = world_ / Cat("fifo-", number);
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    const UniqueFd reader(open(fifo.c_str(), O_RDWR | O_CLOEXEC));
    const auto run = world_.StartOther(
        {"/bin/sh", "-c",
         Cat("exec ", BuiltProgram("client/agent/kerf"),
             " chunk large --profile gear:min=64,avg=256,max=1024 ", flags, " > ", fifo)});
    // A pipe takes 64 KiB.
    WaitFor(*run, [&] {
      int byte_count = 0;
      return ioctl(reader.get(), FIONREAD, &byte_count) == 0 && byte_count > 60'000;
    });
    ExpectEnd(*run, kSignals[number++ % 2]);
  }
}

TEST_F(Interrupt, WhileItWaitsForItsInput) {
  int number = 0;
  for (const std::string command : {"chunk -", "chunk fifo"}) {
    SCOPED_TRACE(command);
    const std::string fifo = world_ / "fifo";
    mkfifo(fifo.c_str(), 0600);
    const UniqueFd writer(open(fifo.c_str(), O_RDWR | O_CLOEXEC));
    const auto run = world_.StartOther(
        {"/bin/sh", "-c",
         Cat("exec ", BuiltProgram("client/agent/kerf"), " ", command, " < fifo")});
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSERT_FALSE(run->HasEnded());
    ExpectEnd(*run, kSignals[number++ % 2]);
  }
}

// Also where that has closed its output, and so would never meet a broken pipe.
TEST_F(Interrupt, WhileACommandWritesWhatIsBackedUp) {
  int number = 0;
  for (const std::string script :
       {"echo $$ > pid; exec sleep 600", "echo all; echo $$ > pid; exec sleep 600 > /dev/null"}) {
    SCOPED_TRACE(script);
    const auto run = world_.Start({"backup", "--stdin-filename", "dump", "--stdin-from-command",
                                   "--", "/bin/sh", "-c", script});
    WaitFor(*run, [&] { return ReadText(world_ / "pid").ends_with('\n'); });
    const pid_t command = std::stoi(ReadText(world_ / "pid"));
    ExpectEnd(*run, kSignals[number++ % 2]);
    EXPECT_NE(kill(command, 0), 0) << "it goes on without its backup";
    std::filesystem::remove(world_ / "pid");
  }
  EXPECT_EQ(world_.KerfJson({"snapshots"}).Of("snapshot").size(), 1u) << "of before";
}

TEST_F(Interrupt, WhileItMeasures) {
  int number = 0;
  for (const Arguments& arguments :
       std::vector<Arguments>{{"analyze", "tree", "--plot", "scratch/plot.svg"},
                              {"bench", "kernels"},
                              {"bench", "rapid"},
                              {"bench", "service", "--tcp", "--rounds", "1000", "--kerfd",
                               BuiltProgram("server/kerfd")}}) {
    SCOPED_TRACE(nlohmann::json(arguments).dump());
    const auto run = world_.Start(arguments);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ASSERT_FALSE(run->HasEnded()) << run->Wait().err;
    ExpectEnd(*run, kSignals[number++ % 2]);
  }
}

TEST_F(Interrupt, WhileItMeasuresAGpu) {
  for (const int signal_number : kSignals) {
    const auto run = world_.Start({"bench", "gpu"});
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    // It may just be ending, where there is none.
    const auto start = std::chrono::steady_clock::now();
    run->Signal(signal_number);
    const Completed end = run->Wait();
    if (end.exit_code == kUnavailable) GTEST_SKIP() << "no GPU here";
    EXPECT_EQ(end.exit_code, 128 + signal_number) << end.err;
    EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
  }
}

// The moment does not matter: between kerf and kerf-lab, which takes its place, none is lost.
TEST_F(Interrupt, WhileKerfLabTakesThePlaceOfKerf) {
  for (int moment = 0; moment < 4; ++moment) {
    const auto run = world_.Start({"bench", "kernels"});
    std::this_thread::sleep_for(std::chrono::milliseconds(moment * 10));
    run->Signal(SIGTERM);
    // Before main it is what the system makes of the signal, which is the same for the shell.
    EXPECT_EQ(run->Wait().exit_code, 128 + SIGTERM) << moment;
  }
}

// A second one does not wait, and does not leave more behind.
TEST_F(Interrupt, TheSecondEndsItAtOnce) {
  const auto run = world_.Start({"analyze", "tree", "--plot", "scratch/plot.svg"});
  WaitFor(*run, [&] { return std::filesystem::exists(world_ / "scratch/plot.svg"); });
  run->Signal(SIGINT);
  ExpectEnd(*run, SIGINT);
}

}  // namespace
}  // namespace kerf::e2e
