// Redis over TLS: real servers, whole ones and such that are not who they have to be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "base/tls/certificate_facts.h"
#include "base/tls/testing/test_certificates.h"
#include "base/unique_fd.h"
#include "server/redis/redis_client.h"
#include "server/redis/testing/test_redis.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Result = absl::StatusOr<RedisReply>;

// A connection may end while something is written to it.
const auto kOldHandler = std::signal(SIGPIPE, SIG_IGN);

Result Call(RedisClient& client, RedisCommand command) {
  std::promise<Result> answer;
  client.Send(std::move(command), [&](const Result& reply) { answer.set_value(reply); });
  return answer.get_future().get();
}

Result Set(RedisClient& client, const std::string& key, const std::string& value,
           int replica_count = 0) {
  return Call(client, {key, std::nullopt, {"SET", key, value}, replica_count});
}

std::string Get(RedisClient& client, const std::string& key) {
  const Result reply = Call(client, {key, std::nullopt, {"GET", key}});
  return reply.ok() ? reply->text : reply.status().ToString();
}

std::string KeyOf(int number) { return Cat("key ", number); }

TestRedis Start(TestRedis::Kind kind, const std::string& password = "") {
  return TestRedis(kind, password, 2000, TestRedis::Log::kEverySecond, TestRedis::Tls::kYes);
}

