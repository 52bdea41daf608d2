// kerfd whose index is in a Redis that speaks TLS alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "base/tls/testing/test_certificates.h"
#include "e2e/redis_fixture.h"

namespace kerf::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class RedisTlsTest : public RedisTest {
 protected:
  RedisTlsTest() : RedisTest(/*file_bytes=*/4'000'000) {}

  static TestRedis RedisOf(TestRedis::Kind kind) {
    return TestRedis(kind, "secret", 2000, TestRedis::Log::kEverySecond, TestRedis::Tls::kYes);
  }
  // kerfd shows what it serves with, which is for clients, too.
  std::vector<std::string> TlsFlags(const TestRedis& redis, const std::string& replicas) {
    const TlsFiles own = WriteTlsFiles(
        world_.path(), "kerfd",
        TestCertificates::Get().Of("kerfd", {"spiffe://kerf.test/kerfd"}, true, true));
    WriteText(world_ / "password", "secret\n");
    chmod((world_ / "password").c_str(), 0600);
    std::vector<std::string> flags = Flags(redis, replicas);
    flags.insert(flags.end(),
                 {"--redis-password-file", world_ / "password", "--redis-tls-ca",
                  redis.tls_files().ca, "--tls-cert", own.certificate, "--tls-key", own.key});
    return flags;
  }
};

TEST_F(RedisTlsTest, TheIndexIsInOneRedis) {
  const TestRedis redis = RedisOf(TestRedis::Kind::kSingle);
  world_.StartServer(TlsFlags(redis, "0"));
  BackupAll();
  ExpectNothingNew();
  ExpectAllThere();
  world_.StopServer();
}

TEST_F(RedisTlsTest, TheIndexIsInAClusterWhoseMasterDies) {
  TestRedis redis = RedisOf(TestRedis::Kind::kCluster);
  world_.StartServer(TlsFlags(redis, "1"));
  BackupAll();
  redis.Do({"kill", "1"});
  EXPECT_TRUE(redis.WaitUntilReplaced(std::chrono::seconds(30)));
  redis.Do({"start", "1"});
  ExpectNothingNew();
  ExpectAllThere();
  world_.StopServer();
}

TEST_F(RedisTlsTest, WhatIsWrongIsSaidAtTheStart) {
  const TestRedis redis = RedisOf(TestRedis::Kind::kSingle);
  const TestCertificates& all = TestCertificates::Get();
  const TlsFiles good = WriteTlsFiles(world_.path(), "good", all.client, redis.tls_files().ca);
  const auto end_with = [&](const TlsFiles& files, const std::vector<std::string>& more) {
    WriteText(world_ / "password", "secret\n");
    chmod((world_ / "password").c_str(), 0600);
    std::vector<std::string> arguments = {BuiltProgram("server/kerfd"),
                                          "--listen",
                                          World::AddressOf("kerfd"),
                                          "--index-timeout-ms",
                                          "3000",
                                          "--redis-password-file",
                                          world_ / "password",
                                          "--redis-tls-ca",
                                          files.ca,
                                          "--tls-cert",
                                          files.certificate,
                                          "--tls-key",
                                          files.key};
    for (const std::string& flag : Flags(redis, "0")) arguments.push_back(flag);
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Completed end = world_.Run(arguments);
    EXPECT_NE(end.exit_code, 0);
    EXPECT_THAT(end.err, testing::Not(HasSubstr("secret\n")));
    return end.err;
  };
  EXPECT_THAT(end_with(good, {"--redis-tls-name", "other.test"}),
              HasSubstr("its certificate is not of other.test"));
  const TestCertificates others;
  WriteTlsFile(world_ / "other-ca.pem", others.ca.certificate);
  TlsFiles files = good;
  files.ca = world_ / "other-ca.pem";
  EXPECT_THAT(end_with(files, {}), HasSubstr("its certificate is not accepted"));
  files.ca = world_ / "none.pem";
  EXPECT_THAT(end_with(files, {}), HasSubstr(world_ / "none.pem"));
  // A certificate that Redis has to refuse is named before it does.
  files =
      WriteTlsFiles(world_.path(), "server", all.Of("kerfd", {"127.0.0.1"}, true, false), good.ca);
  EXPECT_THAT(end_with(files, {}), AllOf(HasSubstr("the certificate is for servers alone"),
                                         testing::AnyOf(HasSubstr("it refuses the certificate"),
                                                        HasSubstr("right behind the handshake"))));
}

}  // namespace
}  // namespace kerf::e2e
