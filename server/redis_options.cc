#include "server/redis_options.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/strings.h"

namespace kerf {
namespace {

constexpr std::size_t kMaxPasswordBytes = 1024;

absl::Status PasswordError(const std::string& path, std::string_view what) {
  return absl::FailedPreconditionError(ToAbsl(Cat("--redis-password-file ", path, ": ", what)));
}

// The first line of the file.
absl::StatusOr<std::string> ReadPassword(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return PasswordError(path, std::strerror(errno));
  struct stat info{};
  std::array<char, kMaxPasswordBytes + 2> buffer{};
  const bool is_known = fstat(file, &info) == 0;
  const ssize_t count = read(file, buffer.data(), buffer.size());
  close(file);
  if (!is_known || count < 0) return PasswordError(path, "cannot be read");
  if ((info.st_mode & (S_IRWXG | S_IRWXO) & ~S_IRGRP) != 0) {
    return PasswordError(path, "more than its owner and group may read it: chmod 0640 or less");
  }
  std::string text(buffer.data(), static_cast<std::size_t>(count));
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.empty()) return PasswordError(path, "its first line is empty");
  if (text.size() > kMaxPasswordBytes) {
    return PasswordError(path, Cat("its first line has more than ", kMaxPasswordBytes, " bytes"));
  }
  return text;
}

}  // namespace

absl::StatusOr<RedisOptions> RedisOptionsOf(const RedisSettings& settings,
                                            std::chrono::milliseconds timeout,
                                            std::shared_ptr<const TlsSource> tls) {
  RedisOptions options;
  options.seeds = settings.seeds;
  options.username = settings.user;
  options.command_timeout = timeout;
  options.tls = std::move(tls);
  options.tls_name = settings.tls_name;
  if (!settings.password_file.empty()) {
    KERF_ASSIGN_OR_RETURN(options.password, ReadPassword(settings.password_file));
  }
  return options;
}

}  // namespace kerf