std::shared_ptr<const TlsSource> SourceOf(const TlsFiles& files,
                                          milliseconds interval = kTlsReloadInterval) {
  auto source =
      TlsSource::Open({.side = TlsRules::Side::kClient, .files = files}, nullptr, interval);
  KERF_CHECK(source.ok());
  return *std::move(source);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What a command ends with where nobody can be spoken to.
std::string FailureWith(RedisOptions options) {
  options.command_timeout = milliseconds(1'500);
  options.connect_timeout = milliseconds(500);
  const auto client = *RedisClient::Create(std::move(options));
  const Result reply = Call(*client, {"key", std::nullopt, {"GET", "key"}});
  EXPECT_FALSE(reply.ok());
  return std::string(reply.status().message());
}

// By rename, as whoever renews certificates does it.
void Renew(const std::string& folder, const std::string& name, const CertifiedKey& key) {
  WriteTlsFiles(folder, name + ".new", key);
  for (const char* kind : {".pem", ".key"}) {
    const std::string path = Cat(folder, "/", name);
    KERF_CHECK(std::rename(Cat(path, ".new", kind).c_str(), Cat(path, kind).c_str()) == 0);
  }
}

TEST(RedisTlsTest, OneRedisAnswersWhateverTheSizeAndByThePassword) {
  const TestRedis redis = Start(TestRedis::Kind::kSingle, "secret");
  const auto client = *RedisClient::Create(redis.options());
  for (int number = 0; number < 100; ++number) {
    ASSERT_TRUE(Set(*client, KeyOf(number), Cat(number)).ok());
    EXPECT_EQ(Get(*client, KeyOf(number)), Cat(number));
  }
  // Many records in each direction, and more than a socket holds.
  std::string large;
  large.resize(20'000'000, 'x');
  for (std::size_t at = 0; at < large.size(); at += 1'000)
    large[at] = static_cast<char>(at / 1'000);
  ASSERT_TRUE(Set(*client, "large", large).ok());
  EXPECT_TRUE(Get(*client, "large") == large);
  // Many at once, of sizes around that of a record.
  std::atomic<int> right_count{0};
  std::atomic<int> answer_count{0};
  constexpr int kMany = 2'000;
  for (int number = 0; number < kMany; ++number) {
    const std::string text(static_cast<std::size_t>(number) * 17, 'y');
    client->Send({"", std::nullopt, {"ECHO", text}}, [&, text](const Result& reply) {
      if (reply.ok() && reply->text == text) ++right_count;
      ++answer_count;
    });
  }
  while (answer_count < kMany) std::this_thread::sleep_for(milliseconds(5));
  // Redis 7.0 ends a connection now and then whose answers do not fit into its socket ("bad length"
  // in its log; valkey#1135): what was on it is sent again.
  EXPECT_EQ(right_count.load(), kMany);
}

TEST(RedisTlsTest, AClusterIsFollowedThroughAFailoverAndADeath) {
  TestRedis redis = Start(TestRedis::Kind::kCluster);
  RedisOptions options = redis.options();
  // The others it learns, by their addresses.
  options.seeds.resize(1);
  const auto client = *RedisClient::Create(options);
  for (int number = 0; number < 200; ++number) {
    ASSERT_TRUE(Set(*client, KeyOf(number), Cat(number), 1).ok());
  }
  redis.Do({"failover", "1"});
  for (int number = 0; number < 200; ++number) {
    EXPECT_EQ(Get(*client, KeyOf(number)), Cat(number));
    ASSERT_TRUE(Set(*client, KeyOf(number), Cat("new ", number), 1).ok());
  }
  // Cut off in the middle of what it was asked.
  std::atomic<bool> is_stopping{false};
  std::atomic<int> failed_count{0};
  std::thread asker([&] {
    while (!is_stopping) failed_count += Get(*client, KeyOf(1)) == "new 1" ? 0 : 1;
  });
  redis.Do({"kill", "2"});
  EXPECT_TRUE(redis.WaitUntilReplaced(std::chrono::seconds(30)));
  for (int number = 0; number < 200; ++number) {
    EXPECT_EQ(Get(*client, KeyOf(number)), Cat("new ", number));
  }
  is_stopping = true;
  asker.join();
  EXPECT_EQ(failed_count.load(), 0);
}

TEST(RedisTlsTest, WhoIsNotWhoHeHasToBeIsNotSpokenTo) {
  const TestRedis redis = Start(TestRedis::Kind::kSingle);
  const std::string address = FormatRedisAddress(redis.addresses()[0]);
  const TestCertificates others;
  WriteTlsFile(redis.TlsFolder() + "/other-ca.pem", others.ca.certificate);
  RedisOptions options = redis.options();
  options.tls_name = "redis.test";
  EXPECT_TRUE(Set(**RedisClient::Create(options), "key", "value").ok());
  options.tls_name = "other.test";
  EXPECT_THAT(FailureWith(options),
              HasSubstr(Cat(address, ": its certificate is not of other.test")));
  options = redis.options();
  options.seeds = {{"localhost", redis.addresses()[0].port}};
  EXPECT_THAT(FailureWith(options), HasSubstr("its certificate is not of localhost"));
  options = redis.options();
  TlsFiles files = redis.tls_files();
  files.ca = redis.TlsFolder() + "/other-ca.pem";
  options.tls = SourceOf(files);
  EXPECT_THAT(FailureWith(options),
              AllOf(HasSubstr(address), HasSubstr("its certificate is not accepted: "),
                    AnyOf(HasSubstr("self-signed"), HasSubstr("unable to get local issuer"))));
}

TEST(RedisTlsTest, AServerThatDoesNotTakeTheCertificateSaysSo) {
  const TestRedis redis = Start(TestRedis::Kind::kSingle);
  const TestCertificates others;
  // What the system says first may hide what Redis said.
  const auto lost_alert = HasSubstr("it may ask for a certificate, or not take the one");
  RedisOptions options = redis.options();
  options.tls = SourceOf({.ca = redis.tls_files().ca});
  EXPECT_THAT(FailureWith(options),
              AnyOf(HasSubstr("it asks for a certificate, and none was shown to it"), lost_alert));
  options.tls =
      SourceOf(WriteTlsFiles(redis.TlsFolder(), "foreign", others.client, redis.tls_files().ca));
  EXPECT_THAT(FailureWith(options),
              AnyOf(HasSubstr("it refuses the certificate that was shown to it"), lost_alert));
}

TEST(RedisTlsTest, PlainAndTlsDoNotUnderstandEachOtherAndItIsSaid) {
  const TestRedis tls = Start(TestRedis::Kind::kSingle);
  const TestRedis plain(TestRedis::Kind::kSingle);
  RedisOptions options = tls.options();
  options.seeds = plain.addresses();
  EXPECT_THAT(FailureWith(options), HasSubstr("speak"));
  options = tls.options();
  options.tls = nullptr;
  EXPECT_THAT(FailureWith(options),
              AnyOf(HasSubstr("it closed the connection"), HasSubstr("Connection reset by peer")));
}

// Takes connections, and keeps what comes; says nothing.
class Eavesdropper {
 public:
  Eavesdropper() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    KERF_CHECK(bind(listener_.get(), any, size) == 0 && listen(listener_.get(), 8) == 0);
    KERF_CHECK(getsockname(listener_.get(), any, &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      while (true) {
        const UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!peer.valid()) return;
        char bytes[4096];
        while (true) {
          const ssize_t count = read(peer.get(), bytes, sizeof bytes);
          if (count <= 0) break;
          heard_.append(bytes, static_cast<std::size_t>(count));
        }
      }
    });
  }
  ~Eavesdropper() { Stop(); }

  RedisAddress address() const { return {"127.0.0.1", port_}; }
  // Everything that came.
  const std::string& Stop() {
    shutdown(listener_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    return heard_;
  }

 private:
  const UniqueFd listener_;
  int port_ = 0;
  std::string heard_;
  std::thread thread_;
};

TEST(RedisTlsTest, NothingGoesOutBeforeTlsIsUp) {
  const TestRedis redis = Start(TestRedis::Kind::kSingle, "a password");
  Eavesdropper eavesdropper;
  RedisOptions options = redis.options();
  options.username = "a user";
  options.seeds = {eavesdropper.address()};
  EXPECT_THAT(FailureWith(options),
              HasSubstr("it does not answer as one that speaks TLS; is it TLS's port?"));
  const std::string& heard = eavesdropper.Stop();
  ASSERT_GT(heard.size(), 3u);
  // A handshake, and nothing else.
  EXPECT_EQ(heard.substr(0, 2), "\x16\x03");
  EXPECT_THAT(heard, AllOf(Not(HasSubstr("a password")), Not(HasSubstr("a user")),
                           Not(HasSubstr("AUTH")), Not(HasSubstr("CLUSTER"))));
}

// Also of a connection that is as old as kerfd.
TEST(RedisTlsTest, WhenTheCertificateOfANodeEndsIsKnown) {
  const TestRedis redis = Start(TestRedis::Kind::kSingle);
  const std::string folder = redis.TlsFolder();
  RedisOptions options = redis.options();
  options.tls_connection_life = milliseconds(100);
  const auto client = *RedisClient::Create(options);
  EXPECT_EQ(client->certificate_expires_at_s(), std::nullopt) << "nobody has asked it anything";
  ASSERT_TRUE(Set(*client, "key", "value").ok());
  const auto end_of = [](const std::string& pem) {
    return ReadCertificateFacts(pem)->expires_at_s;
  };
  const std::int64_t first = client->certificate_expires_at_s().value_or(0);
  EXPECT_EQ(first, end_of(ReadFile(folder + "/redis.pem")));
  const TestCertificates& all = TestCertificates::Get();
  const CertifiedKey shorter = all.Of("redis", {"127.0.0.1"}, true, true, std::chrono::hours(100));
  ASSERT_NE(end_of(shorter.certificate), first);
  Renew(folder, "redis", shorter);
  const Result told = Call(*client, {"",
                                     redis.addresses()[0],
                                     {"CONFIG", "SET", "tls-cert-file", folder + "/redis.pem",
                                      "tls-key-file", folder + "/redis.key"}});
  ASSERT_TRUE(told.ok() && told->text == "OK");
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (client->certificate_expires_at_s() == first && std::chrono::steady_clock::now() < until) {
    EXPECT_EQ(Get(*client, "key"), "value");
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(client->certificate_expires_at_s(), end_of(shorter.certificate));
  const TestRedis plain(TestRedis::Kind::kSingle);
  const auto in_the_clear = *RedisClient::Create(plain.options());
  ASSERT_TRUE(Set(*in_the_clear, "key", "value").ok());
  EXPECT_EQ(in_the_clear->certificate_expires_at_s(), std::nullopt);
}

// As of a worker that many upload to.
TEST(RedisTlsTest, AConnectionThatIsAlwaysBusyIsMadeAnewToo) {
  const TestRedis redis = Start(TestRedis::Kind::kSingle);
  const std::string folder = redis.TlsFolder();
  RedisOptions options = redis.options();
  options.tls_connection_life = milliseconds(100);
  options.read_connection_count = 1;
  // A machine that is busy is no reason to ask again.
  options.attempt_timeout = std::chrono::minutes(1);
  options.connect_timeout = std::chrono::minutes(1);
  const auto client = *RedisClient::Create(options);
  const RedisAddress address = redis.addresses()[0];
  std::atomic<bool> is_over = false;
  std::atomic<int> under_way = 0;
  std::atomic<int> failed_count = 0;
  std::atomic<int> answered_count = 0;
  // Answered one behind the other, so that some are on the way at any time.
  const std::function<void()> wait_there = [&] {
    ++under_way;
    client->Send({"", address, {"BLPOP", "nothing", "0.05"}}, [&](const Result& reply) {
      if (!reply.ok() || reply->kind == RedisReply::Kind::kError) ++failed_count;
      ++answered_count;
      if (!is_over) wait_there();
      --under_way;
    });
  };
  for (int count = 0; count < 4; ++count) wait_there();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto wait_until = [&](const std::function<bool()>& is_so) {
    while (!is_so() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    return is_so();
  };
  EXPECT_TRUE(wait_until([&] { return client->certificate_expires_at_s().has_value(); }));
  const CertifiedKey shorter =
      TestCertificates::Get().Of("redis", {"127.0.0.1"}, true, true, std::chrono::hours(100));
  Renew(folder, "redis", shorter);
  // By another one: what this client sends waits behind what it has sent.
  const auto other = *RedisClient::Create(redis.options());
  const Result told = Call(*other, {"",
                                    address,
                                    {"CONFIG", "SET", "tls-cert-file", folder + "/redis.pem",
                                     "tls-key-file", folder + "/redis.key"}});
  EXPECT_TRUE(told.ok() && told->text == "OK");
  const std::int64_t end = ReadCertificateFacts(shorter.certificate)->expires_at_s;
  EXPECT_TRUE(wait_until([&] { return client->certificate_expires_at_s() == end; }));
  // Those that were replaced are gone, and have answered all.
  const int answered_before = answered_count;
  EXPECT_TRUE(wait_until([&] { return answered_count > answered_before + 8; }));
  is_over = true;
  EXPECT_TRUE(wait_until([&] { return under_way == 0; }));
  EXPECT_EQ(failed_count, 0);
  EXPECT_EQ(client->counters().retries, 0u);
  client->Close();
}

TEST(RedisTlsTest, CertificatesAreRenewedAndNoCommandFails) {
  const TestRedis redis = Start(TestRedis::Kind::kSingle);
  const std::string folder = redis.TlsFolder();
  RedisOptions options = redis.options();
  constexpr milliseconds kReload{50};
  options.tls = SourceOf(redis.tls_files(), kReload);
  const auto client = *RedisClient::Create(options);
  std::atomic<bool> is_stopping{false};
  std::mutex mutex;
  std::vector<std::string> failures;
  std::thread writer([&] {
    for (int number = 0; !is_stopping; ++number) {
      const Result reply = Set(*client, KeyOf(number % 100), Cat(number));
      const std::lock_guard lock(mutex);
      if (!reply.ok()) failures.push_back(reply.status().ToString());
    }
  });
  // As an operator does it: first both CAs are known, then all certificates are of the new one,
  // then the old one goes. All connections are made anew each time.
  const TestCertificates& old = TestCertificates::Get();
  const TestCertificates next;
  const auto tell_redis = [&] {
    const std::string pem = folder + "/redis.pem";
    const std::string key = folder + "/redis.key";
    const std::string ca = folder + "/ca.pem";
    const Result reply = Call(*client, {"",
                                        redis.addresses()[0],
                                        {"CONFIG", "SET", "tls-cert-file", pem, "tls-key-file", key,
                                         "tls-ca-cert-file", ca}});
    EXPECT_TRUE(reply.ok() && reply->text == "OK") << (reply.ok() ? reply->text : "");
    std::this_thread::sleep_for(4 * kReload);
    EXPECT_TRUE(
        Call(*client,
             {"", redis.addresses()[0], {"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"}})
            .ok());
    std::this_thread::sleep_for(4 * kReload);
  };
  WriteTlsFile(folder + "/both.pem", old.ca.certificate + next.ca.certificate);
  ASSERT_EQ(std::rename((folder + "/both.pem").c_str(), (folder + "/ca.pem").c_str()), 0);
  tell_redis();
  Renew(folder, "redis", next.Of("redis", {"127.0.0.1"}, true, true));
  Renew(folder, "client", next.client);
  tell_redis();
  WriteTlsFile(folder + "/next.pem", next.ca.certificate);
  ASSERT_EQ(std::rename((folder + "/next.pem").c_str(), (folder + "/ca.pem").c_str()), 0);
  tell_redis();
  is_stopping = true;
  writer.join();
  EXPECT_THAT(failures, ::testing::IsEmpty());
  // The first, and one for each time.
  EXPECT_GE(client->counters().connects, 4u);
}

}  // namespace
}  // namespace kerf
