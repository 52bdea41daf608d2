// A store, a folder and the verbs, for tests within one process.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "client/agent/command.h"
#include "client/cli/testing/outcome.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {

class VerbsTest : public ::testing::Test {
 protected:
  VerbsTest() {
    for (const char* name :
         {"KERF_STORE", "KERF_SERVER", "KERF_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"}) {
      unsetenv(name);
    }
    setenv("HOME", folder_.path().c_str(), 1);
  }

  Outcome Run(Arguments arguments) { return RunHere(RunCommand, std::move(arguments), cancelled_); }
  Outcome RunJson(Arguments arguments) {
    return RunJsonHere(RunCommand, std::move(arguments), cancelled_);
  }

  // With --store.
  Outcome OnStore(Arguments arguments) {
    arguments.insert(arguments.end(), {"--store", test_.directory()});
    return RunJson(std::move(arguments));
  }

  void AddSnapshot(const std::string& id, const std::string& content) {
    std::vector<std::string> chunks;
    store::v1::Snapshot snapshot = test_.Describe({{"file", {content}}}, chunks);
    snapshot.set_id(id);
    snapshot.set_started_unix_ns(++last_start_);
    test_.WritePack(chunks);
    last_pack_ =
        ChunkIndex(test_.store().packs_directory()).PackPath(test_.WritePack({content}).id);
    ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  }

  // Of f100 to f299, of which those in one chunk of the tree are lost.
  void AddDamagedTree(const std::string& id) {
    FileChunks files;
    std::vector<std::string> contents;
    for (int number = 100; number < 300; ++number) {
      contents.push_back(Cat("content of ", number));
      files[Cat("f", number)] = {contents.back()};
    }
    std::vector<std::string> chunks;
    store::v1::Snapshot snapshot = test_.Describe(files, chunks);
    snapshot.set_id(id);
    snapshot.set_started_unix_ns(++last_start_);
    // The chunks of the tree come first, in its order.
    chunks.erase(chunks.begin() + 1);
    test_.WritePack(chunks);
    test_.WritePack(contents);
    ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  }

  std::string SnapshotPath(const std::string& id) {
    return Store::SnapshotPath(test_.store().snapshots_directory(), id);
  }
  std::vector<std::string> Ids() {
    std::vector<std::string> ids;
    const auto list = test_.store().ListSnapshots();
    for (const store::v1::Snapshot& snapshot : list->snapshots) ids.push_back(snapshot.id());
    return ids;
  }
  std::string target() const { return folder_.path() + "/target"; }

  static constexpr char kFirst[] = "aaaa000000000001";
  static constexpr char kSecond[] = "aaaa000000000002";

  const TemporaryFolder folder_;
  TestStore test_;
  std::string last_pack_;
  std::atomic<bool> cancelled_ = false;

 private:
  std::int64_t last_start_ = 0;
};

}  // namespace kerf::agent
