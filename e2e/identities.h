// A kerfd that asks who calls, over TLS, and clients that have names.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "base/tls/testing/test_certificates.h"
#include "e2e/world.h"

namespace kerf::e2e {

// The world's last server, with certificates of its own and the rules of `access`.
class Identities {
 public:
  Identities(World& world, std::string_view access, std::vector<std::string> more_flags = {})
      : world_(world) {
    WriteTlsFile(world_ / "access.toml", std::string(access));
    WriteTlsFile(world_ / "ca.pem", all_.ca.certificate);
    WriteTlsFiles(world_ / "", "kerfd", all_.server);
    for (const std::string& flag :
         {std::string("--listen"), std::string("127.0.0.1:0"), std::string("--tls-cert"),
          world_ / "kerfd.pem", std::string("--tls-key"), world_ / "kerfd.key",
          std::string("--tls-client-ca"), world_ / "ca.pem", std::string("--access"),
          world_ / "access.toml"}) {
      more_flags.push_back(flag);
    }
    world_.StartServer(more_flags);
  }

  // A connection of its own, of kerf://NAME.
  std::shared_ptr<grpc::Channel> Connect(std::string_view name) const {
    const CertifiedKey key = all_.Of("client", {Cat("kerf://", name)}, false, true);
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = all_.ca.certificate;
    options.pem_private_key = key.key;
    options.pem_cert_chain = key.certificate;
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(world_.last_address(), grpc::SslCredentials(options),
                                     arguments);
  }

 private:
  World& world_;
  TestCertificates all_;
};

}  // namespace kerf::e2e
