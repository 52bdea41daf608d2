// A real Redis, or a cluster of them, for one test: tools/redis-cluster.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/tls/testing/test_certificates.h"
#include "server/redis/redis_client.h"

namespace kerf {

// Starts in its constructor and ends in its destructor; dies with a message if it cannot.
class TestRedis {
 public:
  enum class Kind {
    kSingle,
    // Three masters with a replica each.
    kCluster,
  };
  // Redis' `appendfsync`: with kEverySecond a node that is killed while its disk is busy has
  // forgotten up to two seconds of what it has answered.
  enum class Log { kEverySecond, kAlways };
  // A node of a cluster that is silent for `node_timeout_ms` is taken for dead by the others.
  // With kYes the nodes speak TLS alone, to each other, too, and ask clients for certificates.
  enum class Tls { kNo, kYes };
  explicit TestRedis(Kind kind, const std::string& password = "", int node_timeout_ms = 2000,
                     Log log = Log::kEverySecond, Tls tls = Tls::kNo);
  TestRedis(const TestRedis&) = delete;
  TestRedis& operator=(const TestRedis&) = delete;
  ~TestRedis();

  const std::vector<RedisAddress>& addresses() const { return addresses_; }
  // With these addresses as seeds; who comes with them may do everything.
  RedisOptions options() const;
  // The same as the user that kerfd is where it is deployed: what its rules
  // (deploy/components/redis) do not allow is denied.
  RedisOptions options_of_kerfd() const;

  // Of a client of it, with TLS: they may be changed. Its nodes' own are NAME.pem, NAME.key of
  // TlsFolder with NAME "redis".
  TlsFiles tls_files() const;
  std::string TlsFolder() const { return folder_ + "/tls"; }

  // Removes all keys of all nodes.
  void Flush() { TellMasters({"FLUSHALL"}); }
  // Each master takes the command.
  void TellMasters(const std::vector<std::string>& command);

  // A verb of tools/redis-cluster with its arguments, such as {"kill", "2"}; what it prints.
  std::string Do(const std::vector<std::string>& verb);
  // The same; whether it went well.
  bool Try(const std::vector<std::string>& verb, std::string& output);

  // Whether, within `patience`, a replica has taken over from each master that was killed.
  bool WaitUntilReplaced(std::chrono::seconds patience);

  // Where node `number` keeps its files; they may be changed while it is killed.
  std::string NodeFolder(int number) const;

 private:
  std::string folder_;
  std::string password_;
  std::vector<RedisAddress> addresses_;
  Tls tls_;
};

}  // namespace kerf
