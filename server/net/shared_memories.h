// The memory that clients of this machine share with a server, by the tokens that they were given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "base/shared_memory.h"

namespace kerf {

// Which is the one that comes with a connection (UnixAcceptor), as long as that is there. Streams
// hold what they use on their own. Thread-safe.
class SharedMemories {
 public:
  using Token = std::array<std::uint8_t, kSharedMemoryTokenBytes>;

  // So many at once.
  explicit SharedMemories(std::size_t max_count) : max_count_(max_count) {}
  SharedMemories(const SharedMemories&) = delete;
  SharedMemories& operator=(const SharedMemories&) = delete;

  // Nothing: as many as may be are there, or there are no random numbers.
  std::optional<Token> Add(ForeignMemory memory);
  void Remove(const Token& token);

  // Null: none has that token. Takes as long whatever the token is that it does not know.
  std::shared_ptr<const ForeignMemory> Find(std::string_view token) const;
  std::size_t count() const;

 private:
  struct Entry {
    Token token;
    std::shared_ptr<const ForeignMemory> memory;
  };

  const std::size_t max_count_;
  mutable std::mutex mutex_;
  std::uint64_t next_number_ = 1;
  // By the number that a token begins with, which is no secret.
  absl::flat_hash_map<std::uint64_t, Entry> entries_;
};

}  // namespace kerf
