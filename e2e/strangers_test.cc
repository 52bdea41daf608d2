// Strangers who reach a port: kerfd and a front stay up, within their memory, and answer those who
// behave. What it is about is in docs/threat_model.md.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/open_files.h"
#include "base/random.h"
#include "base/sanitizers.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/unique_fd.h"
#include "e2e/honest.h"
#include "e2e/raw_http2.h"
#include "e2e/world.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/redis/testing/test_redis.h"

namespace kerf::e2e {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;
using testing::HasSubstr;
using testing::Not;

// Beyond what it had before, of kerfd.
constexpr std::uint64_t kMaxGrowthMiB = 64;
// At once.
constexpr int kStrangers = 3;
using http2::Frame;

std::string Preface() { return Cat(http2::kPreface, Frame(http2::kSettings, 0, 0, "")); }

Http2Headers CallOf(const std::string& path) {
  return {{":method", "POST"},        {":scheme", "http"}, {":path", path},
          {":authority", "stranger"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
}

std::string FourBytes(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

constexpr const char* kUpload = "/kerf.v1.ChunkingService/Upload";

// Call after call, each with a frame of that type behind it, until nobody takes them.
void SendCallsEachFollowedBy(RawConnection& connection, std::uint8_t type,
                             const std::string& payload) {
  for (std::uint32_t stream = 1; stream < 100'000;) {
    std::string frames;
    for (int call = 0; call < 100; ++call, stream += 2) {
      frames += http2::HeadersFrame(0, stream, CallOf(kUpload));
      frames += Frame(type, 0, stream, payload);
    }
    if (!connection.Send(frames)) return;
  }
}

// 150 calls, which are there before they are reset.
void BeginAndResetCalls(RawConnection& connection, milliseconds between) {
  std::string calls;
  std::string resets;
  for (std::uint32_t stream = 1; stream < 300; stream += 2) {
    calls += http2::HeadersFrame(0, stream, CallOf(kUpload));
    resets += Frame(http2::kReset, 0, stream, FourBytes(8));
  }
  if (!connection.Send(calls)) return;
  std::this_thread::sleep_for(between);
  connection.Send(resets);
  // For kerfd to read them before the connection ends.
  std::this_thread::sleep_for(milliseconds(5));
}

class StrangersTest : public testing::Test {
 protected:
  void SetUp() override {
    KERF_CHECK(RaiseOpenFileLimit(6'000) >= 5'000);
    signal(SIGPIPE, SIG_IGN);
  }

  void Start(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--listen", "127.0.0.1:0", "--log-format", "json"});
    world_.StartServer(flags);
    address_ = world_.last_address();
    before_MiB_ = world_.server().PeakResidentMiB();
  }

  // Three strangers do this again and again, each over a new connection each time, beside an honest
  // client. What it is given has been greeted.
  void Flood(const std::function<void(RawConnection& connection)>& attack) {
    Honest honest(address_);
    const Clock::time_point end = Clock::now() + FloodTime();
    std::vector<std::thread> strangers;
    strangers.reserve(kStrangers);
    std::atomic<std::size_t> count{0};
    for (int stranger = 0; stranger < kStrangers; ++stranger) {
      strangers.emplace_back([&] {
        while (Clock::now() < end) {
          UniqueFd socket = ConnectAsStranger(address_);
          if (!socket.valid()) continue;
          RawConnection connection(std::move(socket));
          connection.Send(Preface());
          attack(connection);
          ++count;
        }
      });
    }
    for (std::thread& stranger : strangers) stranger.join();
    honest.ExpectGoodService();
    EXPECT_GT(count.load(), 0u);
    ExpectItIsWell();
  }

  void ExpectItIsWell(std::uint64_t max_growth_MiB = kMaxGrowthMiB) {
    EXPECT_FALSE(world_.server().HasEnded());
    if (kMemoryIsOurs) {
      EXPECT_LT(world_.server().PeakResidentMiB(), before_MiB_ + max_growth_MiB);
    }
    const std::string log = world_.StopServer();
    // Ten lines a second of one kind, and a few kinds; and as long again for slow machines.
    const auto lines = static_cast<std::size_t>(std::count(log.begin(), log.end(), '\n'));
    EXPECT_LT(lines, 60u * static_cast<std::size_t>(FloodTime().count() + 10));
  }

  World world_;
  std::string address_;
  std::uint64_t before_MiB_ = 0;
};

// More connections than it may have at all, again and again, none of which says anything.
TEST_F(StrangersTest, ConnectionsBeyondAllBounds) {
  Start({"--max-connections", "500"});
  Honest honest(address_);
  for (int round = 0; round < 5; ++round) {
    std::vector<UniqueFd> sockets(4'000);
    for (UniqueFd& socket : sockets) {
      socket = ConnectAsStranger(address_);
      ASSERT_TRUE(socket.valid());
    }
  }
  honest.ExpectGoodService();
  ExpectItIsWell();
}

// As if all descriptors had gone elsewhere. When they are back, so is everything else.
TEST_F(StrangersTest, WithoutFileDescriptors) {
  if (!kCanLackFiles) GTEST_SKIP() << "a sanitizer needs descriptors itself, to look at memory";
  Start();
  const auto limit_to = [this](rlim_t count) {
    rlimit before{};
    ASSERT_EQ(prlimit(world_.server().pid(), RLIMIT_NOFILE, nullptr, &before), 0);
    const rlimit now{count, before.rlim_max};
    ASSERT_EQ(prlimit(world_.server().pid(), RLIMIT_NOFILE, &now, nullptr), 0);
  };
  limit_to(10);
  std::vector<UniqueFd> sockets(200);
  for (UniqueFd& socket : sockets) socket = ConnectAsStranger(address_);
  std::this_thread::sleep_for(milliseconds(500));
  sockets.clear();
  limit_to(4'096);
  const auto channel = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + kPatience));
  EXPECT_THAT(world_.StopServer(), HasSubstr("takes no connections until there are"));
}

TEST_F(StrangersTest, RapidReset) {
  Start();
  Flood([](RawConnection& connection) {
    SendCallsEachFollowedBy(connection, http2::kReset, FourBytes(8));
  });
}

// Calls that are there before they are reset, over many connections: no bound of one connection
// sees anything wrong with that.
TEST_F(StrangersTest, CallsThatAreBegunAndReset) {
  Start();
  Flood([](RawConnection& connection) { BeginAndResetCalls(connection, milliseconds(10)); });
}

// Resets that kerfd is made to send: a window update of nothing.
TEST_F(StrangersTest, CallsThatAreMadeToBeReset) {
  Start();
  Flood([](RawConnection& connection) {
    SendCallsEachFollowedBy(connection, http2::kWindowUpdate, FourBytes(0));
  });
}

// A header block that never ends, in several forms. `more` is sent until nobody takes it any more,
// which must be soon.
class HeaderFloods : public StrangersTest {
 protected:
  void FloodOfHeaders(const std::string& first, const std::string& more) {
    Start();
    Flood([&](RawConnection& connection) {
      connection.Send(Frame(http2::kHeaders, 0, 1, first));
      std::size_t sent_bytes = 0;
      while (connection.Send(Frame(http2::kContinuation, 0, 1, more)) && sent_bytes < 256 << 20) {
        sent_bytes += more.size() + 9;
      }
      // Beside what the sockets hold.
      EXPECT_LT(sent_bytes, 64u << 20);
    });
  }
};

TEST_F(HeaderFloods, OfMoreAndMoreHeaders) {
  FloodOfHeaders(http2::HeaderBlock(CallOf(kUpload)),
                 http2::HeaderBlock(Http2Headers(100, {"abc", std::string(100, 'y')})));
}

TEST_F(HeaderFloods, OfNothing) { FloodOfHeaders(http2::HeaderBlock(CallOf(kUpload)), ""); }

TEST_F(HeaderFloods, OfOneHeader) {
  // A literal of 200 MiB: its name, and the length of its value.
  std::string first = http2::HeaderBlock(CallOf(kUpload));
  first += std::string("\0\1a\x7f", 4);
  for (std::uint32_t rest = (200u << 20) - 127; rest > 0; rest /= 128) {
    first += static_cast<char>(rest % 128 + (rest >= 128 ? 128 : 0));
  }
  FloodOfHeaders(first, std::string(16'000, 'z'));
}

// 4 KB in the table, and one byte for each time that it is meant.
TEST_F(HeaderFloods, OfOneThatIsRemembered) {
  std::string remembered("\x40\1a\x7f", 4);
  remembered += static_cast<char>((3'900 - 127) % 128 + 128);
  remembered += static_cast<char>((3'900 - 127) / 128);
  remembered += std::string(3'900, 'z');
  FloodOfHeaders(http2::HeaderBlock(CallOf(kUpload)) + remembered + std::string(8'000, '\xbe'),
                 std::string(16'000, '\xbe'));
}

TEST_F(StrangersTest, Pings) {
  Start();
  std::string pings;
  for (int count = 0; count < 500; ++count) pings += Frame(http2::kPing, 0, 0, "whatever");
  Flood([&](RawConnection& connection) {
    for (int count = 0; count < 100 && connection.Send(pings); ++count) {
    }
  });
}

TEST_F(StrangersTest, Settings) {
  Start();
  std::string settings;
  for (int count = 0; count < 500; ++count) {
    settings += Frame(http2::kSettings, 0, 0, std::string("\0\4", 2) + FourBytes(65'535));
  }
  Flood([&](RawConnection& connection) {
    for (int count = 0; count < 100 && connection.Send(settings); ++count) {
    }
  });
}

// What HTTP/2 lets anybody send without end, or tells the other side to overlook: it costs what
// reading it costs, and nothing stays of it.
TEST_F(StrangersTest, FramesThatBreakNoRule) {
  constexpr std::uint8_t kPriority = 2;
  constexpr std::uint8_t kUnknown = 0x77;
  const std::vector<std::string> forms = {
      Frame(http2::kWindowUpdate, 0, 0, FourBytes(1)),
      Frame(http2::kWindowUpdate, 0, 1, FourBytes(1)),
      Frame(http2::kData, 0, 1, ""),
      Frame(kPriority, 0, 9'999, FourBytes(10'001) + "p"),
      Frame(kUnknown, 255, 3, ""),
      Frame(kUnknown, 0, 0, std::string(16'000, 'u')),
      // An answer that nobody has asked for.
      Frame(http2::kPing, 1, 0, "whatever"),
      // Not the end of its call: an error of that call, behind which there is none.
      http2::HeadersFrame(0, 1, {{"more", "headers"}}),
  };
  Start();
  std::atomic<std::size_t> next{0};
  Flood([&](RawConnection& connection) {
    const std::string& form = forms[next++ % forms.size()];
    std::string frames;
    while (frames.size() < 64'000) frames += form;
    if (!connection.Send(http2::HeadersFrame(0, 1, CallOf(kUpload)))) return;
    for (int count = 0; count < 20 && connection.Send(frames); ++count) {
    }
  });
  EXPECT_GE(next.load(), forms.size());
}

// No window at all: what is answered stays where it is, for a while.
TEST_F(StrangersTest, AnswersThatNobodyReads) {
  Start({"--write-stall-timeout-ms", "1000"});
  Honest honest(address_);
  std::vector<RawConnection> connections;
  for (int count = 0; count < 10; ++count) {
    UniqueFd socket = ConnectAsStranger(address_);
    ASSERT_TRUE(socket.valid());
    connections.emplace_back(std::move(socket));
    RawConnection& connection = connections.back();
    std::string frames(http2::kPreface);
    frames += Frame(http2::kSettings, 0, 0, std::string("\0\4", 2) + FourBytes(0));
    for (std::uint32_t stream = 1; stream < 512; stream += 2) {
      frames += http2::HeadersFrame(0, stream, CallOf("/kerf.v1.StatusService/GetStatus"));
      frames += http2::DataFrame(http2::kEndStream, stream, "");
    }
    ASSERT_TRUE(connection.Send(frames));
  }
  // Each call is reset in the end: all the frames there are of that kind, of the first.
  int reset_count = 0;
  while (reset_count < 256 && connections[0].AwaitFrame(http2::kReset)) ++reset_count;
  EXPECT_EQ(reset_count, 256);
  honest.ExpectGoodService();
  ExpectItIsWell();
}

// The largest answers there are: 1.7 MB each, of an index that is small. Each is made, and nobody
// takes it; they are few at once, and others are asked for their turn.
TEST_F(StrangersTest, PagesThatNobodyReads) {
  Start({"--memory", "256M", "--write-stall-timeout-ms", "1000"});
  const auto channel = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  const auto stub = v1::IndexService::NewStub(channel);
  v1::CommitChunksRequest commit;
  commit.mutable_repository()->set_repository("r");
  commit.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  commit.set_store_epoch(1);
  for (std::uint32_t number = 0; number < 16'384; ++number) {
    v1::IndexEntry& entry = *commit.add_entries();
    entry.set_digest(std::string(28, 'd') + FourBytes(number));
    entry.set_length_bytes(1);
    entry.set_locator(std::string(64, 'l'));
  }
  {
    grpc::ClientContext context;
    v1::CommitChunksResponse response;
    const grpc::Status status = stub->CommitChunks(&context, commit, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  before_MiB_ = world_.server().PeakResidentMiB();
  v1::ScanChunksRequest scan;
  *scan.mutable_repository() = commit.repository();
  scan.set_limit(16'384);
  std::string frames(http2::kPreface);
  frames += Frame(http2::kSettings, 0, 0, std::string("\0\4", 2) + FourBytes(0));
  for (std::uint32_t stream = 1; stream < 512; stream += 2) {
    frames += http2::HeadersFrame(0, stream, CallOf("/kerf.v1.IndexService/ScanChunks"));
    frames += http2::DataFrame(http2::kEndStream, stream, scan.SerializeAsString());
  }
  Honest honest(address_);
  std::vector<RawConnection> connections;
  for (int count = 0; count < 10; ++count) {
    UniqueFd socket = ConnectAsStranger(address_);
    ASSERT_TRUE(socket.valid());
    connections.emplace_back(std::move(socket));
    ASSERT_TRUE(connections.back().Send(frames));
  }
  std::this_thread::sleep_for(seconds(3));
  honest.ExpectGoodService();
  // Once they are ended there is room again.
  bool is_answered = false;
  const Clock::time_point deadline = Clock::now() + seconds(20);
  while (!is_answered && Clock::now() < deadline) {
    grpc::ClientContext context;
    v1::ScanChunksResponse page;
    is_answered = stub->ScanChunks(&context, scan, &page).ok() && page.entries_size() == 16'384;
  }
  EXPECT_TRUE(is_answered);
  // An eighth of the memory, what the calls themselves take, and the pages that are made.
  ExpectItIsWell(160);
}

// The front's calls are its clients', and so are those that are cancelled: a worker that took the
// front for one client would refuse all of them for what one does.
TEST_F(StrangersTest, CallsThatAreBegunAndResetAtAFrontDoNotCostItItsWorker) {
  TestRedis redis(TestRedis::Kind::kSingle);
  std::vector<std::string> flags = {"--role", "worker",   "--redis-replicas",
                                    "0",      "--listen", "127.0.0.1:0"};
  for (const RedisAddress& address : redis.addresses()) {
    flags.insert(flags.end(), {"--redis", FormatRedisAddress(address)});
  }
  const auto worker = world_.StartKerfd("w", flags);
  ASSERT_NE(worker, nullptr);
  const auto front = world_.StartKerfd(
      "f", {"--role", "front", "--workers", world_.LastAddressOf("w"), "--listen", "127.0.0.1:0"});
  ASSERT_NE(front, nullptr);
  const std::string address = world_.LastAddressOf("f");
  Honest honest(address);
  for (int round = 0; round < 20; ++round) {
    UniqueFd socket = ConnectAsStranger(address);
    ASSERT_TRUE(socket.valid());
    RawConnection connection(std::move(socket));
    connection.Send(Preface());
    BeginAndResetCalls(connection, milliseconds(50));
    std::this_thread::sleep_for(milliseconds(50));
  }
  honest.ExpectGoodService();
}

// A call with that much metadata, and what it is answered. Whether it was answered at all.
bool CallWithMetadata(const std::string& address, std::uint64_t size) {
  UniqueFd socket = ConnectAsStranger(address);
  if (!socket.valid()) return false;
  RawConnection connection(std::move(socket));
  Http2Headers headers = CallOf("/kerf.v1.StatusService/GetStatus");
  for (std::uint64_t left = size; left > 0; left -= std::min<std::uint64_t>(left, 900)) {
    headers.emplace_back(Cat("m", left), std::string(std::min<std::uint64_t>(left, 900), 'm'));
  }
  const std::string block = http2::HeaderBlock(headers);
  std::string frames = Preface();
  frames += Frame(http2::kHeaders, block.size() <= 16'384 ? http2::kEndHeaders : 0, 1,
                  block.substr(0, 16'384));
  for (std::size_t at = 16'384; at < block.size(); at += 16'384) {
    frames += Frame(http2::kContinuation,
                    at + 16'384 >= block.size() ? http2::kEndHeaders : std::uint8_t{0}, 1,
                    block.substr(at, 16'384));
  }
  connection.Send(frames + http2::DataFrame(http2::kEndStream, 1, ""));
  return connection.AwaitFrame(http2::kHeaders);
}

// Who has a call open may go on with it, however badly others behave at the same address: of those
// beside him none is lost, and none delayed by more than a second.
TEST_F(StrangersTest, MetadataOfAnySizeBesideBackupsThroughAFront) {
  constexpr int kBackups = 8;
  Random random(TestSeed());
  const auto worker = world_.StartKerfd("w", {"--role", "all", "--listen", "127.0.0.1:0"});
  ASSERT_NE(worker, nullptr);
  const auto front = world_.StartKerfd(
      "f", {"--role", "front", "--workers", world_.LastAddressOf("w"), "--listen", "127.0.0.1:0"});
  ASSERT_NE(front, nullptr);
  const std::string address = world_.LastAddressOf("f");
  std::string text(24 << 20, '\0');
  for (char& byte : text) byte = static_cast<char>(random.Next());
  WriteText(world_ / "large", text);

  // What a second more would be seen of: a connection that ends takes its calls with it.
  Honest honest(address);
  const auto start_backups = [&] {
    std::vector<std::unique_ptr<Program>> backups;
    backups.reserve(kBackups);
    for (int number = 0; number < kBackups; ++number) {
      backups.push_back(world_.Start({"backup", "large", "--force", "--server", address, "--json",
                                      "--store", world_ / Cat("store-", number)}));
    }
    return backups;
  };
  std::vector<std::unique_ptr<Program>> backups = start_backups();
  std::atomic<bool> is_over{false};
  std::atomic<std::size_t> answered_count{0};
  std::thread stranger([&] {
    // Not beyond what a connection is ended for: this address would be let in no more for a while.
    std::uint64_t size = 1;
    while (!is_over.load()) {
      size = size > (60 << 10) ? 1 : size * 3 / 2 + 1;
      if (CallWithMetadata(address, size)) ++answered_count;
    }
  });
  for (const Clock::time_point end_at = Clock::now() + FloodTime(); !HasFailure();) {
    for (const auto& backup : backups) {
      const Completed end = backup->Wait();
      EXPECT_EQ(end.exit_code, 0) << end.err;
      // Nor did any have to begin anew.
      EXPECT_THAT(end.out, Not(HasSubstr("\"message_type\":\"warning\"")));
      EXPECT_EQ(end.err, "");
    }
    if (Clock::now() >= end_at) break;
    backups = start_backups();
  }
  is_over.store(true);
  stranger.join();
  // Small ones are served and larger ones refused, all sizes more than once: both are answers.
  EXPECT_GT(answered_count.load(), 60u);
  if (IsLongTest()) {
    honest.ExpectNoneDelayed(seconds(1));
  } else {
    honest.ExpectGoodService();
  }
}

}  // namespace
}  // namespace kerf::e2e
