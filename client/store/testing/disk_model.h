// What a disk may hold after the power went: everything that was synced, and any part of the rest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "client/store/format/file_hook.h"

namespace kerf::agent {

// Replays file operations below one directory, which is durable from the beginning. It promises as
// little as POSIX does: each name of a directory changes on its own, so that a rename may show
// under both names, under one, or under none before both directories are synced; what was written
// and not synced may be there, be missing, be cut short, or be zeros. Not thread-safe.
class DiskModel {
 public:
  explicit DiskModel(std::string root);
  ~DiskModel();

  // Operations elsewhere, and those that fail (a name that is missing or taken), change nothing.
  void Apply(const FileOperation& operation);

  enum class Survival {
    // Only what was synced.
    kNothing,
    kEverything,
    kSome,
  };
  // Writes what has survived into `target`, an empty directory.
  void Materialise(const std::string& target, Survival survival, Random& random) const;

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;

  // Null if it is not there now.
  NodePtr Find(std::string_view path) const;
  // The directory that the entry lies in, and the entry's name; null if there is none.
  Node* Parent(std::string_view path, std::string& name) const;
  void SetEntry(std::string_view path, NodePtr node);

  const std::string root_path_;
  NodePtr root_;
};

}  // namespace kerf::agent
