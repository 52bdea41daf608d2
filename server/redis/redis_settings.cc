#include "server/redis/redis_settings.h"

namespace kerf {
namespace {

constexpr std::uint64_t kMaxExpectedChunks = 1'000'000'000'000;

}  // namespace

void AddRedisSettings(OptionSet& options, RedisSettings& settings) {
  options.AddList(
      {"redis",
       "Keep the index in this Redis, or in the cluster that it is a node of: HOST:PORT; may be "
       "repeated",
       "ADDRESS"},
      settings.seeds, ParseRedisAddress);
  options.AddText({"redis-user", "Who kerfd is to Redis (ACL); default user if empty"},
                  settings.user);
  options.AddText(
      {"redis-password-file", "The first line of this file is the password for Redis", "FILE"},
      settings.password_file);
  options.AddText(
      {"redis-tls-ca",
       "Speak TLS 1.3 to Redis, whose certificates have to be of one of these CAs (PEM) "
       "and of the host by which --redis, or the cluster itself, calls each node; "
       "--tls-cert is shown to it. Read anew when it changes",
       "FILE"},
      settings.tls_ca);
  options.AddText(
      {"redis-tls-name",
       "The certificates of all nodes of Redis have to be of this name (in the place of "
       "the host)",
       "NAME"},
      settings.tls_name);
  options.AddNumber(
      {"redis-replicas",
       "Replicas of Redis that must have a commit before it is answered; 0 for a Redis that has "
       "none"},
      settings.replica_count, 0, 100);
  options.AddNumber(
      {"redis-expected-chunks",
       "How many chunks a repository will have: its parts in Redis are split at first as far as "
       "that needs (into at most 262,144 buckets of 130 bytes each), and further as they grow"},
      settings.expected_chunk_count, 0, kMaxExpectedChunks);
  options.AddNumber(
      {"redis-layout",
       "How new repositories lie in Redis; 1: as kerfd 0.1.0 knows them (106 KB each), and those "
       "of 2 are turned into such, to go on with it or back to it; 3: so that epochs and "
       "statistics cost no more the more chunks there are; no earlier kerfd reads those, and "
       "nothing turns them back"},
      settings.layout, 1, 3);
}

}  // namespace kerf
