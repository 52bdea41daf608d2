#include "e2e/message_log.h"

#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/impl/codegen/rpc_method.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/check.h"
#include "base/strings.h"

namespace kerf::e2e {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;
using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

constexpr std::chrono::seconds kPatience{20};
constexpr std::string_view kUpload = "/kerf.v1.ChunkingService/Upload";

// Fields of proto/kerf/v1/chunking.proto, by hand: they are for ever.
constexpr int kAnswers = 1;
constexpr int kOpened = 1;
constexpr int kChunks = 2;
constexpr int kCommitted = 3;
constexpr int kFileDone = 4;
constexpr int kLimitsOfOpened = 2;
constexpr int kProfileOfOpened = 5;
constexpr int kFileNumberOfChunks = 1;
constexpr int kChunksOfChunks = 2;
// The index's epoch, which releases after 0.1.0 tell.
constexpr int kEpochOfCommitted = 3;
constexpr int kEpochOfFileDone = 6;
constexpr std::string_view kLookup = "/kerf.v1.IndexService/LookupChunks";
constexpr int kEpochOfLookup = 2;

std::string Hex(std::string_view bytes) { return absl::BytesToHexString(ToAbsl(bytes)); }

// It cannot be moved.
std::unique_ptr<UnknownFieldSet> Parse(const std::string& bytes) {
  auto fields = std::make_unique<UnknownFieldSet>();
  EXPECT_TRUE(fields->ParseFromString(bytes)) << Hex(bytes);
  return fields;
}

// The fields of `bytes` with this number, in their order.
std::vector<std::string> Texts(const std::string& bytes, int number) {
  const std::unique_ptr<UnknownFieldSet> fields = Parse(bytes);
  std::vector<std::string> texts;
  for (int i = 0; i < fields->field_count(); ++i) {
    const UnknownField& field = fields->field(i);
    if (field.number() == number && field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      texts.push_back(field.length_delimited());
    }
  }
  return texts;
}

std::uint64_t Number(const std::string& bytes, int number) {
  const std::unique_ptr<UnknownFieldSet> fields = Parse(bytes);
  for (int i = 0; i < fields->field_count(); ++i) {
    const UnknownField& field = fields->field(i);
    if (field.number() == number && field.type() == UnknownField::TYPE_VARINT) {
      return field.varint();
    }
  }
  return 0;
}

// `bytes` without what an older release does not say.
std::string Without(const std::string& bytes, int number) {
  const std::unique_ptr<UnknownFieldSet> fields = Parse(bytes);
  fields->DeleteByNumber(number);
  std::string rest;
  EXPECT_TRUE(fields->SerializeToString(&rest));
  return rest;
}

std::string First(const std::vector<std::string>& texts) {
  return texts.empty() ? "missing" : texts.front();
}

std::vector<std::string> DescribeUploadAnswers(const std::string& concatenated_responses) {
  std::map<std::uint64_t, std::vector<std::string>> chunks;
  std::vector<std::string> others;
  for (const std::string& answer : Texts(concatenated_responses, kAnswers)) {
    const std::unique_ptr<UnknownFieldSet> fields = Parse(answer);
    if (fields->field_count() != 1 ||
        fields->field(0).type() != UnknownField::TYPE_LENGTH_DELIMITED) {
      others.push_back(Cat("not one answer: ", Hex(answer)));
      continue;
    }
    const int kind = fields->field(0).number();
    const std::string& content = fields->field(0).length_delimited();
    if (kind == kChunks) {
      const std::uint64_t file = Number(content, kFileNumberOfChunks);
      for (const std::string& chunk : Texts(content, kChunksOfChunks)) {
        chunks[file].push_back(Cat("chunk of file ", file, ": ", Hex(chunk)));
      }
    } else if (kind == kOpened) {
      others.push_back(Cat("opened with limits ", Hex(First(Texts(content, kLimitsOfOpened))),
                           " and profile ", First(Texts(content, kProfileOfOpened))));
    } else if (kind == kCommitted || kind == kFileDone) {
      const int epoch = kind == kCommitted ? kEpochOfCommitted : kEpochOfFileDone;
      others.push_back(Cat("answer ", kind, ": ", Hex(Without(content, epoch))));
    } else {
      others.push_back(Cat("answer ", kind, ": ", Hex(content)));
    }
  }
  std::vector<std::string> lines;
  for (const auto& [file, of_file] : chunks) {
    lines.insert(lines.end(), of_file.begin(), of_file.end());
  }
  lines.insert(lines.end(), others.begin(), others.end());
  return lines;
}

std::vector<std::string> Describe(const std::string& method,
                                  const std::vector<std::string>& messages) {
  std::vector<std::string> lines;
  if (method == kUpload) {
    std::string all;
    for (const std::string& message : messages) all += message;
    return DescribeUploadAnswers(all);
  }
  lines.reserve(messages.size());
  for (const std::string& message : messages) {
    lines.push_back(Hex(method == kLookup ? Without(message, kEpochOfLookup) : message));
  }
  return lines;
}

// One call, and a thread that reads its answers.
class ReplayedCall {
 public:
  ReplayedCall(const std::shared_ptr<grpc::Channel>& channel, std::string method)
      : method_(std::move(method)) {
    const grpc::internal::RpcMethod rpc(method_.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING);
    stream_.reset(
        grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
            channel.get(), rpc, &context_));
    reader_ = std::thread([this] { Read(); });
  }
  ReplayedCall(const ReplayedCall&) = delete;
  ReplayedCall& operator=(const ReplayedCall&) = delete;
  ~ReplayedCall() {
    context_.TryCancel();
    if (reader_.joinable()) reader_.join();
  }

