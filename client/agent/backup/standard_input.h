// A backup of what a pipe gives, as one file.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/fs/scanner.h"

namespace kerf::agent {

// InvalidArgument unless `name` can be the name of a file at the root of a snapshot.
absl::Status CheckStreamName(const std::string& name);

// Emits one regular file of that name, of this process's user, of now, and of no size yet.
std::unique_ptr<Scanner> MakeStreamScanner(const std::string& name);

// The next bytes of `fd`, as many as come at once; 0 is the end. None if nothing comes for so long.
absl::StatusOr<std::optional<std::size_t>> ReadStream(int fd, std::span<std::uint8_t> buffer,
                                                      std::chrono::milliseconds patience);

}  // namespace kerf::agent
