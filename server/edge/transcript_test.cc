// The page docs/spec/transcript.md: one upload with each message as text and as bytes, and an
// upload that a collection has overtaken. It is what a kerfd in this process really says; to write
// the page anew: KERF_WRITE_TRANSCRIPT=FILE.
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/hex.h"
#include "base/strings.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "kerf/v1/chunking.grpc.pb.h"
#include "kerf/v1/index.grpc.pb.h"
#include "server/edge/server.h"
#include "server/edge/testing/test_upload.h"
#include "server/index/memory_index.h"

namespace kerf {
namespace {

constexpr char kPage[] = "docs/spec/transcript.md";
constexpr std::string_view kContent = "hello, kerf\n";
// What a server draws, or its machine decides, is this on the page.
constexpr char kSession[] = "0123456789abcdef-1";
constexpr char kKernels[] = "scalar";

constexpr std::string_view kBeginning = R"(# Uploads, byte for byte

This page is for authors of clients: what a client and kerfd say to each other, as text and as bytes. `server/edge/transcript_test.cc` has this
conversation with a real kerfd and fails where it is not as it stands here; with `KERF_WRITE_TRANSCRIPT=FILE` it writes the page.
The rules are in [protocol.md](protocol.md).

- `->` is of the client, `<-` of the server. Bytes are those of the protobuf message, without the 5 bytes that gRPC puts before each
  (one 0, and the length in four, the highest first).
- In the text, bytes that are no plain ASCII are in hexadecimal, as `0x00ff`.
- Each answer stands here in a message of its own. A server puts as many as there are into one.
- Session id and kernels are another each time.

)";

std::string HexOfText(std::string_view text) {
  return HexOf({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

class PlainBytes final : public google::protobuf::TextFormat::FastFieldValuePrinter {
 public:
  void PrintBytes(const std::string& value,
                  google::protobuf::TextFormat::BaseTextGenerator* generator) const override {
    const bool is_plain = std::all_of(value.begin(), value.end(), [](char byte) {
      return (byte >= ' ' && byte <= '~') || byte == '\n';
    });
    if (is_plain) return FastFieldValuePrinter::PrintBytes(value, generator);
    generator->PrintString(Cat("0x", HexOfText(value)));
  }
};

std::string TextOf(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetDefaultFieldValuePrinter(new PlainBytes);
  printer.SetExpandAny(true);
  std::string text;
  KERF_CHECK(printer.PrintToString(message, &text));
  return text;
}

// The page as it grows.
class Page {
 public:
  Page() : text_(kBeginning) {}

  void Head(std::string_view title) { text_ += Cat("## ", title, "\n\n"); }
  void Say(std::string_view words) { text_ += Cat(words, "\n\n"); }
  void Show(std::string_view who, std::string_view what, const google::protobuf::Message& message) {
    constexpr std::size_t kBytesOfLine = 32;
    text_ += Cat(who, " ", what, "\n\n```\n", TextOf(message), "```\n```\n");
    const std::string bytes = message.SerializeAsString();
    for (std::size_t at = 0; at < bytes.size(); at += kBytesOfLine) {
      text_ += Cat(HexOfText(bytes.substr(at, kBytesOfLine)), "\n");
    }
    text_ += "```\n\n";
  }
  // Without the empty line behind the last one.
  std::string text() const { return text_.substr(0, text_.size() - 1); }

 private:
  std::string text_;
};

// One Upload, all of which is shown.
class ShownUpload {
 public:
  ShownUpload(const std::shared_ptr<grpc::Channel>& channel, Page* page)
      : page_(*page), stub_(v1::ChunkingService::NewStub(channel)) {
    context_.AddMetadata("kerf-request-id", "transcript");
    context_.AddMetadata("kerf-shard-key", "home/transcript");
    stream_ = stub_->Upload(&context_);
  }

  void Send(std::string_view what, const v1::UploadRequest& request) {
    page_.Show("->", what, request);
    EXPECT_TRUE(stream_->Write(request));
  }
  // The next answer.
  v1::UploadAnswer Expect(std::string_view what) {
    while (next_ == read_.answers_size()) {
      next_ = 0;
      if (!stream_->Read(&read_)) {
        ADD_FAILURE() << "the stream ended before " << what;
        return {};
      }
    }
    v1::UploadResponse shown;
    v1::UploadAnswer& answer = *shown.add_answers();
    answer = read_.answers(next_++);
    if (answer.has_opened()) {
      answer.mutable_opened()->set_session_id(kSession);
      answer.mutable_opened()->set_backend(kKernels);
    }
    page_.Show("<-", what, shown);
    return answer;
  }
  void HalfClose() { stream_->WritesDone(); }
  grpc::Status End() {
    EXPECT_FALSE(stream_->Read(&read_));
    return stream_->Finish();
  }

 private:
  Page& page_;
  grpc::ClientContext context_;
  std::unique_ptr<v1::ChunkingService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::UploadRequest, v1::UploadResponse>> stream_;
  v1::UploadResponse read_;
  int next_ = 0;
};

v1::UploadRequest Opening() {
  v1::UploadRequest request;
  v1::Open& open = *request.add_frames()->mutable_open();
  open = OpenFor("home");
  open.set_agent("transcript/1");
  return request;
}

v1::UploadRequest FileOf(const std::string& key, std::string_view content) {
  v1::UploadRequest request;
  request.add_frames()->mutable_file_begin()->set_file_key(key);
  request.add_frames()->set_data(std::string(content));
  v1::FileEnd& end = *request.add_frames()->mutable_file_end();
  end.set_size_bytes(content.size());
  end.set_content_hash(ContentHashOf(content));
  return request;
}

void AddEntry(const std::string& digest, const std::string& locator, v1::CommitEntry* entry) {
  entry->set_digest(digest);
  entry->set_locator(locator);
}

v1::UploadRequest CommitOf(const std::string& digest, const std::string& locator) {
  v1::UploadRequest request;
  AddEntry(digest, locator, request.add_frames()->mutable_commit()->add_entries());
  return request;
}

void ShowUpload(const std::shared_ptr<grpc::Channel>& channel, Page& page) {
  page.Head("An upload");
  page.Say(
      "A call of `/kerf.v1.ChunkingService/Upload` with the metadata `kerf-request-id: transcript` "
      "and "
      "`kerf-shard-key: home/transcript`.");
  ShownUpload upload(channel, &page);
  upload.Send("opens the stream", Opening());
  upload.Expect("takes it");
  page.Say("A file of 12 bytes, all of it in one message.");
  upload.Send("the first file", FileOf("a", kContent));
  const v1::UploadAnswer first = upload.Expect("one chunk, which the index has not");
  ASSERT_EQ(first.chunks().chunks_size(), 1);
  const std::string digest = first.chunks().chunks(0).digest();
  page.Say(
      "The client compares `check` and `digest` with its own bytes, stores the chunk durably, and "
      "says where.");
  upload.Send("the chunk is durable", CommitOf(digest, "pack 1"));
  upload.Expect("the index has it");
  upload.Expect("nothing of the file is pending");
  page.Say("A second file, of the same bytes.");
  upload.Send("the second file", FileOf("b", kContent));
  const v1::UploadAnswer second = upload.Expect("the chunk is known, and where it is");
  EXPECT_EQ(second.chunks().chunks(0).verdict(), v1::VERDICT_DUPLICATE);
  upload.Expect("so the file needs no commit");
  page.Say(
      "The client does not find the chunk there. It reports that, stores the chunk anew and "
      "commits the new place, all "
      "of which it may say in one message.");
  v1::UploadRequest stale;
  AddEntry(digest, "pack 1", stale.add_frames()->mutable_report_stale()->add_entries());
  stale.MergeFrom(CommitOf(digest, "pack 2"));
  upload.Send("not at `pack 1`, but at `pack 2`", stale);
  upload.Expect("the index has that");
  upload.HalfClose();
  const grpc::Status status = upload.End();
  EXPECT_TRUE(status.ok()) << status.error_message();
  page.Say("-> half-close");
  page.Say("<- status 0 (OK)");
}

void ShowEpochBehind(const std::shared_ptr<grpc::Channel>& channel, Page& page) {
  page.Head("A collection comes in between");
  page.Say(
      "The store's epoch was 1 when the client read it. A collection has told the index epoch 2 "
      "since "
      "([collection.md](collection.md)).");
  v1::AdvanceEpochRequest advance;
  advance.mutable_repository()->set_repository("home");
  advance.mutable_repository()->set_digest_algorithm(v1::DIGEST_ALGORITHM_BLAKE3);
  advance.set_store_epoch(2);
  page.Show("->", "the collector: a call of `/kerf.v1.IndexService/AdvanceEpoch`", advance);
  grpc::ClientContext context;
  v1::AdvanceEpochResponse advanced;
  ASSERT_TRUE(v1::IndexService::NewStub(channel)->AdvanceEpoch(&context, advance, &advanced).ok());
  page.Show("<-", "it was at 0, of which proto3 writes nothing", advanced);
  page.Say("The client opens its stream as above, and is taken.");
  ShownUpload upload(channel, &page);
  upload.Send("opens the stream", Opening());
  upload.Expect("takes it");
  upload.Send("a file", FileOf("c", "another file\n"));
  const v1::UploadAnswer chunks = upload.Expect("one chunk, which the index has not");
  ASSERT_EQ(chunks.chunks().chunks_size(), 1);
  upload.Send("the chunk is durable", CommitOf(chunks.chunks().chunks(0).digest(), "pack 3"));
  const grpc::Status status = upload.End();
  EXPECT_EQ(ReasonOf(status), "EPOCH_BEHIND");
  page.Say(Cat("<- status ", static_cast<int>(status.error_code()),
               " (FAILED_PRECONDITION), `grpc-message`:"));
  page.Say(Cat("    ", status.error_message()));
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  page.Show("<-", "`grpc-status-details-bin`, in base64 on the wire", details);
  page.Say(
      "Nothing was written. The client reads the store's epoch, its plan and its packs again, and "
      "opens another stream "
      "(COL-23).");
}

TEST(TranscriptTest, ThePageIsWhatIsSaid) {
  ServerOptions options;
  options.listen = {FreshSocketAddress()};
  options.worker_threads = 1;
  options.worker_name = "worker-0";
  const std::unique_ptr<Index> index = CreateMemoryIndex();
  auto server = Server::Start(options, index.get());
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel = ConnectTo((*server)->addresses()[0]);
  Page page;
  ShowUpload(channel, page);
  ShowEpochBehind(channel, page);
  (*server)->Stop();
  if (const char* const file = std::getenv("KERF_WRITE_TRANSCRIPT"); file != nullptr) {
    std::ofstream(file) << page.text();
    return;
  }
  std::ifstream file(kPage);
  const std::string written((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(written, page.text()) << "run it with KERF_WRITE_TRANSCRIPT=" << kPage;
}

}  // namespace
}  // namespace kerf
