// What libraries say by themselves, as lines of kerfd's log.
#pragma once

#include "base/rpc/library_logs.h"

namespace kerf {

// gRPC's, protobuf's and libevent's, while it lives; one at a time.
class LibraryLogLines {
 public:
  LibraryLogLines();

 private:
  const LibraryLogs logs_;
};

}  // namespace kerf