  const std::string& method() const { return method_; }

  void Send(const std::string& message) {
    const grpc::Slice slice(message);
    EXPECT_TRUE(stream_->Write(grpc::ByteBuffer(&slice, 1))) << method_;
  }
  void WritesDone() { EXPECT_TRUE(stream_->WritesDone()) << method_; }

  // Until there are so many answers, as Describe counts them.
  bool WaitForAnswers(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience,
                             [&] { return Describe(method_, messages_).size() >= count; });
  }

  std::vector<std::string> End() {
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, kPatience, [this] { return ended_; })) context_.TryCancel();
    }
    reader_.join();
    const grpc::Status status = stream_->Finish();
    EXPECT_TRUE(status.ok()) << method_ << ": " << status.error_message();
    return Describe(method_, messages_);
  }

 private:
  void Read() {
    grpc::ByteBuffer buffer;
    while (stream_->Read(&buffer)) {
      std::vector<grpc::Slice> slices;
      KERF_CHECK(buffer.Dump(&slices).ok());
      std::string message;
      for (const grpc::Slice& slice : slices) {
        message.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
      const std::scoped_lock lock(mutex_);
      messages_.push_back(std::move(message));
      changed_.notify_all();
    }
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  const std::string method_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> messages_;
  bool ended_ = false;
  std::thread reader_;
};

}  // namespace

std::vector<LoggedEvent> ParseMessageLog(const std::string& text) {
  static const std::map<std::string, LoggedEvent::Kind> kKinds = {
      {"call", LoggedEvent::Kind::kCall},
      {"send", LoggedEvent::Kind::kSend},
      {"sent", LoggedEvent::Kind::kSent},
      {"receive", LoggedEvent::Kind::kReceive}};
  std::vector<LoggedEvent> events;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string kind;
    LoggedEvent event;
    words >> kind >> event.call >> event.text;
    KERF_CHECK(kKinds.contains(kind));
    event.kind = kKinds.at(kind);
    if (event.kind != LoggedEvent::Kind::kCall) event.text = absl::HexStringToBytes(event.text);
    events.push_back(std::move(event));
  }
  KERF_CHECK(!events.empty());
  return events;
}

std::map<int, LoggedCall> LoggedCalls(const std::vector<LoggedEvent>& events) {
  std::map<int, LoggedCall> calls;
  std::map<int, std::vector<std::string>> messages;
  for (const LoggedEvent& event : events) {
    if (event.kind == LoggedEvent::Kind::kCall) calls[event.call].method = event.text;
    if (event.kind == LoggedEvent::Kind::kReceive) messages[event.call].push_back(event.text);
  }
  for (auto& [number, call] : calls) call.answers = Describe(call.method, messages[number]);
  return calls;
}

std::map<int, LoggedCall> ReplayMessageLog(
    const std::vector<LoggedEvent>& events, const std::shared_ptr<grpc::Channel>& channel,
    const std::function<bool(const std::string& method)>& wanted) {
  std::map<int, std::unique_ptr<ReplayedCall>> calls;
  std::map<int, std::vector<std::string>> logged;
  std::map<int, LoggedCall> replayed;
  for (const LoggedEvent& event : events) {
    if (event.kind == LoggedEvent::Kind::kCall && wanted(event.text)) {
      calls[event.call] = std::make_unique<ReplayedCall>(channel, event.text);
    }
    const auto found = calls.find(event.call);
    if (found == calls.end()) continue;
    ReplayedCall& call = *found->second;
    if (event.kind == LoggedEvent::Kind::kSend) call.Send(event.text);
    if (event.kind == LoggedEvent::Kind::kSent) call.WritesDone();
    if (event.kind != LoggedEvent::Kind::kReceive) continue;
    logged[event.call].push_back(event.text);
    const std::size_t count = Describe(call.method(), logged[event.call]).size();
    if (!call.WaitForAnswers(count)) {
      ADD_FAILURE() << call.method() << ": fewer than " << count << " answers";
      return replayed;
    }
  }
  for (auto& [number, call] : calls) replayed[number] = {call->method(), call->End()};
  return replayed;
}

}  // namespace kerf::e2e
