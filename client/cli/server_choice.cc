#include "client/cli/server_choice.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/cli/find_program.h"
#include "client/cpp/channel.h"
#include "client/own_kerfd/default_listener.h"
#include "client/own_kerfd/private_folder.h"

namespace kerf::agent {
namespace {

constexpr char kKerfd[] = "kerfd";

std::uint16_t DefaultPort() {
  std::uint32_t port = 0;
  const std::string_view server = client::kDefaultServer;
  KERF_CHECK(absl::SimpleAtoi(ToAbsl(server.substr(server.rfind(':') + 1)), &port));
  return static_cast<std::uint16_t>(port);
}

}  // namespace

absl::StatusOr<std::string> ChooseOwnKerfd(Context& context) {
  if (context.own_kerfd != nullptr) return context.own_kerfd->address();
  OwnKerfd::Options options;
  KERF_ASSIGN_OR_RETURN(options.folder, OwnKerfdFolder());
  options.program = FindProgram(kKerfd);
  options.searched = Cat("beside kerf, in ", ProgramFolder(), ", nor in a folder of PATH");
  options.cancelled = &context.cancelled;
  Reporter& reporter = context.reporter;
  options.on_first = [&reporter](std::string_view text) { reporter.Line(text); };
  options.on_wait = [&reporter](std::string_view text) { reporter.Notice(text); };
  options.on_lost = [&reporter](const absl::Status& status) { reporter.Warning(kKerfd, status); };
  context.own_kerfd = std::make_unique<OwnKerfd>(std::move(options));
  return context.own_kerfd->address();
}

absl::StatusOr<std::string> ChooseServer(Context& context) {
  const Listener listener = FindListener(DefaultPort());
  if (listener.kind == Listener::Kind::kTrusted) return std::string(client::kDefaultServer);
  if (listener.kind == Listener::Kind::kStranger) {
    context.reporter.Notice(Cat("no server is named, and at ", client::kDefaultServer, " user ",
                                listener.user,
                                " listens, who is neither root, a service nor you: "
                                "kerf takes a kerfd of its own. --server ",
                                client::kDefaultServer, " takes that one"));
  }
  return ChooseOwnKerfd(context);
}

}  // namespace kerf::agent
