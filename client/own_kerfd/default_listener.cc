#include "client/own_kerfd/default_listener.h"

#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_format.h"
#include "base/overflow_user.h"
#include "base/strings.h"

namespace kerf::agent {
namespace {

// SYS_UID_MAX of login.defs(5), in Debian and elsewhere.
constexpr uid_t kMaxSystemUser = 999;
constexpr char kListens[] = "0A";

// As the system writes them: words of 32 bits, each as a number.
std::string HexOf(std::uint32_t word) { return absl::StrFormat("%08X", word); }

bool IsTrusted(uid_t user, uid_t self) {
  return (user <= kMaxSystemUser || user == self) && !MayBeAnybody(user);
}

// Of the sockets of one file those that take connections to one of `addresses`.
void Look(std::istream& file, const std::initializer_list<std::string>& addresses, uid_t self,
          Listener& found) {
  std::string line;
  // The names of the columns.
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    std::string number, local, remote, state, queues, timer, retries;
    uid_t user = 0;
    columns >> number >> local >> remote >> state >> queues >> timer >> retries >> user;
    // Those that listen come first, and of others there may be many.
    if (columns.fail() || state != kListens) return;
    if (std::find(addresses.begin(), addresses.end(), local) == addresses.end()) continue;
    if (found.kind == Listener::Kind::kStranger) continue;
    found = IsTrusted(user, self) ? Listener{Listener::Kind::kTrusted, 0}
                                  : Listener{Listener::Kind::kStranger, user};
  }
}

}  // namespace

Listener FindListener(std::uint16_t port) {
  std::ifstream tcp("/proc/net/tcp");
  std::ifstream tcp6("/proc/net/tcp6");
  return FindListener(tcp, tcp6, port, geteuid());
}

Listener FindListener(std::istream& tcp, std::istream& tcp6, std::uint16_t port, uid_t self) {
  const std::string loopback = HexOf(htonl(INADDR_LOOPBACK));
  const std::string any = HexOf(0);
  const std::string mapped = HexOf(htonl(0xFFFF));
  const std::string behind = absl::StrFormat(":%04X", port);
  Listener found;
  Look(tcp, {Cat(loopback, behind), Cat(any, behind)}, self, found);
  // Sockets of IPv6 may take IPv4, too.
  Look(tcp6, {Cat(any, any, any, any, behind), Cat(any, any, mapped, loopback, behind)}, self,
       found);
  return found;
}

}  // namespace kerf::agent
