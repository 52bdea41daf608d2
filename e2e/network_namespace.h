// A network that nobody else has, with a loopback of its own: what runs in it reaches of this
// machine's network what a test brings there. Unix sockets with a path are everybody's. Needs root.
#pragma once

#include "base/unique_fd.h"

namespace kerf::e2e {

class NetworkNamespace {
 public:
  NetworkNamespace();

  // Of the thread that has it: while it lives, what the thread opens and starts is in there.
  class Scope {
   public:
    explicit Scope(const NetworkNamespace& entered);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    UniqueFd before_;
  };

 private:
  UniqueFd namespace_;
};

}  // namespace kerf::e2e
