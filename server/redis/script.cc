#include "server/redis/script.h"

#include <openssl/sha.h>

#include "base/hex.h"
#include "base/strings.h"

namespace kerf {
namespace {

std::string Sha1Hex(std::string_view text) {
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return HexOf(digest);
}

RedisCommand CommandOf(std::string_view verb, const std::string& script, const ScriptCall& call,
                       int replica_count, bool waits_for_slot) {
  RedisCommand command;
  command.key = call.keys.front();
  command.arguments = {std::string(verb), script, Cat(call.keys.size())};
  command.arguments.insert(command.arguments.end(), call.keys.begin(), call.keys.end());
  command.arguments.insert(command.arguments.end(), call.arguments.begin(), call.arguments.end());
  command.replica_count = replica_count;
  command.waits_for_slot = waits_for_slot;
  return command;
}

bool IsUnknownScript(const absl::StatusOr<RedisReply>& reply) {
  return reply.ok() && reply->kind == RedisReply::Kind::kError &&
         reply->text.starts_with("NOSCRIPT");
}

}  // namespace

Task<RedisReplies> RunScript(RedisClient& client, std::string_view script,
                             std::vector<ScriptCall> calls, int replica_count,
                             bool waits_for_slots) {
  const std::string hash = Sha1Hex(script);
  std::vector<RedisCommand> commands;
  commands.reserve(calls.size());
  for (const ScriptCall& call : calls) {
    commands.push_back(CommandOf("EVALSHA", hash, call, replica_count, waits_for_slots));
  }
  SendAll first(client, std::move(commands));
  RedisReplies replies = co_await first;
  std::vector<std::size_t> unknown;
  std::vector<RedisCommand> again;
  const std::string whole(script);
  for (std::size_t index = 0; index < replies.size(); ++index) {
    if (!IsUnknownScript(replies[index])) continue;
    unknown.push_back(index);
    again.push_back(CommandOf("EVAL", whole, calls[index], replica_count, waits_for_slots));
  }
  SendAll second(client, std::move(again));
  RedisReplies late = co_await second;
  for (std::size_t index = 0; index < unknown.size(); ++index) {
    replies[unknown[index]] = std::move(late[index]);
  }
  co_return replies;
}

}  // namespace kerf
