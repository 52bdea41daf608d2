// The id of a call, as its client has sent it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <string_view>

#include "base/request_id.h"

namespace kerf {

// A new one for a client that has sent none, or what is none: it goes into logs and other calls.
template <typename Context>
std::string RequestIdOf(const Context& context) {
  const auto found = context.client_metadata().find(kRequestIdMetadata);
  if (found == context.client_metadata().end()) return NewRequestId();
  const std::string_view id(found->second.data(), found->second.size());
  return IsRequestId(id) ? std::string(id) : NewRequestId();
}

}  // namespace kerf
