// A kerfd in the process of a test, with an index of its own in memory.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/check.h"
#include "server/edge/server.h"
#include "server/index/forwarding_index.h"
#include "server/index/memory_index.h"

namespace kerf {

// In memory, and worth what the test says.
class TestIndex final : public ForwardingIndex {
 public:
  TestIndex() : ForwardingIndex(CreateMemoryIndex()) {}

  void SetHealth(IndexHealth health) {
    const std::lock_guard lock(mutex_);
    health_ = std::move(health);
  }
  IndexHealth health() const override {
    const std::lock_guard lock(mutex_);
    return health_;
  }

 private:
  mutable std::mutex mutex_;
  IndexHealth health_;
};

class TestWorker {
 public:
  // `tls` outlives it; null: TCP is served in the clear.
  explicit TestWorker(const std::string& address, const std::string& name = "unnamed",
                      const TlsSource* tls = nullptr) {
    ServerOptions options;
    options.listen = {address};
    options.worker_threads = 1;
    options.worker_name = name;
    options.tls = tls;
    auto server = Server::Start(options, index_.get());
    KERF_CHECK(server.ok());
    server_ = *std::move(server);
  }
  ~TestWorker() { server_->Stop(); }
  TestWorker(const TestWorker&) = delete;
  TestWorker& operator=(const TestWorker&) = delete;

  Server& server() { return *server_; }
  // Seen by others within moments.
  void SetIndexHealth(IndexHealth health) { index_->SetHealth(std::move(health)); }
  // With the port that was picked.
  const std::string& address() const { return server_->addresses()[0]; }

 private:
  std::unique_ptr<TestIndex> index_ = std::make_unique<TestIndex>();
  std::unique_ptr<Server> server_;
};

}  // namespace kerf
