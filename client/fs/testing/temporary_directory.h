// A directory of a test, gone with all that is in it at the end.
#pragma once

#include <climits>
#include <cstdlib>
#include <string>

#include "base/check.h"
#include "client/fs/testing/compare_trees.h"

namespace kerf::agent::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() : TemporaryDirectory(TestParent()) {}
  // In a directory of the caller's choice.
  explicit TemporaryDirectory(const std::string& parent) : path_(parent + "/kerf.XXXXXX") {
    KERF_CHECK(mkdtemp(path_.data()) != nullptr);
    // Scanned paths have no symlinks.
    char resolved[PATH_MAX];
    KERF_CHECK(realpath(path_.c_str(), resolved) != nullptr);
    path_ = resolved;
  }
  ~TemporaryDirectory() { RemoveTree(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // As a snapshot names it.
  std::string NodePath(const std::string& name) const { return (*this / name).substr(1); }

 private:
  static std::string TestParent() {
    const char* parent = std::getenv("TEST_TMPDIR");
    return parent == nullptr ? "/tmp" : parent;
  }

  std::string path_;
};

}  // namespace kerf::agent::testing
