// That what lets a caller in is looked at for as long as his stream is open, and who may say that
// he is somebody else. Over a unix socket, whose user may be a front as well as a certificate may.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/strings.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "server/access/access_source.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/forwarding_index.h"
#include "server/index/memory_index.h"
#include "server/index/rules.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;

// A guard against a hang, not a measure.
constexpr std::chrono::seconds kPatience{30};

// So long a server waits for its index.
constexpr std::chrono::seconds kIndexPatience{25};

constexpr char kToken[] = "kerf_nightly_0123456789abcdefghijABCDEFGHIJ";
constexpr char kTokenEntry[] =
    "[[identity]]\nname = \"token/nightly\"\n"
    "sha256 = \"b9d93d96a930687fbef49895b334ee4d075273f24e78a16082401e9c17925e35\"\n";
constexpr char kOtherTokenEntry[] =
    "[[identity]]\nname = \"token/nightly\"\n"
    "sha256 = \"b87a5c57b6ade79eded5365f0576ecf854bac021b467f0fcb9b281ae0c11878c\"\n";
constexpr char kMayWrite[] = "[[identity.grant]]\nrole = \"write\"\nrepositories = [\"home\"]\n";
constexpr char kIsFront[] = "[[identity.grant]]\nrole = \"front\"\n";
// Of server/access/jwt_test.cc: about agent-7, until 2033.
constexpr char kJwt[] =
    "eyJhbGciOiJFZERTQSIsImtpZCI6ImQxIiwidHlwIjoiSldUIn0.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFt"
    "cGxlIiwic3ViIjoiYWdlbnQtNyIsImF1ZCI6WyJvdGhlciIsImtlcmYiXSwiZXhwIjoyMDAwMDAwMDAwLCJuYmYi"
    "OjEwMDAwMDAwMDB9.8zTA79znCjyGwWwkp6uv7umzXyDN9Sx1bk0jtDdFlPKAuElZCE3dggW-Cz3t3Ci07LX2QIu"
    "UuIeKZEQ8I4HuBQ";
constexpr char kJwtEntry[] = "[[identity]]\nname = \"jwt/https://issuer.example#agent-7\"\n";
constexpr char kIssuer[] =
    "[[issuer]]\nname = \"https://issuer.example\"\naudience = \"kerf\"\nkeys = \"keys.json\"\n";
constexpr char kKey[] =
    R"({"keys":[{"kty":"OKP","crv":"Ed25519","x":"28p32uPyDv1RSUnqYFKSBCfehSXyqO4HNWNnnM0OTDo"}]})";
constexpr char kOtherKey[] =
    R"({"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})";

// Answers no lookup until it is told to.
class GatedIndex final : public ForwardingIndex {
 public:
  GatedIndex() : ForwardingIndex(CreateMemoryIndex()) {}
  ~GatedIndex() override { Release(); }

  void Release() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void WaitUntilAsked() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return was_asked_; });
  }
  Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                            std::span<const Digest> digests,
                            std::span<LookupResult> results) override {
    std::unique_lock lock(mutex_);
    was_asked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    return ForwardingIndex::Lookup(repository, session_epoch, digests, results);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  bool was_asked_ = false;
};

using Metadata = std::multimap<std::string, std::string>;

// An upload that says who it is, and is silent once it is open.
class OpenStream {
 public:
  OpenStream(const std::string& address, const Metadata& metadata,
             const v1::Open& open = OpenFor("home"))
      : stub_(v1::ChunkingService::NewStub(ConnectTo(address))) {
    for (const auto& [key, value] : metadata) context_.AddMetadata(key, value);
    context_.set_deadline(std::chrono::system_clock::now() + kPatience);
    stream_ = stub_->Upload(&context_);
    v1::UploadRequest request;
    *request.add_frames()->mutable_open() = open;
    stream_->Write(request);
    v1::UploadResponse response;
    is_open_ = stream_->Read(&response);
  }

