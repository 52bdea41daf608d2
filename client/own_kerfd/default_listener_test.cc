#include "client/own_kerfd/default_listener.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "base/unique_fd.h"

namespace kerf::agent {
namespace {

using Kind = Listener::Kind;

constexpr std::uint16_t kPort = 7461;
constexpr uid_t kSelf = 1000;
constexpr char kColumns[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout\n";

// As this machine writes them (little-endian).
std::string Line(const std::string& local, const std::string& state, uid_t user) {
  return Cat("   0: ", local, " 00000000:0000 ", state, " 00000000:00000000 00:00000000 00000000 ",
             user, "        0 12345 1 0 100 0\n");
}

Listener Find(const std::vector<std::string>& tcp, const std::vector<std::string>& tcp6 = {}) {
  std::string text = kColumns;
  for (const std::string& line : tcp) text += line;
  std::string text6 = kColumns;
  for (const std::string& line : tcp6) text6 += line;
  std::istringstream file(text);
  std::istringstream file6(text6);
  return FindListener(file, file6, kPort, kSelf);
}

TEST(DefaultListenerTest, OnlyRootServicesAndOneselfAreTrusted) {
  for (const uid_t user : {0u, 105u, 999u, kSelf}) {
    EXPECT_EQ(Find({Line("0100007F:1D25", "0A", user)}).kind, Kind::kTrusted) << user;
    EXPECT_EQ(Find({Line("00000000:1D25", "0A", user)}).kind, Kind::kTrusted) << user;
  }
  for (const uid_t user : {1001u, 65533u}) {
    const Listener found = Find({Line("0100007F:1D25", "0A", user)});
    EXPECT_EQ(found.kind, Kind::kStranger);
    EXPECT_EQ(found.user, user);
  }
}

TEST(DefaultListenerTest, OtherPortsAddressesAndStatesAreNone) {
  EXPECT_EQ(Find({}).kind, Kind::kNone);
  EXPECT_EQ(Find({Line("0100007F:1D26", "0A", 0)}).kind, Kind::kNone);
  EXPECT_EQ(Find({Line("0200000A:1D25", "0A", 0)}).kind, Kind::kNone);
  EXPECT_EQ(Find({Line("0100007F:1D25", "01", 0)}).kind, Kind::kNone);
  EXPECT_EQ(Find({"nonsense\n"}).kind, Kind::kNone);
  EXPECT_EQ(Find({Line("0200000A:0016", "0A", 0), Line("0100007F:1D25", "0A", 0)}).kind,
            Kind::kTrusted);
}

TEST(DefaultListenerTest, SocketsOfIpv6TakeIpv4Too) {
  const std::string any = "00000000000000000000000000000000:1D25";
  const std::string mapped = "0000000000000000FFFF00000100007F:1D25";
  const std::string loopback6 = "00000000000000000000000001000000:1D25";
  EXPECT_EQ(Find({}, {Line(any, "0A", 0)}).kind, Kind::kTrusted);
  EXPECT_EQ(Find({}, {Line(mapped, "0A", 1001)}).kind, Kind::kStranger);
  EXPECT_EQ(Find({}, {Line(loopback6, "0A", 0)}).kind, Kind::kNone);
  // One stranger is enough, whichever is met first.
  EXPECT_EQ(Find({Line("0100007F:1D25", "0A", 0)}, {Line(any, "0A", 1001)}).kind, Kind::kStranger);
  EXPECT_EQ(Find({Line("0100007F:1D25", "0A", 1001)}, {Line(any, "0A", 0)}).kind, Kind::kStranger);
}

TEST(DefaultListenerTest, ThisMachineSaysSoOfASocket) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::uint16_t port = ntohs(address.sin_port);
  EXPECT_EQ(FindListener(port).kind, Kind::kNone) << "it does not listen yet";
  ASSERT_EQ(listen(listener.get(), 1), 0);
  EXPECT_EQ(FindListener(port).kind, Kind::kTrusted);
}

}  // namespace
}  // namespace kerf::agent
