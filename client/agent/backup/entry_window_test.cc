#include "client/agent/backup/entry_window.h"

#include <gtest/gtest.h>

#include <string>

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
TEST(EntryWindowTest, CountsTheChunksOfItsRecipes) {
  EntryWindow window;
  EntryWindow::Slot* const uploaded = window.Push(EntryOf("a", 0), 1);
  window.Push(EntryOf("b", 5), 0);
  EXPECT_EQ(window.chunk_count(), 5u);
  uploaded->entry.tree.recipe.resize(3);
  window.CompleteParts(uploaded, 1);
  EXPECT_EQ(window.chunk_count(), 8u);
  EXPECT_NE(window.Pop(true), nullptr);
  EXPECT_EQ(window.chunk_count(), 5u);
  EXPECT_NE(window.Pop(true), nullptr);
  EXPECT_EQ(window.chunk_count(), 0u);
}

}  // namespace
}  // namespace kerf::agent
