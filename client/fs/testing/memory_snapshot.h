// A tree read into memory by scanner and file source, and restored from there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/fs/file_source.h"
#include "client/fs/restorer.h"
#include "client/fs/scanner.h"

namespace kerf::agent::testing {

// Gives bytes in slices of at most `slice_bytes`, then `end`.
class MemoryContent : public FileContent {
 public:
  explicit MemoryContent(std::vector<std::uint8_t> bytes, std::size_t slice_bytes = 8192,
                         absl::Status end = absl::OkStatus())
      : bytes_(std::move(bytes)), slice_bytes_(slice_bytes), end_(std::move(end)) {}

  absl::StatusOr<std::span<const std::uint8_t>> Next() override {
    const std::size_t count = std::min(slice_bytes_, bytes_.size() - position_);
    if (count == 0 && !end_.ok()) return end_;
    position_ += count;
    return std::span<const std::uint8_t>(bytes_).subspan(position_ - count, count);
  }

 private:
  const std::vector<std::uint8_t> bytes_;
  const std::size_t slice_bytes_;
  const absl::Status end_;
  std::size_t position_ = 0;
};

struct MemoryNode {
  Node node;
  NodeIdentity identity;
  std::vector<std::uint8_t> content;
};

struct MemorySnapshot {
  std::vector<MemoryNode> nodes;
  // "path: status"
  std::vector<std::string> errors;

  const MemoryNode* Find(std::string_view path) const {
    for (const MemoryNode& node : nodes) {
      if (node.node.path == path) return &node;
    }
    return nullptr;
  }
};

inline absl::Status ReadContent(MemoryNode& entry) {
  absl::StatusOr<FileSource> source = FileSource::Open(entry.node.path, entry.identity);
  if (!source.ok()) return source.status();
  std::vector<std::uint8_t> buffer(100'000);
  while (true) {
    const absl::StatusOr<std::size_t> count = source->Read(buffer);
    if (!count.ok()) return count.status();
    if (*count == 0) break;
    entry.content.insert(entry.content.end(), buffer.begin(),
                         buffer.begin() + static_cast<std::ptrdiff_t>(*count));
  }
  const absl::StatusOr<bool> changed = source->Finish();
  if (!changed.ok()) return changed.status();
  source->Describe(entry.node, entry.identity);
  return *changed ? absl::AbortedError("it changed while it was read") : absl::OkStatus();
}

inline MemorySnapshot TakeSnapshot(const std::vector<std::string>& roots,
                                   ScanOptions options = {}) {
  MemorySnapshot snapshot;
  options.on_error = [&](const std::string& path, const absl::Status& status) {
    snapshot.errors.push_back(path + ": " + status.ToString());
  };
  auto scanner = MakeScanner(roots, std::move(options));
  if (!scanner.ok()) {
    snapshot.errors.push_back(scanner.status().ToString());
    return snapshot;
  }
  ScannedNode scanned;
  while ((*scanner)->Next(scanned)) {
    MemoryNode entry{scanned.node, scanned.identity, {}};
    if (entry.node.kind == NodeKind::kFile && entry.node.hard_link_to.empty()) {
      if (const absl::Status status = ReadContent(entry); !status.ok()) {
        snapshot.errors.push_back(entry.node.path + ": " + status.ToString());
        (*scanner)->ForgetHardLink(scanned.identity);
        continue;
      }
    }
    snapshot.nodes.push_back(std::move(entry));
  }
  return snapshot;
}

struct RestoreReport {
  RestoreSummary summary;
  // "path: status"
  std::vector<std::string> errors;
};

inline RestoreReport RestoreAll(const std::vector<MemoryNode>& nodes, const std::string& target,
                                OverwritePolicy overwrite = OverwritePolicy::kRefuse,
                                RestoreOptions options = {}) {
  RestoreReport report;
  options.overwrite = overwrite;
  // The machine's disk has other work; the test's own calls cost nothing.
  options.sync = options.durability != nullptr;
  options.thread_count = 3;
  options.on_error = [&](const std::string& path, const absl::Status& status) {
    report.errors.push_back(path + ": " + status.ToString());
  };
  auto restorer = MakeRestorer(target, std::move(options));
  if (!restorer.ok()) {
    report.errors.push_back(restorer.status().ToString());
    return report;
  }
  for (const MemoryNode& entry : nodes) {
    (*restorer)->Add(entry.node, std::make_unique<MemoryContent>(entry.content));
  }
  report.summary = (*restorer)->Finish(false);
  return report;
}

}  // namespace kerf::agent::testing
