#include "server/redis/wire.h"

#include <cstddef>

#include "base/strings.h"
#include "server/redis/slot.h"

namespace kerf::redis {
namespace {

// Of a number as the protocol frames it.
constexpr std::size_t kMaxCountBytes = 23;

}  // namespace

std::string FormatWire(const std::vector<std::string>& arguments) {
  std::size_t size = kMaxCountBytes;
  for (const std::string& argument : arguments) size += argument.size() + kMaxCountBytes + 2;
  std::string wire;
  wire.reserve(size);
  wire += Cat("*", arguments.size(), "\r\n");
  for (const std::string& argument : arguments) {
    wire += Cat("$", argument.size(), "\r\n");
    wire += argument;
    wire += "\r\n";
  }
  return wire;
}

std::string BarrierKeyOf(std::string_view key) {
  const std::string_view part = RedisHashedPartOf(key);
  return part.empty() || part.find('}') != std::string_view::npos ? std::string(key)
                                                                  : Cat("kerf.wait:{", part, "}");
}

}  // namespace kerf::redis
