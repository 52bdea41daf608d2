#include "client/store/testing/disk_model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/strings.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

struct Write {
  std::uint64_t offset = 0;
  std::string bytes;
};

void WriteInto(std::string& content, std::uint64_t offset, std::string_view bytes) {
  content.resize(std::max<std::size_t>(content.size(), offset + bytes.size()));
  std::copy(bytes.begin(), bytes.end(), content.begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace

struct DiskModel::Node {
  bool directory = false;
  // Of files: what is durable, and what was written since.
  std::string content;
  std::vector<Write> pending;
  // Of directories: what each name stood for, the durable state first and that of now last.
  std::map<std::string, std::vector<NodePtr>, std::less<>> entries;

  void Sync() {
    for (const Write& write : pending) WriteInto(content, write.offset, write.bytes);
    pending.clear();
    for (auto& [name, states] : entries) states.erase(states.begin(), states.end() - 1);
  }

  std::string Survived(Survival survival, Random& random) const {
    std::string result = content;
    for (const Write& write : pending) {
      std::string bytes = write.bytes;
      switch (survival == Survival::kSome ? random.Below(4) : survival == Survival::kEverything) {
        case 0:
          continue;
        case 1:
          break;
        case 2:
          bytes.resize(random.Below(bytes.size() + 1));
          break;
        default:
          bytes.assign(bytes.size(), '\0');
      }
      WriteInto(result, write.offset, bytes);
    }
    return result;
  }

  void Materialise(const std::string& path, Survival survival, Random& random) const {
    if (!directory) return WriteTestFile(path, Survived(survival, random));
    std::filesystem::create_directory(path);
    for (const auto& [name, states] : entries) {
      std::size_t state = 0;
      if (survival == Survival::kEverything) state = states.size() - 1;
      if (survival == Survival::kSome) state = random.Below(states.size());
      if (states[state] != nullptr) {
        states[state]->Materialise(Cat(path, "/", name), survival, random);
      }
    }
  }
};

DiskModel::DiskModel(std::string root)
    : root_path_(std::move(root)), root_(std::make_shared<Node>()) {
  root_->directory = true;
}

DiskModel::~DiskModel() = default;

DiskModel::NodePtr DiskModel::Find(std::string_view path) const {
  if (path == root_path_) return root_;
  std::string name;
  const Node* parent = Parent(path, name);
  if (parent == nullptr) return nullptr;
  const auto found = parent->entries.find(name);
  return found == parent->entries.end() ? nullptr : found->second.back();
}

DiskModel::Node* DiskModel::Parent(std::string_view path, std::string& name) const {
  if (!path.starts_with(root_path_) || path.size() <= root_path_.size()) return nullptr;
  const std::size_t slash = path.rfind('/');
  name = path.substr(slash + 1);
  const NodePtr parent = Find(path.substr(0, slash));
  return parent != nullptr && parent->directory ? parent.get() : nullptr;
}

void DiskModel::SetEntry(std::string_view path, NodePtr node) {
  std::string name;
  Node* const parent = Parent(path, name);
  if (parent == nullptr) return;
  std::vector<NodePtr>& states = parent->entries[name];
  if (states.empty()) states.push_back(nullptr);
  states.push_back(std::move(node));
}

void DiskModel::Apply(const FileOperation& operation) {
  const NodePtr node = Find(operation.path);
  switch (operation.kind) {
    case FileOperation::Kind::kCreate:
    case FileOperation::Kind::kMakeDirectory: {
      if (node != nullptr) return;
      auto created = std::make_shared<Node>();
      created->directory = operation.kind == FileOperation::Kind::kMakeDirectory;
      return SetEntry(operation.path, std::move(created));
    }
    case FileOperation::Kind::kWrite:
      if (node == nullptr) return;
      node->pending.push_back(
          {operation.offset, std::string(operation.bytes.begin(), operation.bytes.end())});
      return;
    case FileOperation::Kind::kSync:
    case FileOperation::Kind::kSyncDirectory:
      if (node != nullptr) node->Sync();
      return;
    case FileOperation::Kind::kRename:
      if (node == nullptr) return;
      SetEntry(operation.path, nullptr);
      return SetEntry(operation.to, node);
    case FileOperation::Kind::kLink:
      if (node == nullptr || Find(operation.to) != nullptr) return;
      return SetEntry(operation.to, node);
    case FileOperation::Kind::kRemove:
      if (node == nullptr) return;
      return SetEntry(operation.path, nullptr);
    case FileOperation::Kind::kListDirectory:
    case FileOperation::Kind::kLook:
    case FileOperation::Kind::kOpen:
    case FileOperation::Kind::kRead:
      return;
  }
}

void DiskModel::Materialise(const std::string& target, Survival survival, Random& random) const {
  root_->Materialise(target, survival, random);
}

}  // namespace kerf::agent
