#include "client/cpp/server_address.h"

#include <openssl/x509.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "base/tls/tls_context.h"

namespace kerf::client {
namespace {

// A certificate and its key are renamed one behind the other: who looks in between looks again.
constexpr int kLooks = 4;
constexpr std::chrono::milliseconds kLookPause{100};

// Of Debian and its kin, of Red Hat's, and of SUSE's.
constexpr const char* kSystemCaFiles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                          "/etc/pki/tls/certs/ca-bundle.crt",
                                          "/etc/ssl/ca-bundle.pem"};

// Where the CAs are that the system knows; empty: nowhere.
std::string SystemCaFile() {
  if (const char* named = std::getenv(X509_get_default_cert_file_env());
      named != nullptr && *named != '\0') {
    return named;
  }
  if (access(X509_get_default_cert_file(), R_OK) == 0) return X509_get_default_cert_file();
  for (const char* path : kSystemCaFiles) {
    if (access(path, R_OK) == 0) return path;
  }
  return "";
}

// As they are now, if they go together.
absl::StatusOr<TlsTexts> ReadSound(const TlsFiles& files) {
  KERF_ASSIGN_OR_RETURN(TlsTexts texts, ReadTlsFiles(files));
  KERF_RETURN_IF_ERROR(
      TlsContext::Make({.side = TlsRules::Side::kClient, .files = files}, texts).status());
  return texts;
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const TlsTexts& texts) {
  return grpc::SslCredentials({texts.ca, texts.key, texts.certificate});
}

}  // namespace

struct TlsChoice::Inner {
  explicit Inner(TlsFiles all, TlsTexts read)
      : files(std::move(all)), texts(std::move(read)), credentials(CredentialsOf(texts)) {}

  const TlsFiles files;
  mutable std::mutex mutex;
  // The last that were sound.
  mutable TlsTexts texts;
  mutable std::shared_ptr<grpc::ChannelCredentials> credentials;
};

absl::StatusOr<TlsChoice> TlsChoice::Make(const TlsFiles& files, const std::string& name) {
  TlsFiles all = files;
  if (all.ca.empty()) all.ca = SystemCaFile();
  if (all.ca.empty()) {
    return absl::InvalidArgumentError(
        "this system knows no CAs (package ca-certificates): give the CA of the server's "
        "certificate with --tls-ca");
  }
  absl::StatusOr<TlsTexts> texts = ReadSound(all);
  for (int look = 1; look < kLooks && absl::IsInvalidArgument(texts.status()); ++look) {
    std::this_thread::sleep_for(kLookPause);
    texts = ReadSound(all);
  }
  if (!texts.ok()) return texts.status();
  TlsChoice choice;
  choice.inner_ = std::make_shared<const Inner>(std::move(all), *std::move(texts));
  choice.name_ = name;
  return choice;
}

TlsChoice TlsChoice::WithName(std::string name) const {
  TlsChoice choice = *this;
  choice.name_ = std::move(name);
  return choice;
}

TlsChoice TlsChoice::WithToken(std::shared_ptr<const TokenFile> token,
                               std::optional<uid_t> server_user) const {
  TlsChoice choice = *this;
  choice.token_ = std::move(token);
  choice.server_user_ = server_user;
  return choice;
}

std::shared_ptr<grpc::ChannelCredentials> TlsChoice::credentials() const {
  KERF_CHECK(is_tls());
  absl::StatusOr<TlsTexts> texts = ReadSound(inner_->files);
  const std::lock_guard lock(inner_->mutex);
  if (texts.ok() && *texts != inner_->texts) {
    inner_->texts = *std::move(texts);
    inner_->credentials = CredentialsOf(inner_->texts);
  }
  return inner_->credentials;
}

const TlsFiles& TlsChoice::files() const {
  KERF_CHECK(is_tls());
  return inner_->files;
}

std::string HostOfAddress(std::string_view server) {
  std::string_view host = server.substr(0, server.rfind(':'));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return std::string(host);
}

}  // namespace kerf::client
