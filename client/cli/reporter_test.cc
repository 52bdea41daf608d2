#include "client/cli/reporter.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "client/cli/progress_display.h"
#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace kerf::agent {
namespace {

TEST(Reporter, KnowsUtf8) {
  for (const char* good : {"", "plain", "gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                           "\xf4\x8f\xbf\xbf", "\xef\xbf\xbf"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad : {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "a\xe2\x82", "\xc1\x81"}) {
    EXPECT_FALSE(IsUtf8(bad));
  }
}

TEST(Reporter, BytesInJsonCanBeTakenBack) {
  nlohmann::json object;
  PutBytes(object, "path", "plain");
  EXPECT_FALSE(object.contains("path_base64"));
  PutBytes(object, "path", std::string("\xff\0x", 3));
  EXPECT_EQ(object["path_base64"], "/wB4");
  const std::string line = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  EXPECT_EQ(nlohmann::json::parse(line)["path"], std::string("\xef\xbf\xbd\0x", 5));
}

TEST(Reporter, PrintableTextCannotSteerATerminal) {
  EXPECT_EQ(Printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(Printable("a\nb\x1b[31m\x7f\xff"), "a\\x0ab\\x1b[31m\\x7f\\xff");
  // C1 controls do what ESC does.
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xc2\\x9b");
}

TEST(Reporter, AFailureOfACallNamesTheCall) {
  const absl::Status failure = absl::UnavailableError("gone");
  EXPECT_EQ(DescribeFailure(failure), "gone");
  const absl::Status call = client::WithRequestId(failure, "first");
  EXPECT_EQ(DescribeFailure(call), "gone (request id first)");
  EXPECT_EQ(client::RequestIdOf(client::WithRequestId(call, "second")), "first");
  EXPECT_EQ(client::RequestIdOf(client::WithRequestId(absl::OkStatus(), "first")), "");
}

// What Reporter::Error says to programs.
nlohmann::json ErrorOf(const absl::Status& status) {
  Reporter reporter;
  reporter.Configure({.json = true});
  ::testing::internal::CaptureStdout();
  reporter.Error(status);
  EXPECT_TRUE(reporter.Flush().ok());
  return nlohmann::json::parse(::testing::internal::GetCapturedStdout());
}

TEST(Reporter, AnErrorHasTheReasonOfItsServer) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  info.set_reason("NOT_YOURS");
  info.set_domain("kerf");
  details.add_details()->PackFrom(info);
  const absl::Status refused = client::FromGrpc(
      {grpc::StatusCode::PERMISSION_DENIED, "not for you", details.SerializeAsString()});
  const nlohmann::json error = ErrorOf(client::WithRequestId(refused, "first"));
  EXPECT_EQ(error["message_type"], "error");
  EXPECT_EQ(error["code"], "PERMISSION_DENIED");
  EXPECT_EQ(error["reason"], "NOT_YOURS");
  EXPECT_EQ(error["request_id"], "first");
  EXPECT_EQ(ErrorOf(absl::NotFoundError("no such store"))["reason"], "");
}

TEST(ProgressDisplay, FormatsForPeople) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCounted(0, "pack"), "0 packs");
  EXPECT_EQ(FormatCounted(1, "entry"), "1 entry");
  EXPECT_EQ(FormatCounted(1234, "entry"), "1,234 entries");
  EXPECT_EQ(FormatDuration(7), "0:07");
  EXPECT_EQ(FormatDuration(3725), "1:02:05");
  ProgressState state;
  EXPECT_FALSE(FormatProgress(state, 0).empty());
  state.done_files = 1;
  state.total_files = 2;
  state.done_bytes = 50 << 20;
  state.total_bytes = 100 << 20;
  state.known_bytes = 40 << 20;
  state.new_bytes = 10 << 20;
  state.has_saved = true;
  const std::string text = FormatProgress(state, 5);
  for (const char* part : {"1 of 2 files", "50%", "10.0 MiB/s", "0:05 left", "75% saved"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  // What was read and not answered yet may be new, all of it.
  state.known_bytes = state.new_bytes = 0;
  EXPECT_EQ(FormatProgress(state, 5).find("saved"), std::string::npos);
  state.known_bytes = state.new_bytes = 1 << 20;
  EXPECT_NE(FormatProgress(state, 5).find("  0% saved"), std::string::npos);
  ProgressState counts;
  counts.done_files = 2000;
  counts.total_files = 8000;
  counts.noun = "chunks";
  counts.counts_only = true;
  EXPECT_EQ(FormatProgress(counts, 2), "2,000 of 8,000 chunks  25%  1,000/s  0:06 left");
}

}  // namespace
}  // namespace kerf::agent
