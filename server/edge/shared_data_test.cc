// Files whose bytes lie in memory that their client shares: they are answered what they would be by
// Data, and whoever shares or names what cannot be is refused (docs/spec/protocol.md, "Memory that
// both see").
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/passed_file.h"
#include "base/random.h"
#include "base/shared_memory.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/unique_fd.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/hints/hint_cache.h"
#include "server/hints/memory_segment_store.h"
#include "server/index/memory_index.h"

namespace kerf {
namespace {

using Fill = std::function<void(v1::UploadFrame&)>;

constexpr std::size_t kMemoryBytes = std::size_t{4} << 20;
constexpr int kPatienceMs = 20'000;

UniqueFd ConnectSocket(const std::string& listen) {
  const std::string path = listen.substr(std::string("unix:").size());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return socket;
}

// What a server says to it; nothing: the connection has ended.
std::optional<std::string> Offer(int socket, int fd) {
  const auto* const hello = reinterpret_cast<const std::uint8_t*>(kSharedMemoryHello.data());
  EXPECT_TRUE(SendFile(socket, {hello, kSharedMemoryHello.size()}, fd).ok());
  pollfd wanted{.fd = socket, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&wanted, 1, kPatienceMs), 1);
  std::array<char, kSharedMemoryTokenBytes> token{};
  if (recv(socket, token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    return std::nullopt;
  }
  return std::string(token.begin(), token.end());
}

struct Shared {
  explicit Shared(const std::string& listen)
      : connection(ConnectSocket(listen)),
        memory(*SharedMemory::Make(kMemoryBytes)),
        token(Offer(connection.get(), memory.fd()).value_or("")) {}

  void Put(std::size_t offset, std::string_view content) {
    std::memcpy(memory.bytes().data() + offset, content.data(), content.size());
  }

  UniqueFd connection;
  SharedMemory memory;
  std::string token;
};

class SharedDataTest : public testing::Test {
 protected:
  void SetUp() override { Start(64); }
  void TearDown() override { server_->Stop(); }
  void Start(std::size_t max_streams, const std::string& listen = FreshSocketAddress()) {
    if (server_ != nullptr) server_->Stop();
    ServerOptions options;
    options.listen = {listen};
    options.watchdog_interval = std::chrono::milliseconds(0);
    options.max_streams = max_streams;
    options.hints = HintCache::Create(HintCacheOptions{}, segments_.get());
    auto server = Server::Start(options, index_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = ConnectTo(address());
  }
  const std::string& address() const { return server_->addresses()[0]; }

  static v1::Open OpenWith(const std::string& token, const std::string& profile = "fastcdc2020-8k",
                           std::string_view repository = "home") {
    v1::Open open = OpenFor(repository, profile);
    open.set_shared_memory(token);
    return open;
  }
  v1::Opened OpenedFor(const v1::Open& open) {
    TestUpload upload(channel_);
    upload.SendOpen(open);
    const auto answer = upload.WaitForAnswer(&v1::UploadAnswer::has_opened);
    return answer.has_value() ? answer->opened() : v1::Opened();
  }
  std::unique_ptr<TestUpload> Begin(const v1::Open& open) {
    auto upload = std::make_unique<TestUpload>(channel_);
    EXPECT_TRUE(upload->SendOpen(open));
    EXPECT_TRUE(upload->WaitForAnswer(&v1::UploadAnswer::has_opened).has_value());
    return upload;
  }
  std::string RandomBytes(std::size_t size_bytes) {
    std::string bytes(size_bytes, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()});
    return bytes;
  }

