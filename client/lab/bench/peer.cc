#include "client/lab/bench/peer.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/unfinished_paths.h"
#include "client/cpp/channel.h"

namespace kerf::bench {
namespace {

constexpr std::chrono::seconds kStartPatience{30};
constexpr std::chrono::seconds kConnectPatience{10};
constexpr std::chrono::milliseconds kPollInterval{5};
constexpr std::size_t kLastWordsBytes = 500;
constexpr char kSelf[] = "/proc/self/exe";

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string LastWords(const std::string& log_path) {
  const std::string text = ReadText(log_path);
  return text.substr(text.size() - std::min(text.size(), kLastWordsBytes));
}

// Who listens on the socket, as the system knows it.
std::optional<pid_t> ListenerOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return std::nullopt;
  ucred credentials{};
  socklen_t size = sizeof credentials;
  const bool known =
      connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      getsockopt(file, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 && credentials.pid > 0;
  close(file);
  if (!known) return std::nullopt;
  return credentials.pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchFolder>> ScratchFolder::Create() {
  const char* const parent = std::getenv("TMPDIR");
  std::string path =
      Cat(parent == nullptr || *parent == '\0' ? "/tmp" : parent, "/kerf-bench.XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(ToAbsl(Cat("cannot make ", path, ": ", std::strerror(errno))));
  }
  AddUnfinishedPath(path);
  return std::unique_ptr<ScratchFolder>(new ScratchFolder(std::move(path)));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  ForgetUnfinishedPath(path_);
}

absl::StatusOr<std::unique_ptr<Peer>> Peer::Start(std::vector<std::string> arguments,
                                                  const std::string& listen_flag, bool tcp,
                                                  std::unique_ptr<ScratchFolder> folder,
                                                  const std::atomic<bool>& cancelled) {
  const std::string ready = *folder / "ready";
  const std::string log = *folder / "log";
  const std::string socket_path = *folder / "socket";
  if (!tcp && socket_path.size() >= sizeof sockaddr_un{}.sun_path) {
    return absl::InvalidArgumentError(
        ToAbsl(Cat(socket_path,
                   " is too long for a socket: set TMPDIR to a shorter path, or use "
                   "--tcp")));
  }
  arguments.insert(arguments.end(), {listen_flag, tcp ? "127.0.0.1:0" : Cat("unix:", socket_path),
                                     "--ready-file", ready});
  std::unique_ptr<Peer> peer(new Peer);
  KERF_ASSIGN_OR_RETURN(peer->child_, ChildProcess::Start(arguments, log));
  const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
  while (access(ready.c_str(), F_OK) != 0) {
    if (cancelled) return absl::CancelledError("interrupted");
    if (peer->child_->HasEnded() || std::chrono::steady_clock::now() > deadline) {
      return absl::UnavailableError(ToAbsl(
          Cat("the server under test does not start (", arguments[0], "): ", LastWords(log))));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  const std::string addresses = ReadText(ready);
  peer->address_ = addresses.substr(0, addresses.find('\n'));
  peer->process_ = peer->child_->id();
  peer->folder_ = std::move(folder);
  return peer;
}

absl::StatusOr<std::unique_ptr<Peer>> Peer::StartKerfd(const ServiceOptions& options,
                                                       const std::atomic<bool>& cancelled) {
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<ScratchFolder> folder, ScratchFolder::Create());
  std::vector<std::string> arguments = {options.kerfd_path, "--data-dir", *folder / "data",
                                        "--log-level", "warning"};
  return Start(std::move(arguments), "--listen", options.tcp, std::move(folder), cancelled);
}

absl::StatusOr<std::unique_ptr<Peer>> Peer::StartFront(const ServiceOptions& options,
                                                       const Peer& worker,
                                                       const std::atomic<bool>& cancelled) {
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<ScratchFolder> folder, ScratchFolder::Create());
  std::vector<std::string> arguments = {options.kerfd_path, "--role",      "front",  "--workers",
                                        worker.address(),   "--log-level", "warning"};
  KERF_ASSIGN_OR_RETURN(
      std::unique_ptr<Peer> front,
      Start(std::move(arguments), "--listen", options.tcp, std::move(folder), cancelled));
  front->behind_ = &worker;
  return front;
}

absl::StatusOr<std::unique_ptr<Peer>> Peer::StartRaw(const ServiceOptions& options,
                                                     const std::atomic<bool>& cancelled) {
  KERF_ASSIGN_OR_RETURN(std::unique_ptr<ScratchFolder> folder, ScratchFolder::Create());
  return Start({kSelf, "bench", "raw-peer"}, "--listen", options.tcp, std::move(folder), cancelled);
}

std::unique_ptr<Peer> Peer::Attach(const client::ServerAddress& server) {
  std::unique_ptr<Peer> peer(new Peer);
  peer->address_ = server.text;
  peer->tls_ = server.tls;
  if (server.text.starts_with("unix:")) peer->process_ = ListenerOf(server.text.substr(5));
  return peer;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Peer::Connect() const {
  KERF_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                        client::OpenChannel({address_, tls_}));
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + kConnectPatience)) {
    return absl::UnavailableError(ToAbsl(Cat("cannot connect to ", address_)));
  }
  return channel;
}

}  // namespace kerf::bench
