#include "server/edge/frame_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/edge/testing/slices.h"
#include "server/errors/errors.h"

namespace kerf {
namespace {

v1::UploadRequest Sample() {
  v1::UploadRequest request;
  request.add_frames()->mutable_open()->set_repository("home");
  request.add_frames()->mutable_file_begin()->set_file_key("a key");
  request.add_frames()->set_data("some bytes");
  request.add_frames()->set_data("");
  request.add_frames()->set_data(std::string(300, 'x'));
  request.add_frames()->mutable_file_end()->set_size_bytes(310);
  auto* entry = request.add_frames()->mutable_commit()->add_entries();
  entry->set_digest(std::string(32, 'd'));
  entry->set_locator("here");
  request.add_frames()->mutable_report_stale();
  return request;
}

Bytes BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

TEST(FrameParser, AnySlicingGivesTheSameFrames) {
  const std::string encoded = Sample().SerializeAsString();
  for (std::size_t step = 1; step <= encoded.size(); ++step) {
    const ParsedMessage parsed = ParseSliced(BytesOf(encoded), step);
    ASSERT_TRUE(parsed.status.ok()) << parsed.status;
    ASSERT_EQ(parsed.request.SerializeAsString(), encoded) << "in pieces of " << step;
  }
}

TEST(FrameParser, DataIsNotCopied) {
  v1::UploadRequest request;
  request.add_frames()->set_data(std::string(1000, 'x'));
  const std::string encoded = request.SerializeAsString();
  const Bytes whole = BytesOf(encoded);
  const std::vector<Bytes> pieces = {whole.first(100), {}, whole.subspan(100)};
  FrameParser parser;
  parser.Reset(pieces);
  const auto frame = parser.Next();
  ASSERT_TRUE(frame.ok());
  ASSERT_NE(*frame, nullptr);
  EXPECT_EQ((*frame)->control, nullptr);
  EXPECT_EQ((*frame)->data_bytes, 1000u);
  ASSERT_EQ((*frame)->data.size(), 2u);
  EXPECT_EQ((*frame)->data[0].data(), whole.data() + encoded.size() - 1000);
  EXPECT_EQ((*frame)->data[1].data(), whole.data() + 100);
  EXPECT_EQ(parser.Next().value(), nullptr);
}

TEST(FrameParser, SaysWhereAMessageBreaks) {
  const std::string encoded = Sample().SerializeAsString();
  const ParsedMessage parsed = ParseSliced(BytesOf(encoded).first(encoded.size() - 1), 7);
  EXPECT_EQ(ReasonNameOf(parsed.status), "MALFORMED_MESSAGE");
  EXPECT_EQ(parsed.request.frames_size(), 7);
  EXPECT_EQ(ReasonNameOf(ParseSliced(BytesOf("garbage"), 3).status), "MALFORMED_MESSAGE");
}

TEST(FrameParser, FieldsOfANewerProtocolAreSkipped) {
  std::string encoded = Sample().SerializeAsString();
  encoded += "\x7a\x03new";
  encoded += Sample().SerializeAsString();
  const ParsedMessage parsed = ParseSliced(BytesOf(encoded), 10);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(parsed.request.frames_size(), 2 * Sample().frames_size());
}

TEST(FrameParser, ControlFramesAreBounded) {
  v1::UploadRequest request;
  request.add_frames()->mutable_file_begin()->set_file_key(std::string(kMaxControlFrameBytes, 'k'));
  EXPECT_EQ(ReasonNameOf(ParseSliced(BytesOf(request.SerializeAsString()), 16'384).status),
            "MESSAGE_TOO_LARGE");
  std::string unknown = "\x78\x01";
  unknown += Sample().SerializeAsString();
  unknown.resize(kMaxControlFrameBytes + 1);
  EXPECT_EQ(ReasonNameOf(ParseSliced(BytesOf(unknown), 16'384).status), "MALFORMED_MESSAGE");
}

TEST(FrameParser, AFullCommitFits) {
  v1::UploadRequest request;
  v1::Commit* commit = request.add_frames()->mutable_commit();
  for (int index = 0; index < 4096; ++index) {
    v1::CommitEntry* entry = commit->add_entries();
    entry->set_digest(std::string(32, 'd'));
    entry->set_locator(std::string(64, 'l'));
  }
  EXPECT_TRUE(ParseSliced(BytesOf(request.SerializeAsString()), 16'384).status.ok());
}

// Large ones lie elsewhere than small ones, and none is mixed up with the one before it.
TEST(FrameParser, LargeAndSmallFramesInTurn) {
  v1::UploadRequest request;
  for (int round = 0; round < 3; ++round) {
    for (const int entry_count : {1, 2000, 50, 1000}) {
      v1::Commit* commit = request.add_frames()->mutable_commit();
      for (int index = 0; index < entry_count + round; ++index) {
        v1::CommitEntry* entry = commit->add_entries();
        entry->set_digest(std::string(32, static_cast<char>('a' + round)));
        entry->set_locator("pack " + std::to_string(index));
      }
      request.add_frames()->set_data(std::string(static_cast<std::size_t>(entry_count), 'x'));
    }
    request.add_frames()->mutable_file_begin()->set_file_key(std::string(20'000, 'k'));
    request.add_frames()->mutable_file_begin()->set_file_key("small");
  }
  const std::string encoded = request.SerializeAsString();
  for (const std::size_t step : {std::size_t{5'000}, encoded.size()}) {
    const ParsedMessage parsed = ParseSliced(BytesOf(encoded), step);
    ASSERT_TRUE(parsed.status.ok()) << parsed.status;
    EXPECT_EQ(parsed.request.SerializeAsString(), encoded);
  }
}

}  // namespace
}  // namespace kerf
