#include "client/agent/tls/tls_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/strings.h"
#include "base/tls/certificate_facts.h"
#include "base/tls/tls_context.h"
#include "client/fs/testing/temporary_directory.h"
#include "client/store/format/file_hook.h"

namespace kerf::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

::mode_t ModeOf(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

class TlsFolderTest : public ::testing::Test {
 protected:
  TlsFolderTest() { umask(0); }
  ~TlsFolderTest() override { umask(022); }

  TlsFolderRequest Request(std::vector<std::string> names, std::vector<std::string> clients) {
    return {.directory = folder_, .server_names = std::move(names), .clients = std::move(clients)};
  }
  std::map<std::string, std::string> Contents() {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      contents[entry.path().filename()] = ReadText(entry.path());
    }
    return contents;
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& [name, text] : Contents()) names.push_back(name);
    return names;
  }

  const testing::TemporaryDirectory parent_;
  const std::string folder_ = parent_ / "tls";
};

TEST_F(TlsFolderTest, WhatItMakesGoesTogether) {
  const auto made = FillTlsFolder(Request({"backup.example", "10.1.2.3"}, {"laptop"}));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(Names(), UnorderedElementsAre("ca.key", "ca.pem", "kerfd.key", "kerfd.pem",
                                            "laptop.key", "laptop.pem"));
  ASSERT_EQ(made->pairs.size(), 2u);
  EXPECT_THAT(made->pairs[0].names, ElementsAre("backup.example", "10.1.2.3"));
  EXPECT_THAT(made->pairs[1].names, ElementsAre("kerf://client/laptop"));
  EXPECT_GT(made->ca.expires_at_s, made->pairs[0].expires_at_s);
  for (const TlsPair& pair : made->pairs) {
    EXPECT_TRUE(pair.is_new);
    const TlsFiles files{pair.certificate_path, pair.key_path, made->ca.certificate_path};
    const auto texts = ReadTlsFiles(files);
    ASSERT_TRUE(texts.ok()) << texts.status();
    for (const auto side : {TlsRules::Side::kClient, TlsRules::Side::kHttp2Server}) {
      const auto context = TlsContext::Make({.side = side, .files = files}, *texts);
      EXPECT_TRUE(context.ok()) << context.status();
    }
  }
}

// At each step, and not only in the end.
TEST_F(TlsFolderTest, KeysAreTheirOwnersAloneFromTheBeginning) {
  class Watch final : public FileHook {
   public:
    absl::Status Before(const FileOperation& /*operation*/) override {
      if (!std::filesystem::exists(folder)) return absl::OkStatus();
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string text = ReadText(entry.path());
        ++look_count;
        if (text.find("PRIVATE") != std::string::npos ||
            entry.path().string().find(".key") != std::string::npos) {
          EXPECT_EQ(ModeOf(entry.path()), 0600u) << entry.path();
          ++key_count;
        }
      }
      return absl::OkStatus();
    }
    std::string folder;
    int look_count = 0;
    int key_count = 0;
  };
  Watch watch;
  watch.folder = folder_;
  SetFileHookForTest(&watch);
  const auto made = FillTlsFolder(Request({"a.example"}, {"one", "two"}));
  SetFileHookForTest(nullptr);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_GT(watch.key_count, 10);
  EXPECT_EQ(ModeOf(folder_), 0700u);
  EXPECT_EQ(ModeOf(folder_ + "/ca.pem"), 0644u);
  EXPECT_EQ(ModeOf(folder_ + "/ca.key"), 0600u);
}

TEST_F(TlsFolderTest, WhatIsThereStaysAndWhatIsMissingIsMade) {
  ASSERT_TRUE(FillTlsFolder(Request({"a.example"}, {"one"})).ok());
  std::map<std::string, std::string> before = Contents();
  const auto again = FillTlsFolder(Request({"a.example"}, {"one", "two"}));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->ca.is_new);
  std::vector<std::string> made;
  for (const TlsPair& pair : again->pairs) {
    if (pair.is_new) made.push_back(pair.name);
  }
  EXPECT_THAT(made, ElementsAre("two"));
  EXPECT_EQ(FillTlsFolder(Request({}, {}))->pairs[0].names, again->pairs[0].names);
  for (const auto& [name, text] : before) EXPECT_EQ(Contents()[name], text) << name;
  // Of the CA that was there.
  const std::string two = folder_ + "/two";
  std::filesystem::remove(two + ".pem");
  std::filesystem::remove(two + ".key");
  EXPECT_TRUE(FillTlsFolder(Request({}, {"two"})).ok());
  EXPECT_EQ(Contents()["ca.pem"], before["ca.pem"]);
}

