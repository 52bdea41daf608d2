// kerf and kerfd over TLS, with what `kerf tls init` makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/tls/certificate_maker.h"
#include "client/fs/testing/compare_trees.h"
#include "e2e/round_trip.h"
#include "e2e/slow_proxy.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

using Arguments = std::vector<std::string>;

// Of whatever has to come.
constexpr seconds kPatience{30};

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() : tree_(world_ / "tree") {
    std::filesystem::create_directory(tree_);
    for (int number = 0; number < 20; ++number) AddFile(Cat("file-", number), 40'000);
    MakeFolder("tls");
    UseClient("tls", "agent");
  }

  // With a CA of its own, the server's files and those of the client "agent".
  void MakeFolder(const std::string& folder) {
    const Completed made = world_.Kerf(
        {"tls", "init", folder, "--name", "localhost", "--name", "127.0.0.1", "--client", "agent"});
    ASSERT_EQ(made.exit_code, kOk) << made.err;
  }
  // For all runs of kerf from here on.
  void UseClient(const std::string& folder, const std::string& name) {
    world_.SetEnvironment("KERF_TLS_CA", folder + "/ca.pem");
    world_.SetEnvironment("KERF_TLS_CERT", Cat(folder, "/", name, ".pem"));
    world_.SetEnvironment("KERF_TLS_KEY", Cat(folder, "/", name, ".key"));
  }
  void UseNoTls() {
    for (const char* name : {"KERF_TLS_CA", "KERF_TLS_CERT", "KERF_TLS_KEY"}) {
      world_.UnsetEnvironment(name);
    }
  }
  static Arguments ServerFlags(const std::string& folder, const std::string& name,
                               const std::string& listen = "127.0.0.1:0") {
    return {"--listen",        listen,
            "--tls-cert",      Cat(folder, "/", name, ".pem"),
            "--tls-key",       Cat(folder, "/", name, ".key"),
            "--tls-client-ca", folder + "/ca.pem"};
  }
  // Whom kerf asks from here on.
  void StartServer(const Arguments& flags = ServerFlags("tls", "kerfd")) {
    world_.StartServer(flags);
    world_.SetEnvironment("KERF_SERVER", world_.last_address());
  }

  // NAME.pem and NAME.key of the folder's CA.
  void Make(const std::string& folder, const std::string& name, const CertificateRequest& request) {
    const auto made =
        MakeCertificate(request, {.certificate = ReadText(world_ / (folder + "/ca.pem")),
                                  .key = ReadText(world_ / (folder + "/ca.key"))});
    ASSERT_TRUE(made.ok()) << made.status();
    WriteText(world_ / Cat(folder, "/", name, ".pem"), made->certificate);
    WriteText(world_ / Cat(folder, "/", name, ".key"), made->key);
  }
  void AddFile(const std::string& name, std::size_t size_bytes) {
    std::string content(size_bytes, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    WriteText(tree_ + "/" + name, content);
  }

  void ExpectAllThere() {
    EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, kOk);
    const std::string target = world_ / "restored";
    EXPECT_EQ(world_.Kerf({"restore", "latest", "--target", target}).exit_code, kOk);
    EXPECT_THAT(agent::testing::CompareTrees(tree_, target + tree_, {}), ::testing::IsEmpty());
    std::filesystem::remove_all(target);
  }
  // That this is said, with code 4, in one line and soon.
  void ExpectRefused(const Arguments& arguments, const std::string& text) {
    const auto began = steady_clock::now();
    const Completed run = world_.Kerf(arguments);
    EXPECT_EQ(run.exit_code, kAuthentication) << arguments[0] << ": " << run.err;
    EXPECT_THAT(run.err, HasSubstr(text)) << arguments[0];
    EXPECT_THAT(run.err, Not(HasSubstr("SSL"))) << "gRPC's own words";
    EXPECT_LT(steady_clock::now() - began, seconds(8)) << arguments[0];
  }
  void ExpectPingRefused(const std::string& text) {
    ExpectRefused({"ping"}, text);
    ExpectRefused({"backup", tree_}, text);
  }

  World world_;
  Random random_{TestSeed()};
  const std::string tree_;
};

