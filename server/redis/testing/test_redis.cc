#include "server/redis/testing/test_redis.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "base/strings.h"

namespace kerf {
namespace {

// Bazel's tests begin at the top of the workspace.
constexpr char kTool[] = "tools/redis-cluster";

}  // namespace

TestRedis::TestRedis(Kind kind, const std::string& password, int node_timeout_ms, Log log, Tls tls)
    : password_(password), tls_(tls) {
  const char* base = std::getenv("TEST_TMPDIR");
  folder_ = Cat(base != nullptr ? base : "/tmp", "/redis-XXXXXX");
  KERF_CHECK(mkdtemp(folder_.data()) != nullptr);
  std::vector<std::string> verb = {"up", "--node-timeout-ms", std::to_string(node_timeout_ms)};
  if (log == Log::kAlways) verb.insert(verb.end(), {"--appendfsync", "always"});
  if (kind == Kind::kSingle) {
    verb.insert(verb.end(), {"--masters", "1", "--replicas", "0", "--single"});
  }
  if (tls == Tls::kYes) {
    const TestCertificates& all = TestCertificates::Get();
    std::filesystem::create_directory(TlsFolder());
    WriteTlsFile(TlsFolder() + "/ca.pem", all.ca.certificate);
    WriteTlsFiles(TlsFolder(), "redis", all.Of("redis", {"127.0.0.1", "redis.test"}, true, true));
    WriteTlsFiles(TlsFolder(), "client", all.client);
    verb.insert(verb.end(), {"--tls", TlsFolder()});
  }
  if (!password.empty()) {
    std::ofstream(folder_ + "/password") << password << "\n";
    verb.insert(verb.end(), {"--password-file", folder_ + "/password"});
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
  if (!Try({"down"}, output))
    std::fprintf(stderr, "tools/redis-cluster down: %s\n", output.c_str());
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

bool TestRedis::WaitUntilReplaced(std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  do {
    const std::string status = Do({"status"});
    if (status.find("failed master") != std::string::npos &&
        status.find("NOT whole") == std::string::npos) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

std::string TestRedis::NodeFolder(int number) const { return Cat(folder_, "/nodes/node", number); }

RedisOptions TestRedis::options() const {
  RedisOptions options;
  options.seeds = addresses_;
  options.password = password_;
  if (tls_ == Tls::kYes) {
    auto source = TlsSource::Open({.side = TlsRules::Side::kClient, .files = tls_files()}, nullptr);
    KERF_CHECK(source.ok());
    options.tls = *std::move(source);
  }
  return options;
}

TlsFiles TestRedis::tls_files() const {
  return {.certificate = TlsFolder() + "/client.pem",
          .key = TlsFolder() + "/client.key",
          .ca = TlsFolder() + "/ca.pem"};
}

RedisOptions TestRedis::options_of_kerfd() const {
  RedisOptions options = TestRedis::options();
  options.username = "kerfd";
  // Where there is none, each will do, but without one kerfd would not say who it is.
  if (options.password.empty()) options.password = "any";
  return options;
}

void TestRedis::TellMasters(const std::vector<std::string>& command) {
  const auto client = RedisClient::Create(options());
  KERF_CHECK(client.ok());
  std::promise<std::vector<RedisAddress>> answer;
  (*client)->ReadMasters([&](const auto& masters) { answer.set_value(masters.value()); });
  for (const RedisAddress& master : answer.get_future().get()) {
    std::promise<bool> taken;
    (*client)->Send({"", master, command}, [&](const auto& reply) {
      taken.set_value(reply.ok() && reply->kind != RedisReply::Kind::kError);
    });
    KERF_CHECK(taken.get_future().get());
  }
}

bool TestRedis::Try(const std::vector<std::string>& verb, std::string& output) {
  std::vector<std::string> arguments = {kTool, "--dir", folder_ + "/nodes"};
  arguments.insert(arguments.end(), verb.begin(), verb.end());
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string out = folder_ + "/output";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  KERF_CHECK(posix_spawn(&pid, kTool, &actions, nullptr, argv.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  KERF_CHECK(waitpid(pid, &status, 0) == pid);
  std::ifstream file(out, std::ios::binary);
  output = {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string TestRedis::Do(const std::vector<std::string>& verb) {
  std::string output;
  if (!Try(verb, output)) {
    std::fprintf(stderr, "%s %s: %s\n", kTool, verb.front().c_str(), output.c_str());
    std::abort();
  }
  return output;
}

}  // namespace kerf
