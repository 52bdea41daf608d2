// An embedded index of a test, in a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/strings.h"
#include "base/units.h"
#include "server/index/index.h"
#include "server/index/rocksdb_index.h"

namespace kerf {

// Small enough that a test flushes and compacts.
inline RocksDbIndexOptions SmallRocksDbOptions() {
  return {.block_cache_bytes = kMiB, .memtable_bytes = 256 * kKiB};
}

// A folder that is gone when the object goes.
class RocksDbFolder {
 public:
  explicit RocksDbFolder(const std::string& name) : path_(PathOf(name)) {
    std::filesystem::remove_all(path_);
  }
  ~RocksDbFolder() { std::filesystem::remove_all(path_); }
  RocksDbFolder(const RocksDbFolder&) = delete;
  RocksDbFolder& operator=(const RocksDbFolder&) = delete;

  const std::string& path() const { return path_; }

  // The same in a test and in the copy of this program that a death test starts.
  static std::string PathOf(const std::string& name) {
    const char* root = std::getenv("TEST_TMPDIR");
    const std::string folder = Cat(root != nullptr ? root : "/tmp", "/kerf_rocksdb_index_test");
    std::filesystem::create_directories(folder);
    return Cat(folder, "/", name);
  }

 private:
  std::string path_;
};

inline std::unique_ptr<Index> OpenSmall(const std::string& path) {
  auto index = OpenRocksDbIndex(path, SmallRocksDbOptions());
  EXPECT_TRUE(index.ok()) << index.status();
  return index.ok() ? *std::move(index) : nullptr;
}

}  // namespace kerf