  static Fill FileBegin(std::uint64_t start_offset = 0) {
    return
        [=](v1::UploadFrame& frame) { frame.mutable_file_begin()->set_start_offset(start_offset); };
  }
  static Fill At(std::uint64_t offset_bytes, std::uint32_t length_bytes) {
    return [=](v1::UploadFrame& frame) {
      frame.mutable_shared_data()->set_offset_bytes(offset_bytes);
      frame.mutable_shared_data()->set_length_bytes(length_bytes);
    };
  }
  static Fill End(std::uint64_t size_bytes, std::string_view content) {
    return [size_bytes, hash = ContentHashOf(content)](v1::UploadFrame& frame) {
      frame.mutable_file_end()->set_size_bytes(size_bytes);
      frame.mutable_file_end()->set_content_hash(hash);
    };
  }
  std::string EndOf(const v1::Open& open, const std::vector<Fill>& frames) {
    auto upload = Begin(open);
    for (const Fill& fill : frames) upload->SendFrame(fill);
    upload->WritesDone();
    const grpc::Status status = upload->WaitForEnd();
    return status.ok() ? "OK" : ReasonOf(status);
  }
  // The file by pieces of random lengths, each at some place of the memory or, `mixed`, now and
  // then as Data; several to a message.
  void SendShared(TestUpload& upload, Shared& shared, std::string_view content, bool mixed,
                  std::uint64_t start_offset = 0) {
    v1::UploadRequest request;
    FileBegin(start_offset)(*request.add_frames());
    std::string_view rest = content;
    while (!rest.empty()) {
      const std::size_t count = std::min<std::size_t>(rest.size(), random_.Between(1, 300'000));
      if (at_ + count > kMemoryBytes) at_ = 0;
      if (mixed && random_.OneIn(3)) {
        request.add_frames()->set_data(std::string(rest.substr(0, count)));
      } else {
        shared.Put(at_, rest.substr(0, count));
        At(at_, static_cast<std::uint32_t>(count))(*request.add_frames());
        at_ += count;
      }
      rest.remove_prefix(count);
      if (!random_.OneIn(3)) continue;
      EXPECT_TRUE(upload.Send(request));
      request.Clear();
    }
    End(start_offset + content.size(), content)(*request.add_frames());
    EXPECT_TRUE(upload.Send(request));
  }
  // The content is shorter than the memory, so no place is used twice before it has been read.
  std::vector<RecipeChunk> RecipeBy(Shared& shared, const v1::Open& open, std::string_view content,
                                    bool mixed) {
    auto upload = Begin(open);
    SendShared(*upload, shared, content, mixed);
    EXPECT_TRUE(content.empty() || upload->WaitForChunks(1, content.size()));
    EXPECT_TRUE(upload->CommitAnswered());
    EXPECT_TRUE(upload->WaitForDone(1));
    upload->WritesDone();
    EXPECT_TRUE(upload->WaitForEnd().ok());
    return upload->RecipeOf(1);
  }
  double Value(const std::string& series) const {
    metrics::Page page;
    server_->AddMetrics(page);
    const std::size_t at = page.text().find(Cat("\n", series, " "));
    return at == std::string::npos ? -1 : std::stod(page.text().substr(at + series.size() + 2));
  }

  Random random_{TestSeed()};
  std::size_t at_ = 0;
  std::unique_ptr<SegmentStore> segments_ = CreateMemorySegmentStore(std::size_t{16} << 20);
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(SharedDataTest, OpenedSaysWhetherTheMemoryIsThere) {
  const Shared shared(address());
  ASSERT_EQ(shared.token.size(), kSharedMemoryTokenBytes);
  const v1::Opened opened = OpenedFor(OpenWith(shared.token));
  EXPECT_TRUE(opened.takes_shared_data());
  EXPECT_GE(opened.limits().max_named_bytes(), kMaxSharedBytes / 4);
  EXPECT_EQ(std::count(opened.features().begin(), opened.features().end(), "shared-data"), 1);
  v1::GetCapabilitiesResponse capabilities;
  grpc::ClientContext context;
  ASSERT_TRUE(
      v1::ChunkingService::NewStub(channel_)->GetCapabilities(&context, {}, &capabilities).ok());
  const auto& features = capabilities.features();
  EXPECT_EQ(std::count(features.begin(), features.end(), "shared-data"), 1);
  // Whoever shares nothing, or cuts himself, is served as ever.
  EXPECT_FALSE(OpenedFor(OpenWith("")).takes_shared_data());
  v1::Open cuts = OpenWith(shared.token);
  cuts.set_cutter(v1::CUTTER_CLIENT);
  EXPECT_FALSE(OpenedFor(cuts).takes_shared_data());
}

TEST_F(SharedDataTest, WhereNobodyOfTheMachineComesNoneIsTaken) {
  Start(64, "127.0.0.1:0");
  const v1::Opened opened = OpenedFor(OpenWith(""));
  EXPECT_EQ(std::count(opened.features().begin(), opened.features().end(), "shared-data"), 0);
  EXPECT_EQ(std::count(opened.features().begin(), opened.features().end(), "index-epoch"), 1);
}

TEST_F(SharedDataTest, ATokenThatNobodyHasBeenGivenIsNone) {
  const Shared shared(address());
  EXPECT_FALSE(OpenedFor(OpenWith(shared.token.substr(1))).takes_shared_data());
  EXPECT_FALSE(OpenedFor(OpenWith(shared.token + "x")).takes_shared_data());
  for (std::size_t index = 0; index < shared.token.size(); ++index) {
    std::string other = shared.token;
    other[index] = static_cast<char>(other[index] ^ 1);
    EXPECT_FALSE(OpenedFor(OpenWith(other)).takes_shared_data()) << index;
  }
}

TEST_F(SharedDataTest, TheRecipeIsThatOfData) {
  Shared shared(address());
  for (const std::string profile : {"fastcdc2020-8k", "mincdc-8k", "rabin-8k", "tttd-8k"}) {
    for (const std::size_t size_bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{70'000}, std::size_t{3'000'000}}) {
      for (const bool mixed : {false, true}) {
        const v1::Open open = OpenWith(shared.token, profile);
        const std::string content = RandomBytes(size_bytes);
        at_ = 0;
        EXPECT_EQ(RecipeBy(shared, open, content, mixed), PlainRecipe(content, open))
            << profile << " " << size_bytes << " " << mixed;
      }
    }
  }
}

// Files that are known are cut along hints, also those of which some came by the stream.
TEST_F(SharedDataTest, HintsKnowIt) {
  Shared shared(address());
  const v1::Open open = OpenWith(shared.token, "rabin-8k");
  std::string content = RandomBytes(3'000'000);
  for (int turn = 0; turn < 4; ++turn) {
    at_ = 0;
    EXPECT_EQ(RecipeBy(shared, open, content, turn % 2 == 1), PlainRecipe(content, open)) << turn;
    content.insert(random_.Below(content.size()), "news");
  }
  EXPECT_GT(server_->rapid_totals().hints_accepted.load(), 0u);
}

TEST_F(SharedDataTest, WhatCannotBeIsRefused) {
  const Shared shared(address());
  const v1::Open open = OpenWith(shared.token);
  EXPECT_EQ(EndOf(OpenWith(""), {FileBegin(), At(0, 1)}), "FRAME_ORDER");
  EXPECT_EQ(EndOf(open, {At(0, 1)}), "FRAME_ORDER");
  EXPECT_EQ(EndOf(open, {FileBegin(), At(0, 0), End(0, "")}), "OK");
  EXPECT_EQ(EndOf(open, {FileBegin(), At(kMemoryBytes, 0), End(0, "")}), "OK");
  for (const auto& [offset_bytes, length_bytes] :
       std::vector<std::pair<std::uint64_t, std::uint32_t>>{{kMemoryBytes, 1},
                                                            {kMemoryBytes - 1, 2},
                                                            {kMemoryBytes + 1, 0},
                                                            {1, kMemoryBytes},
                                                            {UINT64_MAX, 1},
                                                            {UINT64_MAX - 1, UINT32_MAX},
                                                            {0, UINT32_MAX}}) {
    EXPECT_EQ(EndOf(open, {FileBegin(), At(offset_bytes, length_bytes)}), "BAD_FIELD")
        << offset_bytes << " " << length_bytes;
  }
  v1::Open cuts = open;
  cuts.set_cutter(v1::CUTTER_CLIENT);
  EXPECT_EQ(EndOf(cuts, {FileBegin(), At(0, 1)}), "FRAME_ORDER");
}

// A message of a few bytes is no way to much work.
TEST_F(SharedDataTest, SoMuchIsNamedAtOnce) {
  const Shared shared(address());
  const std::uint32_t limit = SessionLimits().max_named_bytes;
  const std::uint32_t count = limit / kMemoryBytes;
  const auto end_of = [&](std::uint32_t more) {
    auto upload = Begin(OpenWith(shared.token));
    v1::UploadRequest request;
    FileBegin()(*request.add_frames());
    for (std::uint32_t index = 0; index < count; ++index)
      At(0, kMemoryBytes)(*request.add_frames());
    if (more > 0) At(0, more)(*request.add_frames());
    EXPECT_TRUE(upload->Send(request));
    upload->WritesDone();
    return ReasonOf(upload->WaitForEnd());
  };
  EXPECT_EQ(end_of(0), "UNFINISHED_FILE");
  EXPECT_EQ(end_of(1), "MESSAGE_TOO_LARGE");
}

TEST_F(SharedDataTest, WhatChangesMeanwhileIsNotWhatWasSent) {
  Shared shared(address());
  const std::string content = RandomBytes(100'000);
  shared.Put(0, content);
  std::string other = content;
  other[50'000] = static_cast<char>(other[50'000] ^ 1);
  EXPECT_EQ(EndOf(OpenWith(shared.token), {FileBegin(), At(0, 100'000), End(100'000, other)}),
            "CONTENT_MISMATCH");
  EXPECT_EQ(EndOf(OpenWith(shared.token), {FileBegin(), At(0, 100'000), End(99'999, content)}),
            "SIZE_MISMATCH");
}

TEST_F(SharedDataTest, ATokenLivesAsLongAsItsConnection) {
  std::optional<Shared> shared(std::in_place, address());
  const std::string token = shared->token;
  const std::string content = RandomBytes(200'000);
  shared->Put(0, content);
  auto upload = Begin(OpenWith(token));
  upload->SendFrame(FileBegin());
  shared.reset();
  // Streams go on that have it.
  upload->SendFrame(At(0, 200'000));
  upload->SendFrame(End(200'000, content));
  EXPECT_TRUE(upload->WaitForChunks(1, content.size()));
  bool is_there = true;
  for (int turn = 0; turn < 2000 && is_there; ++turn) {
    is_there = OpenedFor(OpenWith(token)).takes_shared_data();
  }
  EXPECT_FALSE(is_there);
}

TEST_F(SharedDataTest, AFileGoesOnFromDataToMemoryAndBack) {
  Shared shared(address());
  const v1::Open open = OpenWith(shared.token);
  const std::string content = RandomBytes(500'000);
  const std::vector<RecipeChunk> recipe = PlainRecipe(content, open);
  for (const bool shared_first : {false, true}) {
    const std::uint64_t cut = recipe[recipe.size() / 2].end_offset;
    for (const bool is_second : {false, true}) {
      const std::string part = is_second ? content.substr(cut) : content.substr(0, cut);
      const std::uint64_t start_offset = is_second ? cut : 0;
      auto upload = Begin(open);
      at_ = 0;
      if (shared_first != is_second) {
        SendShared(*upload, shared, part, false, start_offset);
      } else {
        EXPECT_TRUE(upload->SendFile(part, 50'000, start_offset));
      }
      EXPECT_TRUE(upload->WaitForChunks(1, start_offset + part.size()));
      const std::vector<RecipeChunk> got = upload->RecipeOf(1);
      const auto middle = recipe.begin() + static_cast<std::ptrdiff_t>(recipe.size() / 2 + 1);
      EXPECT_EQ(got, is_second ? std::vector<RecipeChunk>(middle, recipe.end())
                               : std::vector<RecipeChunk>(recipe.begin(), middle));
    }
  }
}

TEST_F(SharedDataTest, IsCountedAsData) {
  Shared shared(address());
  const std::string content = RandomBytes(300'000);
  RecipeBy(shared, OpenWith(shared.token), content, false);
  // With the messages that say where it is.
  EXPECT_GE(Value("kerf_ingest_bytes_total"), 300'000);
  EXPECT_LT(Value("kerf_ingest_bytes_total"), 310'000);
  EXPECT_EQ(Value("kerf_shared_bytes_total"), 300'000);
}

// Reading anything else might never end, or end this process.
TEST_F(SharedDataTest, WhatIsNoMemoryIsNotTaken) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  const UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), kMemoryBytes), 0);
  for (const int fd : {reading.get(), unsealed.get(), 0}) {
    const UniqueFd socket = ConnectSocket(address());
    EXPECT_EQ(Offer(socket.get(), fd), std::nullopt);
  }
  const UniqueFd alone = ConnectSocket(address());
  ASSERT_EQ(send(alone.get(), kSharedMemoryHello.data(), kSharedMemoryHello.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(kSharedMemoryHello.size()));
  pollfd wanted{.fd = alone.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&wanted, 1, kPatienceMs), 1);
  char byte = 0;
  EXPECT_LE(recv(alone.get(), &byte, 1, 0), 0);
  // Others come as before.
  const Shared shared(address());
  EXPECT_TRUE(OpenedFor(OpenWith(shared.token)).takes_shared_data());
}

TEST_F(SharedDataTest, SoManyAreTaken) {
  Start(2);
  const Shared one(address());
  std::optional<Shared> other(std::in_place, address());
  EXPECT_EQ(other->token.size(), kSharedMemoryTokenBytes);
  EXPECT_EQ(Shared(address()).token, "");
  other.reset();
  std::string token;
  for (int turn = 0; turn < 2000 && token.empty(); ++turn) token = Shared(address()).token;
  EXPECT_NE(token, "");
}

}  // namespace
}  // namespace kerf
