#include "server/audit/chain_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "base/check.h"
#include "base/hash_chain.h"
#include "base/strings.h"

namespace kerf::audit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kSmallFileBytes = 1;  // Rounded up to what a file has at least.

class ChainFileTest : public testing::Test {
 protected:
  ChainFileTest() {
    const char* const base = std::getenv("TEST_TMPDIR");
    folder_ = Cat(base != nullptr ? base : "/tmp", "/audit-XXXXXX");
    KERF_CHECK(mkdtemp(folder_.data()) != nullptr);
    path_ = folder_ + "/audit.log";
  }
  ~ChainFileTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<ChainFile> Open(std::uint64_t max_file_bytes = 1 << 30) {
    auto opened = TryOpen(max_file_bytes);
    KERF_CHECK(opened.ok());
    return *std::move(opened);
  }
  absl::StatusOr<std::unique_ptr<ChainFile>> TryOpen(std::uint64_t max_file_bytes = 1 << 30) {
    return ChainFile::Open({.path = path_, .max_file_bytes = max_file_bytes, .time_member = [] {
                              return std::string("\"time\":\"now\"");
                            }});
  }
  static std::string Members(const std::string& text) {
    return Cat("\"time\":\"now\",\"event\":\"call\",\"text\":\"", text, "\"");
  }
  static void Write(ChainFile& file, const std::string& text) {
    file.Add(Members(text));
    EXPECT_EQ(file.Write(), absl::OkStatus());
  }
  std::string Read(const std::string& suffix = "") const {
    std::ifstream file(path_ + suffix, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Append(const std::string& bytes, const std::string& suffix = "") const {
    std::ofstream(path_ + suffix, std::ios::binary | std::ios::app) << bytes;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // What the lines of the files, oldest first, say by their event, or text; "?" of what is no line
  // of the chain. All others have to follow each other.
  std::vector<std::string> Told(const std::vector<std::string>& suffixes = {""}) const {
    std::vector<std::string> told;
    std::optional<ChainPoint> last;
    for (const std::string& suffix : suffixes) {
      std::string text = Read(suffix);
      while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const auto line = ReadChainLine(std::string_view(text).substr(0, end));
        if (!line.has_value() || !line->is_intact) {
          told.emplace_back("?");
        } else {
          if (last.has_value()) {
            EXPECT_EQ(line->prev, last->hash);
            EXPECT_EQ(line->seq, last->seq + 1);
          }
          last = line->point();
          const std::string members(line->members);
          const bool is_call = members.find("\"call\"") != std::string::npos;
          const std::string mark = is_call ? "\"text\":\"" : "\"event\":\"";
          const std::size_t begin = members.find(mark) + mark.size();
          told.push_back(members.substr(begin, members.find('"', begin) - begin));
        }
        text.erase(0, std::min(end + 1, text.size()));
      }
    }
    return told;
  }

  std::string folder_;
  std::string path_;
};

TEST_F(ChainFileTest, BeginsWithALineOfItsOwnAndItsGroupMayReadIt) {
  umask(0);
  const absl::Cleanup restore = [] { umask(022); };
  auto file = Open();
  EXPECT_THAT(Told(), ElementsAre("file"));
  struct stat info{};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
  EXPECT_THAT(Names(), ElementsAre("audit.log"));
  Write(*file, "one");
  EXPECT_THAT(Told(), ElementsAre("file", "one"));
}

TEST_F(ChainFileTest, GoesOnAfterARestart) {
  Write(*Open(), "one");
  Write(*Open(), "two");
  EXPECT_THAT(Told(), ElementsAre("file", "one", "two"));
}

// At each byte at which a crash may have ended the last write.
TEST_F(ChainFileTest, TellsOfWhatACrashHasLeft) {
  Write(*Open(), "one");
  const std::string whole = Read();
  Write(*Open(), "two");
  const std::string longer = Read();
  for (std::size_t size = whole.size(); size <= longer.size(); ++size) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << longer.substr(0, size);
    Write(*Open(), "three");
    std::vector<std::string> expected = {"file", "one"};
    if (size + 1 >= longer.size()) {
      expected.emplace_back("two");
    } else if (size > whole.size()) {
      expected.insert(expected.end(), {"?", "torn"});
    }
    expected.emplace_back("three");
    ASSERT_EQ(Told(), expected) << size;
    if (expected.size() == 5) {
      EXPECT_THAT(Read(), HasSubstr(TornTailMembers(
                              {size - whole.size(),
                               ChainHashOf(longer.substr(whole.size(), size - whole.size()))})));
    }
  }
}

TEST_F(ChainFileTest, TellsOnceOfACrashWhileItToldOfOne) {
  Write(*Open(), "one");
  const std::string whole = Read();
  Append("{\"seq\":3,\"pr");
  Write(*Open(), "two");
  const std::string longer = Read();
  for (std::size_t size = whole.size(); size < longer.size(); size += 7) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << longer.substr(0, size);
    Write(*Open(), "three");
    const std::vector<std::string> told = Told();
    EXPECT_EQ(told.back(), "three") << size;
    EXPECT_LE(std::count(told.begin(), told.end(), "torn"), 2) << size;
  }
  // A disk that had lost its power writes anything.
  std::ofstream(path_, std::ios::binary | std::ios::trunc)
      << whole << std::string(5'000, '\0') << "\n\nx";
  Write(*Open(), "four");
  EXPECT_THAT(Told(), ElementsAre("file", "one", "?", "?", "?", "torn", "four"));
}

TEST_F(ChainFileTest, AFileThatIsFullIsRenamedAndTheChainGoesOn) {
  auto file = Open(kSmallFileBytes);
  std::vector<std::string> expected;
  for (int number = 0; number < 2'000; ++number) {
    Write(*file, Cat("line ", number));
    expected.push_back(Cat("line ", number));
  }
  EXPECT_THAT(Names(), ElementsAre("audit.log", "audit.log.1", "audit.log.2", "audit.log.3"));
  std::vector<std::string> told = Told({".1", ".2", ".3", ""});
  EXPECT_EQ(std::count(told.begin(), told.end(), "file"), 4);
  std::erase(told, "file");
  EXPECT_EQ(told, expected);
  EXPECT_THAT(Read(), HasSubstr("\"before\":\".3\",\"why\":\"the file before it was full\""));
  for (const char* suffix : {".1", ".2", ".3", ""}) {
    EXPECT_LE(Read(suffix).size(), 4 * kMaxChainLineBytes);
    EXPECT_EQ(Told({suffix}).front(), "file");
  }
  // Numbers grow whatever is missing: the highest is the newest.
  std::filesystem::remove(path_ + ".1");
  std::filesystem::rename(path_ + ".2", path_ + ".9");
  for (int number = 0; number < 700; ++number) Write(*file, "more");
  EXPECT_TRUE(std::filesystem::exists(path_ + ".10"));
}

TEST_F(ChainFileTest, GoesOnWhereItWasMovedAwayWhileNobodyWrote) {
  Write(*Open(), "one");
  std::filesystem::rename(path_, path_ + ".1");
  Append("half", ".1");
  Write(*Open(), "two");
  EXPECT_THAT(Told({".1", ""}), ElementsAre("file", "one", "?", "torn", "file", "two"));
  EXPECT_THAT(Read(".1"), testing::EndsWith("half")) << "as it was left";
  EXPECT_THAT(Read(), HasSubstr("\"before\":\".1\""));
  // As logrotate counts, and makes a new one.
  std::filesystem::rename(path_ + ".1", path_ + ".2");
  std::filesystem::rename(path_, path_ + ".1");
  std::ofstream(path_).flush();
  Write(*Open(), "three");
  EXPECT_THAT(Told({".1", ""}), ElementsAre("torn", "file", "two", "file", "three"));
}

TEST_F(ChainFileTest, NoticesThatItWasMovedRemovedReplacedOrChanged) {
  auto file = Open();
  Write(*file, "one");
  std::filesystem::rename(path_, path_ + ".1");
  EXPECT_EQ(file->Check(), absl::OkStatus());
  Write(*file, "two");
  EXPECT_THAT(Told({".1", ""}), ElementsAre("file", "one", "file", "two"));

  std::filesystem::remove(path_);
  EXPECT_EQ(file->Check(), absl::OkStatus());
  Write(*file, "three");
  EXPECT_THAT(Told(), ElementsAre("file", "three"));
  EXPECT_THAT(Read(), HasSubstr("was moved or removed"));

  // As logrotate's `create` does.
  std::filesystem::rename(path_, path_ + ".2");
  std::ofstream(path_).flush();
  EXPECT_EQ(file->Check(), absl::OkStatus());
  Write(*file, "four");
  EXPECT_THAT(Told({".2", ""}), ElementsAre("file", "three", "file", "four"));

  Append("a line of somebody else\n");
  EXPECT_EQ(file->Check(), absl::OkStatus());
  Write(*file, "five");
  EXPECT_THAT(Told({".3"}), ElementsAre("file", "four", "?"));
  EXPECT_THAT(Told(), ElementsAre("file", "five"));
  EXPECT_THAT(Read(), HasSubstr("somebody else had changed the file before it"));

  std::filesystem::resize_file(path_, 10);
  EXPECT_EQ(file->Check(), absl::OkStatus());
  Write(*file, "six");
  EXPECT_THAT(Told(), ElementsAre("file", "six"));
  EXPECT_EQ(file->Check(), absl::OkStatus());
  EXPECT_THAT(Names(),
              ElementsAre("audit.log", "audit.log.1", "audit.log.2", "audit.log.3", "audit.log.4"));
}

TEST_F(ChainFileTest, AFileOfSomethingElseIsMovedAway) {
  std::ofstream(path_) << "some text\nand more";
  Write(*Open(), "one");
  EXPECT_THAT(Told(), ElementsAre("file", "one"));
  EXPECT_THAT(Read(), testing::StartsWith("{\"seq\":1,\"prev\":\"000"));
  EXPECT_EQ(Read(".1"), "some text\nand more");
}

TEST_F(ChainFileTest, TwoDoNotWriteOneFile) {
  auto file = Open();
  Write(*file, "one");
  const auto other = TryOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(other.status()));
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("another process writes to it"));
  std::filesystem::rename(path_, path_ + ".1");
  EXPECT_EQ(file->Check(), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(TryOpen().status())) << "nor one that is new";
  Write(*file, "two");
  file.reset();
  EXPECT_TRUE(TryOpen().ok());
}

