#include "client/cpp/server_repositories.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "client/cpp/channel.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace kerf::client {
namespace {

// Makes what it is told to, and loses answers.
class LosingRepositories final : public v1::RepositoryService::Service {
 public:
  explicit LosingRepositories(std::vector<grpc::Status> answers) : answers_(std::move(answers)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    KERF_CHECK(server_ != nullptr);
  }
  ~LosingRepositories() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return Cat("127.0.0.1:", port_); }

  grpc::Status ListRepositories(grpc::ServerContext*, const v1::ListRepositoriesRequest*,
                                v1::ListRepositoriesResponse*) override {
    return grpc::Status::OK;
  }
  grpc::Status CreateRepository(grpc::ServerContext*, const v1::CreateRepositoryRequest*,
                                v1::CreateRepositoryResponse* response) override {
    response->set_is_new(!std::exchange(is_there_, true));
    return answers_.at(count_++);
  }

 private:
  const std::vector<grpc::Status> answers_;
  std::size_t count_ = 0;
  bool is_there_ = false;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Which was made, and of which the answer was lost, is not said to have been there.
TEST(ServerRepositoriesTest, WhatALostTryHasMadeIsNobodyElses) {
  const grpc::Status ok;
  const LosingRepositories server(
      {grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed"), ok, ok});
  ServerRepositories repositories(*OpenChannel({server.address()}));
  ASSERT_TRUE(repositories.List().ok());
  const ServerRepository anna{"anna"};
  EXPECT_EQ(*repositories.Create(anna), std::nullopt);
  EXPECT_EQ(*repositories.Create(anna), std::optional(false));
  const LosingRepositories fresh({ok});
  EXPECT_EQ(*ServerRepositories(*OpenChannel({fresh.address()})).Create(anna), std::optional(true));
}

}  // namespace
}  // namespace kerf::client
