// The example with a server that ends it early. What it leaks is seen by the address sanitizer.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "client/agent/backup/testing/cutting_server.h"
#include "client/cpp/testing/fake_server.h"

// Its main.
extern "C" int example_main(int argc, char** argv);

namespace kerf::c {
namespace {

class ExampleTest : public testing::Test {
 protected:
  ExampleTest() {
    FILE* const file = fopen(path_.c_str(), "w");
    EXPECT_NE(file, nullptr);
    // Of three chunks.
    EXPECT_GT(fputs(std::string(10'000, 'x').c_str(), file), 0);
    EXPECT_EQ(fclose(file), 0);
  }

  int Run(const agent::CuttingServer& script) {
    const client::FakeServer server(script);
    std::string name = "upload_twice";
    std::string address = server.address();
    char* arguments[] = {name.data(), address.data(), path_.data(), nullptr};
    return example_main(3, arguments);
  }

  std::string path_ = testing::TempDir() + "/example";
};

TEST_F(ExampleTest, UploadsTwice) { EXPECT_EQ(Run(agent::CuttingServer()), 0); }

TEST_F(ExampleTest, OneThatFailsBehindItsChunksLeavesNothing) {
  agent::CuttingServer server;
  server.lie = [](const v1::UploadFrame& /*frame*/, v1::UploadResponse& response) {
    for (v1::UploadAnswer& answer : *response.mutable_answers()) {
      if (answer.has_chunks()) answer.mutable_chunks()->mutable_chunks()->RemoveLast();
      // Before anything was committed.
      if (answer.has_file_done()) answer.mutable_committed();
    }
  };
  EXPECT_EQ(Run(server), 1);
}

}  // namespace
}  // namespace kerf::c
