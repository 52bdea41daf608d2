#include "server/redis/reply.h"

#include <hiredis/hiredis.h>

#include <charconv>

#include "base/strings.h"
#include "server/redis/slot.h"

namespace kerf {
namespace {

constexpr int kMaxDepth = 8;
// Of the answer to CLUSTER SLOTS.
constexpr std::string_view kNoCluster = "cluster support disabled";

RedisReply Copy(const redisReply* reply, int depth) {
  RedisReply copy;
  if (reply == nullptr) return copy;
  switch (reply->type) {
    case REDIS_REPLY_INTEGER:
      copy.kind = RedisReply::Kind::kInteger;
      copy.integer = reply->integer;
      break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      copy.kind = RedisReply::Kind::kText;
      copy.text.assign(reply->str, reply->len);
      break;
    case REDIS_REPLY_ERROR:
      copy.kind = RedisReply::Kind::kError;
      copy.text.assign(reply->str, reply->len);
      break;
    case REDIS_REPLY_ARRAY:
      copy.kind = RedisReply::Kind::kArray;
      if (depth == kMaxDepth) break;
      copy.elements.reserve(reply->elements);
      for (std::size_t index = 0; index < reply->elements; ++index) {
        copy.elements.push_back(Copy(reply->element[index], depth + 1));
      }
      break;
    default:
      break;
  }
  return copy;
}

// Redis names a host without brackets: "::1:6379".
std::optional<RedisAddress> ParseTarget(std::string_view text, const RedisAddress& asked) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  RedisAddress address{std::string(text.substr(0, colon)), 0};
  if (address.host.empty() || address.host == "?") address.host = asked.host;
  const std::string_view port = text.substr(colon + 1);
  const auto parsed = std::from_chars(port.data(), port.data() + port.size(), address.port);
  const bool is_whole = parsed.ec == std::errc() && parsed.ptr == port.data() + port.size();
  if (!is_whole || address.port < 1 || address.port > kMaxPort) return std::nullopt;
  return address;
}

absl::Status NotSlots() {
  return absl::DataLossError("the answer to CLUSTER SLOTS is not what Redis documents");
}

}  // namespace

RedisReply CopyReply(const redisReply* reply) { return Copy(reply, 0); }

absl::StatusOr<std::vector<RedisSlotRange>> ParseClusterSlots(const RedisReply& reply,
                                                              const RedisAddress& asked) {
  if (reply.kind != RedisReply::Kind::kArray) return NotSlots();
  std::vector<RedisSlotRange> ranges;
  for (const RedisReply& part : reply.elements) {
    if (part.elements.size() < 3 || part.elements[2].elements.size() < 2) return NotSlots();
    const RedisReply& first = part.elements[0];
    const RedisReply& last = part.elements[1];
    const RedisReply& host = part.elements[2].elements[0];
    const RedisReply& port = part.elements[2].elements[1];
    const bool in_order = first.integer >= 0 && first.integer <= last.integer;
    if (first.kind != RedisReply::Kind::kInteger || last.kind != RedisReply::Kind::kInteger ||
        port.kind != RedisReply::Kind::kInteger || !in_order || last.integer >= kRedisSlotCount ||
        port.integer < 0 || port.integer > kMaxPort) {
      return NotSlots();
    }
    // A node that cannot be reached over this kind of connection.
    if (port.integer == 0) continue;
    const bool is_unknown = host.text.empty() || host.text == "?";
    ranges.push_back({static_cast<int>(first.integer),
                      static_cast<int>(last.integer),
                      {is_unknown ? asked.host : host.text, static_cast<int>(port.integer)}});
  }
  return ranges;
}

std::vector<std::string> NodeIdsOf(const RedisReply& reply) {
  std::vector<std::string> ids;
  for (const RedisReply& range : reply.elements) {
    // First and last slot, then the master and its replicas: host, port and id of each.
    for (std::size_t at = 2; at < range.elements.size(); ++at) {
      const std::vector<RedisReply>& node = range.elements[at].elements;
      if (node.size() > 2 && !node[2].text.empty()) ids.push_back(node[2].text);
    }
  }
  return ids;
}

bool IsOfSingle(const RedisReply& reply) {
  return reply.kind == RedisReply::Kind::kError && reply.text.find(kNoCluster) != std::string::npos;
}

RedisErrorMeaning MeaningOf(std::string_view error, const RedisAddress& asked) {
  using Action = RedisErrorMeaning::Action;
  const std::string_view word = error.substr(0, error.find(' '));
  if (word == "MOVED" || word == "ASK") {
    const auto target = ParseTarget(error.substr(error.rfind(' ') + 1), asked);
    if (!target.has_value()) return {Action::kRetry, {}};
    return {word == "MOVED" ? Action::kMoved : Action::kAsk, *target};
  }
  for (const std::string_view passing : {"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN",
                                         "READONLY", "UNBLOCKED", "NOREPLICAS", "BUSY"}) {
    if (word == passing) return {Action::kRetry, {}};
  }
  // Said instead of an answer when it takes no more connections.
  if (error.starts_with("ERR max number of clients")) return {Action::kRetry, {}};
  for (const std::string_view forbidden : {"NOAUTH", "WRONGPASS", "NOPERM", "DENIED"}) {
    if (word == forbidden) return {Action::kForbidden, {}};
  }
  return {};
}

}  // namespace kerf
