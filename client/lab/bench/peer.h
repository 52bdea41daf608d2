// A server under test: started here, or one that runs already.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/server_address.h"
#include "client/lab/bench/child_process.h"
#include "client/lab/bench/service_options.h"
#include "grpcpp/channel.h"

namespace kerf::bench {

// A folder for sockets, logs and data, gone with all that is in it at the end.
class ScratchFolder {
 public:
  // In TMPDIR, or /tmp.
  static absl::StatusOr<std::unique_ptr<ScratchFolder>> Create();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

// Not thread-safe. A started one ends with the object.
class Peer {
 public:
  // Each waits until the peer serves. Cancelled when `cancelled` becomes true meanwhile. NotFound:
  // no such program; Unavailable: it does not start; the message has its last words.
  static absl::StatusOr<std::unique_ptr<Peer>> StartKerfd(const ServiceOptions& options,
                                                          const std::atomic<bool>& cancelled);
  static absl::StatusOr<std::unique_ptr<Peer>> StartRaw(const ServiceOptions& options,
                                                        const std::atomic<bool>& cancelled);
  // A front of `worker`, which outlives it.
  static absl::StatusOr<std::unique_ptr<Peer>> StartFront(const ServiceOptions& options,
                                                          const Peer& worker,
                                                          const std::atomic<bool>& cancelled);
  // A kerfd that runs. Its process is known only behind a unix socket of this machine.
  static std::unique_ptr<Peer> Attach(const client::ServerAddress& server);

  const std::string& address() const { return address_; }
  // Nothing if it cannot be known.
  std::optional<pid_t> process() const { return process_; }
  // Whom a front passes everything on to; else null.
  const Peer* behind() const { return behind_; }

  // With a connection of its own; connected when it returns.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect() const;

 private:
  Peer() = default;
  static absl::StatusOr<std::unique_ptr<Peer>> Start(std::vector<std::string> arguments,
                                                     const std::string& listen_flag, bool tcp,
                                                     std::unique_ptr<ScratchFolder> folder,
                                                     const std::atomic<bool>& cancelled);

  // The process ends before its folder goes.
  std::unique_ptr<ScratchFolder> folder_;
  std::unique_ptr<ChildProcess> child_;
  std::string address_;
  client::TlsChoice tls_;
  std::optional<pid_t> process_;
  const Peer* behind_ = nullptr;
};

}  // namespace kerf::bench
