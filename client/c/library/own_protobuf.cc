// A program with protobuf of its own, and with the messages that are in libkerf, too: own_protobuf
// SERVER FILE. Two copies of one message in protobuf's registry would end it before main.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/stubs/logging.h>
#include <kerf.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "kerf/v1/chunking.pb.h"

// The example's main.
extern "C" int example_main(int argc, char** argv);

namespace {

int heard_count = 0;

void Expect(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "own_protobuf: %s\n", what);
  std::exit(1);
}

// Its own messages are what they were: with descriptors, and with the program's own log.
void ExpectOwnProtobuf() {
  google::rpc::ErrorInfo info;
  info.set_reason("WHY");
  (*info.mutable_metadata())["key"] = "value";
  google::rpc::ErrorInfo read;
  Expect(read.ParseFromString(info.SerializeAsString()) && read.metadata().at("key") == "value",
         "a message is read as another one");
  Expect(read.DebugString().find("reason: \"WHY\"") != std::string::npos, "it has no text");
  const google::protobuf::DescriptorPool* const pool =
      google::protobuf::DescriptorPool::generated_pool();
  for (const char* const name : {"google.rpc.ErrorInfo", "kerf.v1.UploadFrame"}) {
    Expect(pool->FindMessageTypeByName(name) != nullptr, name);
  }
  const int before = heard_count;
  info.set_reason("\xff");
  Expect(!read.ParseFromString(info.SerializePartialAsString()), "any bytes are text");
  Expect(heard_count > before, "the program's own log hears nothing of protobuf");
}

// A refusal with a reason: messages of google.rpc, which libkerf reads with its own.
void PrintRefusal(const char* server) {
  kerf_client_options options = KERF_CLIENT_OPTIONS_INIT;
  options.servers = server;
  // The example's, which is of another digest.
  options.repository = "example";
  options.digest = KERF_SHA256;
  kerf_client* client = nullptr;
  Expect(kerf_client_open(&options, &client, nullptr) == KERF_OK, "a client cannot be opened");
  const std::vector<std::uint8_t> digest(kerf_digest_size(KERF_SHA256));
  const kerf_entry entry = {digest.data(), digest.data(), 1, 1};
  kerf_error* error = nullptr;
  kerf_client_commit(client, 1, &entry, 1, &error);
  std::printf("refused: %s\n", kerf_error_reason(error));
  kerf_error_free(error);
  kerf_client_free(client);
}

}  // namespace

int main(int argc, char** argv) {
  google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string&) { ++heard_count; });
  ExpectOwnProtobuf();
  const int code = example_main(argc, argv);
  if (code != 0) return code;
  ExpectOwnProtobuf();
  PrintRefusal(argv[1]);
  google::protobuf::ShutdownProtobufLibrary();
}
