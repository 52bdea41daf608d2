#include "client/cpp/token_file.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/small_file.h"
#include "base/status.h"
#include "base/strings.h"

namespace kerf::client {
namespace {

using grpc::experimental::InterceptionHookPoints;

constexpr std::size_t kMaxFileBytes = std::size_t{8} << 10;

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  KERF_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, kMaxFileBytes));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const bool is_token = !text.empty() && std::all_of(text.begin(), text.end(), [](char character) {
    return character > ' ' && character <= '~';
  });
  if (is_token) return text;
  return absl::InvalidArgumentError(
      Cat(path, ": a token is one line of visible characters, and this is none"));
}

class TokenInterceptor final : public grpc::experimental::Interceptor {
 public:
  TokenInterceptor(std::shared_ptr<const TokenFile> file, std::shared_ptr<TrustedSocket> socket)
      : file_(std::move(file)), socket_(std::move(socket)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      // A kerfd that was started anew has another one. Whoever is not to be trusted is not
      // connected to, and what he is said to be is for ExplainByTls.
      if (socket_ != nullptr) socket_->Look().IgnoreError();
      methods->GetSendInitialMetadata()->emplace("authorization", Cat("Bearer ", file_->token()));
    }
    methods->Proceed();
  }

 private:
  const std::shared_ptr<const TokenFile> file_;
  // Null: the channel is one over TLS.
  const std::shared_ptr<TrustedSocket> socket_;
};

class TokenInterceptorFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  TokenInterceptorFactory(std::shared_ptr<const TokenFile> file,
                          std::shared_ptr<TrustedSocket> socket)
      : file_(std::move(file)), socket_(std::move(socket)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* /*info*/) override {
    return new TokenInterceptor(file_, socket_);
  }

 private:
  const std::shared_ptr<const TokenFile> file_;
  const std::shared_ptr<TrustedSocket> socket_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenFile>> TokenFile::Open(const std::string& path) {
  KERF_ASSIGN_OR_RETURN(std::string token, ReadToken(path));
  return std::shared_ptr<const TokenFile>(new TokenFile(path, std::move(token)));
}

std::string TokenFile::token() const {
  absl::StatusOr<std::string> now = ReadToken(path_);
  const std::lock_guard lock(mutex_);
  if (now.ok()) token_ = *std::move(now);
  return token_;
}

std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface> ShowToken(
    std::shared_ptr<const TokenFile> file, std::shared_ptr<TrustedSocket> socket) {
  return std::make_unique<TokenInterceptorFactory>(std::move(file), std::move(socket));
}

}  // namespace kerf::client
