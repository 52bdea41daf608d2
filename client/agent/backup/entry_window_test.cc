#include "client/agent/backup/entry_window.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace kerf::agent {
namespace {

BackupEntry EntryOf(const std::string& path, std::size_t chunk_count) {
  BackupEntry entry;
  entry.tree.node.path = path;
  entry.tree.recipe.resize(chunk_count);
  return entry;
}

TEST(EntryWindowTest, GivesEntriesInOrderAndOnlyCompleteOnes) {
  EntryWindow window;
  EntryWindow::Slot* const first = window.Push(EntryOf("a", 0), 2);
  window.Push(EntryOf("b", 0), 0);
  EXPECT_EQ(window.Pop(false), nullptr);
  window.CompleteParts(first, 1);
  EXPECT_EQ(window.Pop(false), nullptr) << "a part is missing";
  window.DropParts(first, 1);
  EXPECT_EQ(window.Pop(true)->state, EntryWindow::State::kDropped);
  EXPECT_EQ(window.Pop(true)->entry.tree.node.path, "b");
  EXPECT_EQ(window.Pop(true), nullptr);
}

// What they take in memory, behind one that takes long.
TEST(EntryWindowTest, CountsWhatIsInItsEntries) {
  constexpr std::uint64_t kChunk = sizeof(ChunkRef);
  EntryWindow window;
  EntryWindow::Slot* const uploaded = window.Push(EntryOf("a", 0), 1);
  window.Push(EntryOf("b", 5), 0);
  EXPECT_EQ(window.memory_bytes(), 2 + 5 * kChunk);
  uploaded->entry.tree.recipe.resize(3);
  window.CompleteParts(uploaded, 1);
  EXPECT_EQ(window.memory_bytes(), 2 + 8 * kChunk);
  std::unique_ptr<EntryWindow::Slot> again = window.Pop(true);
  EXPECT_EQ(window.memory_bytes(), 1 + 5 * kChunk);
  EntryWindow::Slot* const put_back = window.PutBack(std::move(again), 1);
  EXPECT_EQ(window.memory_bytes(), 2 + 8 * kChunk);
  put_back->entry.tree.recipe.clear();
  window.DropParts(put_back, 1);
  EXPECT_EQ(window.memory_bytes(), 2 + 5 * kChunk);
  for (int left = 2; left > 0; --left) EXPECT_NE(window.Pop(true), nullptr);
  EXPECT_EQ(window.memory_bytes(), 0u);
}

TEST(EntryWindowTest, WhatAnEntryTakesIsMoreThanItsChunks) {
  BackupEntry entry = EntryOf("name", 0);
  entry.tree.node.link_target = std::string(4000, 'x');
  EXPECT_EQ(MemoryOf(entry), 4004u);
  entry.tree.node.xattrs = {{"user.n", std::string(60'000, 'x')}};
  EXPECT_GE(MemoryOf(entry), 64'000u);
  const std::uint64_t before = MemoryOf(entry);
  entry.tree.node.extents.resize(1000);
  EXPECT_EQ(MemoryOf(entry), before + 1000 * sizeof(Extent));
}

}  // namespace
}  // namespace kerf::agent
