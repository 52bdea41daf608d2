#include "server/net/shared_memories.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <cstring>
#include <utility>

namespace kerf {
namespace {

constexpr std::size_t kNumberBytes = sizeof(std::uint64_t);

std::uint64_t NumberOf(const std::uint8_t* token) {
  std::uint64_t number = 0;
  std::memcpy(&number, token, kNumberBytes);
  return number;
}

}  // namespace

std::optional<SharedMemories::Token> SharedMemories::Add(ForeignMemory memory) {
  Token token{};
  if (RAND_bytes(token.data() + kNumberBytes, static_cast<int>(token.size() - kNumberBytes)) != 1) {
    return std::nullopt;
  }
  auto shared = std::make_shared<const ForeignMemory>(std::move(memory));
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= max_count_) return std::nullopt;
  const std::uint64_t number = next_number_++;
  std::memcpy(token.data(), &number, kNumberBytes);
  entries_.emplace(number, Entry{token, std::move(shared)});
  return token;
}

void SharedMemories::Remove(const Token& token) {
  const std::lock_guard lock(mutex_);
  entries_.erase(NumberOf(token.data()));
}

std::shared_ptr<const ForeignMemory> SharedMemories::Find(std::string_view token) const {
  if (token.size() != kSharedMemoryTokenBytes) return nullptr;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(token.data());
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(NumberOf(bytes));
  if (found == entries_.end()) return nullptr;
  const Entry& entry = found->second;
  return CRYPTO_memcmp(bytes, entry.token.data(), entry.token.size()) == 0 ? entry.memory : nullptr;
}

std::size_t SharedMemories::count() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace kerf
