// A kerfd in the process of a test, with an index of its own in memory.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "server/edge/server.h"
#include "server/index/memory_index.h"

namespace kerf {

class TestWorker {
 public:
  explicit TestWorker(const std::string& address, const std::string& name = "unnamed") {
    ServerOptions options;
    options.listen = {address};
    options.worker_threads = 1;
    options.worker_name = name;
    auto server = Server::Start(options, index_.get());
    KERF_CHECK(server.ok());
    server_ = *std::move(server);
  }
  ~TestWorker() { server_->Stop(); }
  TestWorker(const TestWorker&) = delete;
  TestWorker& operator=(const TestWorker&) = delete;

  Server& server() { return *server_; }
  // With the port that was picked.
  const std::string& address() const { return server_->addresses()[0]; }

 private:
  std::unique_ptr<Index> index_ = CreateMemoryIndex();
  std::unique_ptr<Server> server_;
};

}  // namespace kerf
