#include "e2e/network_namespace.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstring>

#include "base/check.h"

namespace kerf::e2e {
namespace {

// Of the calling thread.
UniqueFd OpenOwn() {
  UniqueFd own(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  KERF_CHECK(own.valid());
  return own;
}

void BringUpLoopback() {
  const UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  KERF_CHECK(ioctl(any.get(), SIOCSIFFLAGS, &request) == 0);
}

}  // namespace

NetworkNamespace::NetworkNamespace() {
  const UniqueFd before = OpenOwn();
  if (unshare(CLONE_NEWNET) != 0) std::perror("a network namespace, for which a test needs root");
  namespace_ = OpenOwn();
  BringUpLoopback();
  KERF_CHECK(setns(before.get(), CLONE_NEWNET) == 0);
}

NetworkNamespace::Scope::Scope(const NetworkNamespace& entered) : before_(OpenOwn()) {
  KERF_CHECK(setns(entered.namespace_.get(), CLONE_NEWNET) == 0);
}

NetworkNamespace::Scope::~Scope() { KERF_CHECK(setns(before_.get(), CLONE_NEWNET) == 0); }

}  // namespace kerf::e2e