TEST_F(ChainFileTest, WhatIsNoFileIsRefused) {
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(TryOpen().ok());
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(TryOpen().status())) << TryOpen().status();
  std::filesystem::remove(path_);
  std::filesystem::create_symlink("elsewhere", path_);
  EXPECT_TRUE(absl::IsFailedPrecondition(TryOpen().status())) << TryOpen().status();
  path_ = folder_ + "/none/audit.log";
  EXPECT_TRUE(absl::IsUnavailable(TryOpen().status()));
}

// A disk that is full takes a part of a line: at each byte.
TEST_F(ChainFileTest, ALineThatDidNotFitIsWrittenOnWhenThereIsRoom) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const absl::Cleanup restore = [&] { setrlimit(RLIMIT_FSIZE, &before); };
  auto file = Open();
  std::vector<std::string> expected = {"file"};
  for (std::size_t room = 0; room < 260; room += 5) {
    const rlimit limit{file->size_bytes() + room, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    file->Add(Members(Cat("first ", room)));
    file->Add(Members(Cat("second ", room)));
    const absl::Status status = file->Write();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_FALSE(file->Write().ok());
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(file->Check(), absl::OkStatus()) << "it is what it has written";
    EXPECT_EQ(file->Write(), absl::OkStatus());
    expected.insert(expected.end(), {Cat("first ", room), Cat("second ", room)});
  }
  EXPECT_EQ(Told(), expected);
}