TEST_F(TlsTest, EveryVerbGoesOverItAndNothingIsLost) {
  StartServer();
  const nlohmann::json first = world_.Backup({tree_});
  EXPECT_GT(first["new_bytes"], 700'000);
  AddFile("file-3", 50'000);
  world_.Backup({tree_, "--force"});
  ExpectAllThere();
  EXPECT_TRUE(world_.KerfJson({"ping"}).Only("summary")["tls"]);
  for (const Arguments& arguments : std::vector<Arguments>{
           {"top", "--once"},
           {"index", "stats"},
           {"index", "check"},
           {"index", "rebuild"},
           {"index", "export", "--output", world_ / "exported"},
           {"forget", "--keep-last", "1"},
           {"gc", "--max-waste", "0"},
           {"copy", "--to", world_ / "copied", "--create"},
           {"index", "check", "--store", world_ / "copied"},
           {"bench", "service", "--server", world_.last_address(), "--size", "1M", "--rounds", "1",
            "--idle-streams", "0", "--busy-streams", "0"}}) {
    const Completed run = world_.Kerf(arguments);
    EXPECT_EQ(run.exit_code, kOk) << arguments[0] << " " << arguments[1] << ": " << run.err;
  }
  ExpectAllThere();
}

TEST_F(TlsTest, AUnixSocketIsAskedInTheClear) {
  world_.StartServer();
  const nlohmann::json said = world_.KerfJson({"ping"}).Only("summary");
  EXPECT_FALSE(said["tls"]) << said.dump();
}

TEST_F(TlsTest, AServerThatIsNotToBeTrustedIsNotAsked) {
  StartServer();
  MakeFolder("other");
  UseClient("other", "agent");
  ExpectPingRefused(
      Cat("the certificate of ", world_.last_address(), " is of no CA in other/ca.pem"));
  UseClient("tls", "agent");
  ExpectRefused({"ping", "--tls-name", "other.example"},
                "is not known to be other.example: its certificate is for localhost, 127.0.0.1");
  EXPECT_EQ(world_.Kerf({"ping", "--tls-name", "localhost"}).exit_code, kOk);

  Make("tls", "elsewhere",
       {.common_name = "127.0.0.1", .names = {"elsewhere"}, .is_for_servers = true});
  StartServer(ServerFlags("tls", "elsewhere"));
  ExpectPingRefused("is not known to be 127.0.0.1: its certificate is for elsewhere");
  EXPECT_EQ(world_.Kerf({"ping", "--tls-name", "elsewhere"}).exit_code, kOk);

  Make("tls", "old",
       {.common_name = "old",
        .names = {"127.0.0.1"},
        .is_for_servers = true,
        .valid_for = std::chrono::hours(-1)});
  StartServer(ServerFlags("tls", "old"));
  ExpectPingRefused(Cat("the certificate of ", world_.last_address(), " has ended on "));
}

TEST_F(TlsTest, AServerSaysWhomItDoesNotServe) {
  StartServer();
  MakeFolder("other");
  Make("tls", "old",
       {.common_name = "old", .is_for_clients = true, .valid_for = std::chrono::hours(-1)});
  Make("tls", "server", {.common_name = "server", .is_for_servers = true});
  UseClient("tls", "old");
  ExpectPingRefused("refuses tls/old.pem: its time is over");
  UseClient("tls", "server");
  ExpectPingRefused("refuses tls/server.pem: it is not one for clients");
  UseClient("other", "agent");
  world_.SetEnvironment("KERF_TLS_CA", "tls/ca.pem");
  ExpectPingRefused("refuses other/agent.pem: its CA is not one of those that the server trusts");
  world_.UnsetEnvironment("KERF_TLS_CERT");
  world_.UnsetEnvironment("KERF_TLS_KEY");
  ExpectPingRefused("serves those alone who show a certificate");
  for (const Arguments& arguments :
       std::vector<Arguments>{{"gc"}, {"index", "stats"}, {"index", "check"}, {"top", "--once"}}) {
    ExpectRefused(arguments, "serves those alone who show a certificate");
  }
}

TEST_F(TlsTest, WhoSpeaksTlsAndWhoDoesNotIsSaid) {
  StartServer();
  UseNoTls();
  ExpectPingRefused(Cat(world_.last_address(), " speaks TLS: give the CA of its certificate"));
  StartServer({"--listen", "127.0.0.1:0"});
  EXPECT_EQ(world_.Kerf({"ping"}).exit_code, kOk);
  UseClient("tls", "agent");
  ExpectPingRefused(Cat(world_.last_address(), " speaks no TLS"));
  // Nobody at all is another matter.
  world_.StopServer();
  EXPECT_EQ(world_.Kerf({"ping"}).exit_code, kUnavailable);
}

TEST_F(TlsTest, AnyOfSeveralServersThatIsToBeTrustedWillDo) {
  StartServer();
  const auto clear =
      world_.StartKerfd("clear", {"--listen", "127.0.0.1:0", "--data-dir", world_ / "clear"});
  ASSERT_NE(clear, nullptr);
  world_.SetEnvironment("KERF_SERVER",
                        Cat(world_.LastAddressOf("clear"), ",", world_.last_address()));
  world_.Backup({tree_});
  EXPECT_EQ(world_.Kerf({"gc"}).exit_code, kOk);
  ExpectAllThere();
}

TEST_F(TlsTest, ThroughAFrontAndPastItToAWorkerKnownByItsAddressOrAName) {
  Make("tls", "elsewhere",
       {.common_name = "elsewhere", .names = {"elsewhere"}, .is_for_servers = true});
  for (const bool is_known : {true, false}) {
    SCOPED_TRACE(is_known);
    StartServer(ServerFlags("tls", is_known ? "kerfd" : "elsewhere"));
    Arguments flags = ServerFlags("tls", "kerfd");
    flags.insert(flags.end(), {"--role", "front", "--workers", world_.last_address(),
                               "--worker-tls-ca", "tls/ca.pem"});
    if (!is_known) flags.insert(flags.end(), {"--worker-tls-name", "elsewhere"});
    const auto front = world_.StartKerfd("front", flags);
    ASSERT_NE(front, nullptr);
    world_.SetEnvironment("KERF_SERVER", world_.LastAddressOf("front"));
    const nlohmann::json through = world_.Backup({tree_, "--force"});
    EXPECT_EQ(through["direct_streams"], 0);
    const JsonRun run = world_.KerfJson({"backup", tree_, "--force", "--direct"});
    EXPECT_EQ(run.exit_code, kOk);
    const nlohmann::json past = run.Only("summary");
    // By the name that the front itself looks at (routing.md).
    EXPECT_EQ(past["direct_streams"], past["streams"]) << past.dump();
    EXPECT_EQ(past["detour"], "");
    EXPECT_TRUE(run.Of("warning").empty());
    EXPECT_EQ(world_.Kerf({"top", "--once"}).exit_code, kOk);
    ExpectAllThere();
  }
}

TEST_F(TlsTest, FilesAndFlagsThatAreWrongAreUsageErrors) {
  StartServer();
  const auto expect = [&](const Arguments& arguments, const std::string& text) {
    const Completed run = world_.Kerf(arguments);
    EXPECT_EQ(run.exit_code, kUsage) << run.err;
    EXPECT_THAT(run.err, HasSubstr(text));
  };
  expect({"ping", "--tls-ca", "none.pem"}, "none.pem");
  expect({"ping", "--tls-ca", "tls/agent.key"}, "tls/agent.key: there is no certificate in it");
  expect({"ping", "--tls-key", "tls/kerfd.key"},
         "it is not the key of the certificate in tls/agent.pem");
  expect({"backup", tree_, "--tls-cert", "none.pem"}, "none.pem");
  EXPECT_FALSE(std::filesystem::exists(world_.store()));
  UseNoTls();
  expect({"ping", "--tls-cert", "tls/agent.pem"}, "--tls-cert and --tls-key belong together");
  expect({"ping", "--tls-name", "localhost"}, "--tls-name is for TLS");
  WriteText(world_ / "config.toml",
            "[ping]\ntls-ca = \"tls/ca.pem\"\ntls-cert = \"tls/agent.pem\"\n"
            "tls-key = \"tls/agent.key\"\n");
  EXPECT_EQ(world_.Kerf({"ping", "--config", "config.toml"}).exit_code, kOk);
}

// In the middle of a backup somebody else is in the server's place, or it has no good certificate
// any more.
TEST_F(TlsTest, AServerThatIsAnotherOneIsNotTriedForLong) {
  StartServer();
  const std::string address = world_.last_address();
  for (int number = 0; number < 4; ++number) AddFile(Cat("large-", number), 5'000'000);
  SlowProxy proxy(std::stoi(address.substr(address.rfind(':') + 1)), milliseconds(0));
  proxy.HoldAfter(3'000'000);
  const auto backup =
      world_.Start({"backup", tree_, "--server", proxy.address(), "--retry-for", "1h"});
  ASSERT_TRUE(proxy.WaitUntilHeld(kPatience));
  MakeFolder("other");
  ASSERT_TRUE(world_.server().Kill());
  world_.StartServer(ServerFlags("other", "kerfd", address));
  const auto began = steady_clock::now();
  proxy.Release();
  const Completed end = backup->Wait();
  EXPECT_EQ(end.exit_code, kAuthentication) << end.err;
  EXPECT_THAT(end.err, HasSubstr("is of no CA in tls/ca.pem"));
  EXPECT_LT(steady_clock::now() - began, seconds(30));
  EXPECT_TRUE(world_.KerfJson({"snapshots"}).Of("snapshot").empty());
}

class TlsRotationTest : public TlsTest {
 protected:
  // As people do it: the new file beside the old one, then by its name.
  void Replace(const std::string& file, const std::string& text) {
    WriteText(world_ / (file + ".new"), text);
    std::filesystem::rename(world_ / (file + ".new"), world_ / file);
  }
  std::string Read(const std::string& file) { return ReadText(world_ / file); }
  void ReplaceOf(const std::string& name, const std::string& folder) {
    for (const char* suffix : {".pem", ".key"}) {
      Replace(Cat("live/", name, suffix), Read(Cat(folder, "/", name, suffix)));
    }
  }
  void WaitUntilPingEndsWith(int exit_code, const Arguments& flags) {
    Arguments arguments = {"ping"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const auto deadline = steady_clock::now() + kPatience;
    Completed run = world_.Kerf(arguments);
    while (run.exit_code != exit_code) {
      ASSERT_LT(steady_clock::now(), deadline) << run.exit_code << ": " << run.err;
      // Not more often: kerfd takes no connections of an address for a while that breaks too many.
      std::this_thread::sleep_for(milliseconds(500));
      run = world_.Kerf(arguments);
    }
  }
  // From the CA of one folder to that of another one: both are trusted while certificates change.
  void Rotate(const std::string& from, const std::string& to) {
    const std::string both = Read(from + "/ca.pem") + Read(to + "/ca.pem");
    Replace("live/ca.pem", both);
    const Arguments as_new = {"--tls-cert", to + "/agent.pem", "--tls-key", to + "/agent.key"};
    const Arguments as_old = {"--tls-cert", from + "/agent.pem", "--tls-key", from + "/agent.key"};
    WaitUntilPingEndsWith(kOk, as_new);
    ReplaceOf("kerfd", to);
    ReplaceOf("agent", to);
    WaitUntilPingEndsWith(kOk, {"--tls-ca", to + "/ca.pem"});
    Replace("live/ca.pem", Read(to + "/ca.pem"));
    WaitUntilPingEndsWith(kAuthentication, as_old);
  }
};

TEST_F(TlsRotationTest, NoBackupFailsWhileAllCertificatesAreReplaced) {
  for (const char* folder : {"second", "third"}) MakeFolder(folder);
  std::filesystem::copy(world_ / "tls", world_ / "live");
  UseClient("live", "agent");
  StartServer(ServerFlags("live", "kerfd"));
  world_.Backup({tree_});
  // One that lasts over all of it, and loses its stream at the end: the next one is of the last CA.
  const std::string address = world_.last_address();
  SlowProxy proxy(std::stoi(address.substr(address.rfind(':') + 1)), milliseconds(0));
  std::filesystem::create_directory(world_ / "held");
  const std::string kerf = BuiltProgram("client/agent/kerf");
  const auto loop = world_.StartOther(
      {"/bin/bash", "-c",
       Cat("n=0; while [ ! -e stop ]; do head -c 100000 /dev/urandom > tree/changing || exit 1; ",
           kerf,
           " backup tree --json > last.out 2>&1 || { cat last.out; exit 7; }; n=$((n + 1)); done; "
           "echo $n")});
  for (int number = 0; number < 4; ++number) {
    std::string content(5'000'000, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
    WriteText(world_ / Cat("held/", number), content);
  }
  proxy.HoldAfter(3'000'000);
  const auto held = world_.Start({"backup", world_ / "held", "--server", proxy.address()});
  ASSERT_TRUE(proxy.WaitUntilHeld(kPatience));
  Rotate("tls", "second");
  ASSERT_FALSE(HasFatalFailure());
  Rotate("second", "third");
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_FALSE(loop->HasEnded());
  WriteText(world_ / "stop", "");
  const Completed looped = loop->Wait();
  EXPECT_EQ(looped.exit_code, 0) << looped.out << looped.err;
  EXPECT_GE(std::stoi(looped.out), 5) << looped.out;
  ASSERT_FALSE(held->HasEnded());
  ASSERT_TRUE(world_.server().Kill());
  world_.StartServer(ServerFlags("live", "kerfd", address));
  proxy.Release();
  const Completed end = held->Wait();
  EXPECT_EQ(end.exit_code, kOk) << end.err;
  EXPECT_THAT(end.err + end.out, HasSubstr("resume"));
  world_.Backup({tree_});
  ExpectAllThere();
}

}  // namespace
}  // namespace kerf::e2e