TEST_F(TlsFolderTest, WithoutAWordOfWhomItIsForThereIsNone) {
  EXPECT_TRUE(absl::IsNotFound(FillTlsFolder(Request({}, {})).status()));
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(TlsFolderTest, NothingIsMadeWhereSomethingIsInTheWay) {
  ASSERT_TRUE(FillTlsFolder(Request({"a.example"}, {})).ok());
  const auto before = Contents();
  const auto expect = [&](const TlsFolderRequest& request, const std::string& why) {
    const auto made = FillTlsFolder(request);
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(why));
    EXPECT_EQ(Contents(), before) << why;
  };
  expect(Request({"b.example"}, {"one"}), "not of the name b.example");
  expect(Request({}, {"one", "kerfd"}), "--client kerfd");
  expect(Request({}, {"one", "../x"}), "--client '../x'");
  expect(Request({}, {"one", ".x"}), "--client '.x'");
  TlsFolderRequest long_lived = Request({}, {"one"});
  long_lived.days = 3651;
  expect(long_lived, "give fewer --days");
  for (const char* file : {"ca.key", "ca.pem", "kerfd.key"}) {
    const std::string path = folder_ + "/" + file;
    std::filesystem::rename(path, parent_ / "away");
    std::map<std::string, std::string> less = before;
    less.erase(file);
    const auto made = FillTlsFolder(Request({"a.example"}, {"one"}));
    EXPECT_THAT(std::string(made.status().message()), HasSubstr("is there without")) << file;
    EXPECT_EQ(Contents(), less);
    std::filesystem::rename(parent_ / "away", path);
  }
}

TEST_F(TlsFolderTest, AKeyThatIsNotTheCasSignsNothing) {
  ASSERT_TRUE(FillTlsFolder(Request({"a.example"}, {})).ok());
  std::filesystem::copy_file(folder_ + "/kerfd.key", folder_ + "/ca.key",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(FillTlsFolder(Request({}, {"one"})).ok());
  EXPECT_EQ(Contents().count("one.pem"), 0u);
}

TEST_F(TlsFolderTest, WhatIsOfAnotherCaIsInTheWay) {
  ASSERT_TRUE(FillTlsFolder(Request({"a.example"}, {"one"})).ok());
  for (const char* file : {"ca.pem", "ca.key"}) std::filesystem::remove(folder_ + "/" + file);
  for (const char* file : {"kerfd.pem", "kerfd.key"}) {
    std::filesystem::rename(folder_ + "/" + file, parent_ / file);
  }
  std::filesystem::rename(folder_ + "/one.pem", parent_ / "one.pem");
  std::filesystem::rename(folder_ + "/one.key", parent_ / "one.key");
  ASSERT_TRUE(FillTlsFolder(Request({}, {"two"})).ok());
  std::filesystem::rename(parent_ / "one.pem", folder_ + "/one.pem");
  std::filesystem::rename(parent_ / "one.key", folder_ + "/one.key");
  const auto before = Contents();
  const auto made = FillTlsFolder(Request({}, {"three", "one"}));
  EXPECT_THAT(std::string(made.status().message()), HasSubstr("one.pem is not of the CA "));
  EXPECT_EQ(Contents(), before);
}

TEST_F(TlsFolderTest, NamesThatNoCertificateCanHaveAreRefused) {
  for (const char* name : {"a b", "a,DNS:evil.example", "", "a/b", "kerf://x y"}) {
    EXPECT_FALSE(FillTlsFolder(Request({name}, {})).ok()) << name;
    EXPECT_FALSE(std::filesystem::exists(folder_)) << name;
  }
}

}  // namespace
}  // namespace kerf::agent
