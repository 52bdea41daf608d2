#include "server/redis/testing/test_redis.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/check.h"
#include "base/strings.h"

namespace kerf {
namespace {

// Bazel's tests begin at the top of the workspace.
constexpr char kTool[] = "tools/redis-cluster";

}  // namespace

TestRedis::TestRedis(Kind kind, const std::string& password) : password_(password) {
  const char* base = std::getenv("TEST_TMPDIR");
  folder_ = Cat(base != nullptr ? base : "/tmp", "/redis-XXXXXX");
  KERF_CHECK(mkdtemp(folder_.data()) != nullptr);
  std::string verb = kind == Kind::kSingle ? "up --masters 1 --replicas 0 --single" : "up";
  if (!password.empty()) {
    std::ofstream(folder_ + "/password") << password << "\n";
    verb += Cat(" --password-file '", folder_, "/password'");
  }
  std::istringstream addresses(Do(verb));
  std::string address;
  while (std::getline(addresses, address, ',')) {
    address.erase(address.find_last_not_of('\n') + 1);
    addresses_.push_back(*ParseRedisAddress(address));
  }
  KERF_CHECK(!addresses_.empty());
}

TestRedis::~TestRedis() {
  std::string output;
  if (!Try("down", output)) std::fprintf(stderr, "tools/redis-cluster down: %s\n", output.c_str());
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

RedisOptions TestRedis::options() const {
  RedisOptions options;
  options.seeds = addresses_;
  options.password = password_;
  return options;
}

bool TestRedis::Try(const std::string& verb, std::string& output) {
  const std::string out = folder_ + "/output";
  const std::string command =
      Cat(kTool, " --dir '", folder_, "/nodes' ", verb, " > '", out, "' 2>&1");
  const int status = std::system(command.c_str());
  std::ifstream file(out, std::ios::binary);
  output = {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return status == 0;
}

std::string TestRedis::Do(const std::string& verb) {
  std::string output;
  if (!Try(verb, output)) {
    std::fprintf(stderr, "%s %s: %s\n", kTool, verb.c_str(), output.c_str());
    std::abort();
  }
  return output;
}

}  // namespace kerf