TEST_F(ChainFileTest, ALineThatDidNotFitGoesToTheNextFileWhole) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const absl::Cleanup restore = [&] { setrlimit(RLIMIT_FSIZE, &before); };
  auto file = Open();
  const rlimit limit{file->size_bytes() + 50, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  file->Add(Members("one"));
  EXPECT_FALSE(file->Write().ok());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::filesystem::rename(path_, path_ + ".1");
  EXPECT_EQ(file->Check(), absl::OkStatus());
  EXPECT_EQ(file->Write(), absl::OkStatus());
  EXPECT_THAT(Told({".1", ""}), ElementsAre("file", "?", "torn", "file", "one"));
}

TEST_F(ChainFileTest, AFolderThatIsGoneIsNoReasonToLoseLines) {
  auto file = Open();
  const std::string away = folder_ + ".away";
  std::filesystem::rename(folder_, away);
  EXPECT_FALSE(file->Check().ok());
  file->Add(Members("one"));
  EXPECT_FALSE(file->Write().ok()) << "nobody would find it there";
  std::filesystem::create_directory(folder_);
  EXPECT_EQ(file->Write(), absl::OkStatus());
  EXPECT_THAT(Told(), ElementsAre("file", "one"));
  std::filesystem::remove_all(away);
}

}  // namespace
}  // namespace kerf::audit