  bool is_open() const { return is_open_; }
  // How the server ends it; DEADLINE_EXCEEDED: it does not.
  grpc::Status WaitForEnd() {
    v1::UploadResponse response;
    while (stream_->Read(&response)) {
    }
    return stream_->Finish();
  }

 private:
  std::unique_ptr<v1::ChunkingService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::UploadRequest, v1::UploadResponse>> stream_;
  bool is_open_ = false;
};

class AccessEndsTest : public ::testing::Test {
 protected:
  ~AccessEndsTest() override {
    if (server_ != nullptr) server_->Stop();
    std::filesystem::remove_all(folder_);
  }

  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder_);
    const std::string path = Cat(folder_, "/", name);
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  }
  void WriteAccess(const std::string& text) { Write("access.toml", text); }
  void Start(const std::string& access) {
    WriteAccess(access);
    auto source = access::AccessSource::Open(folder_ + "/access.toml", nullptr, milliseconds(20));
    ASSERT_TRUE(source.ok()) << source.status();
    source_ = *std::move(source);
    ServerOptions options;
    options.listen = {FreshSocketAddress()};
    options.access = source_.get();
    options.timeouts.index = kIndexPatience;
    auto server = Server::Start(options, index_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  OpenStream Open(const Metadata& metadata) { return {server_->addresses()[0], metadata}; }
  // What opens no stream is answered.
  std::string RefusalOf(const Metadata& metadata) {
    OpenStream stream = Open(metadata);
    return stream.is_open() ? "none" : ReasonOf(stream.WaitForEnd());
  }

  // The user of this process.
  const std::string self_ = Cat("[[identity]]\nname = \"user/", getuid(), "\"\n");
  const std::string folder_ = Cat(std::getenv("TEST_TMPDIR"), "/access-", getpid());
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<access::AccessSource> source_;
  std::unique_ptr<Server> server_;
};

Metadata Shows(const std::string& token) { return {{"authorization", Cat("Bearer ", token)}}; }

const Metadata kForNightly = {{"kerf-identity", "token token/nightly"}};

// What an index would answer to an epoch tells how far the epoch of others is.
TEST_F(AccessEndsTest, WhoMayNotLearnsNothingOfTheIndex) {
  Start(Cat(self_, kMayWrite));
  v1::Open open = OpenFor("of-others");
  open.set_store_epoch(index_rules::kMaxEpoch);
  OpenStream stream(server_->addresses()[0], {}, open);
  EXPECT_FALSE(stream.is_open());
  EXPECT_EQ(ReasonOf(stream.WaitForEnd()), "NOT_YOURS");
  // In his own he is told.
  open.set_repository("home");
  OpenStream own(server_->addresses()[0], {}, open);
  EXPECT_FALSE(own.is_open());
  EXPECT_EQ(ReasonOf(own.WaitForEnd()), "BAD_FIELD");
}

TEST_F(AccessEndsTest, AFrontWhoseTimeIsOverSpeaksForNobody) {
  const std::string nightly = Cat(kTokenEntry, kMayWrite);
  Start(Cat(nightly, self_, "expires = 2020-01-01T00:00:00Z\n", kIsFront));
  EXPECT_EQ(RefusalOf(kForNightly), "UNKNOWN_CALLER");
}

TEST_F(AccessEndsTest, WhatAFrontHasSaidIsOverWithIt) {
  const std::string nightly = Cat(kTokenEntry, kMayWrite);
  // It is taken out; it may only back up; its time is over.
  for (const std::string& then : {std::string(), Cat(self_, kMayWrite),
                                  Cat(self_, "expires = 2020-01-01T00:00:00Z\n", kIsFront)}) {
    if (server_ != nullptr) server_->Stop();
    Start(Cat(nightly, self_, kIsFront));
    OpenStream stream = Open(kForNightly);
    ASSERT_TRUE(stream.is_open());
    WriteAccess(nightly + then);
    EXPECT_EQ(ReasonOf(stream.WaitForEnd()),
              then.find("expires") == std::string::npos ? "NOT_YOURS" : "UNKNOWN_CALLER")
        << then;
  }
}

// Or whoever has stolen it would go on for as long as he likes.
TEST_F(AccessEndsTest, AStreamEndsWhenItsTokenIsAnotherOne) {
  Start(Cat(kTokenEntry, kMayWrite));
  OpenStream stream = Open(Shows(kToken));
  ASSERT_TRUE(stream.is_open());
  WriteAccess(Cat(kOtherTokenEntry, kMayWrite));
  EXPECT_EQ(ReasonOf(stream.WaitForEnd()), "UNKNOWN_CALLER");
  EXPECT_EQ(RefusalOf(Shows(kToken)), "UNKNOWN_CALLER");
}

TEST_F(AccessEndsTest, AStreamEndsWithTheKeyThatHasSignedItsToken) {
  Write("keys.json", kKey);
  Start(Cat(kIssuer, kJwtEntry, kMayWrite));
  OpenStream stream = Open(Shows(kJwt));
  ASSERT_TRUE(stream.is_open());
  Write("keys.json", kOtherKey);
  EXPECT_EQ(ReasonOf(stream.WaitForEnd()), "UNKNOWN_CALLER");
  EXPECT_EQ(RefusalOf(Shows(kJwt)), "UNKNOWN_CALLER");
}

TEST_F(AccessEndsTest, AStreamEndsWithItsIssuer) {
  Write("keys.json", kKey);
  Start(Cat(kIssuer, kJwtEntry, kMayWrite, self_, kIsFront));
  const Metadata through_a_front = {
      {"kerf-identity", "jwt jwt/https://issuer.example#agent-7 2000000000"}};
  OpenStream own = Open(Shows(kJwt));
  OpenStream other = Open(through_a_front);
  ASSERT_TRUE(own.is_open());
  ASSERT_TRUE(other.is_open());
  WriteAccess(Cat(kJwtEntry, kMayWrite, self_, kIsFront));
  EXPECT_EQ(ReasonOf(own.WaitForEnd()), "UNKNOWN_CALLER");
  EXPECT_EQ(ReasonOf(other.WaitForEnd()), "UNKNOWN_CALLER");
  EXPECT_EQ(RefusalOf(through_a_front), "UNKNOWN_CALLER");
}

// Nor does he stay for as long as his stream waits for something.
TEST_F(AccessEndsTest, AStreamThatWaitsForTheIndexEnds) {
  auto index = std::make_unique<GatedIndex>();
  GatedIndex& gate = *index;
  index_ = std::move(index);
  Start(Cat(self_, kMayWrite));
  TestUpload upload(ConnectTo(server_->addresses()[0]));
  EXPECT_TRUE(upload.SendOpen(OpenFor("home")) && upload.SendFile(std::string(100'000, 'a')));
  gate.WaitUntilAsked();
  const auto began = std::chrono::steady_clock::now();
  WriteAccess(self_);
  EXPECT_EQ(ReasonOf(upload.WaitForEnd()), "NOT_YOURS");
  EXPECT_LT(std::chrono::steady_clock::now() - began, kIndexPatience / 2);
  gate.Release();
}

// What stands between may have looked at the other one.
TEST_F(AccessEndsTest, TwoTokensAreNone) {
  Start(Cat(kTokenEntry, kMayWrite));
  Metadata metadata = Shows(kToken);
  EXPECT_EQ(RefusalOf(metadata), "none");
  metadata.emplace("authorization", "Bearer kerf_other_0123456789abcdefghijABCDEFGHIJ");
  EXPECT_EQ(RefusalOf(metadata), "UNKNOWN_CALLER");
}

}  // namespace
}  // namespace kerf
