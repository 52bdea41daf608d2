// kerfds that ask who calls, over TLS, and clients that have names.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "base/tls/testing/test_certificates.h"
#include "e2e/world.h"

namespace kerf::e2e {

// Certificates of a CA of the test's own, and the file of --access, in the world's folder.
class Identities {
 public:
  explicit Identities(World& world) : world_(world) { Write("ca.pem", all_.ca.certificate); }

  // By rename, as whoever renews files does it.
  void Write(const std::string& name, std::string_view text) const {
    const std::string path = world_ / name;
    WriteTlsFile(path + ".new", text);
    KERF_CHECK(std::rename((path + ".new").c_str(), path.c_str()) == 0);
  }
  // NAME.pem and NAME.key, for servers and for clients.
  void WriteKey(const std::string& name, const std::vector<std::string>& names) const {
    const CertifiedKey key = all_.Of(name, names, true, true);
    Write(name + ".pem", key.certificate);
    Write(name + ".key", key.key);
  }
  void WriteAccess(std::string_view text) const { Write("access.toml", text); }
  std::string ca_path() const { return world_ / "ca.pem"; }

  // Of a kerfd that has such a key, reads that file, and listens at a port.
  std::vector<std::string> FlagsOf(const std::string& name) const {
    return {"--tls-cert",      Cat(world_ / name, ".pem"),
            "--tls-key",       Cat(world_ / name, ".key"),
            "--tls-client-ca", ca_path(),
            "--access",        world_ / "access.toml",
            "--listen",        "127.0.0.1:0"};
  }
  // The world's last server, by these rules.
  void StartServer(std::string_view access, const std::vector<std::string>& more_flags = {}) const {
    WriteAccess(access);
    WriteKey("kerfd", {"localhost", "127.0.0.1", "::1"});
    std::vector<std::string> flags = FlagsOf("kerfd");
    flags.insert(flags.end(), more_flags.begin(), more_flags.end());
    world_.StartServer(flags);
  }

  // A connection of its own, of a client whose certificate has this name; empty: without one.
  std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                         const std::string& name) const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = all_.ca.certificate;
    if (!name.empty()) {
      const CertifiedKey key = all_.Of("client", {name}, false, true);
      options.pem_private_key = key.key;
      options.pem_cert_chain = key.certificate;
    }
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::SslCredentials(options), arguments);
  }
  // The same of kerf://NAME to the world's last server.
  std::shared_ptr<grpc::Channel> Connect(std::string_view name) const {
    return Connect(world_.last_address(), Cat("kerf://", name));
  }

 private:
  World& world_;
  const TestCertificates all_;
};

}  // namespace kerf::e2e
