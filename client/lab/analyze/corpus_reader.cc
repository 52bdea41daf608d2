#include "client/lab/analyze/corpus_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/fs/file_source.h"
#include "client/fs/os_error.h"
#include "client/fs/path.h"
#include "client/fs/scanner.h"
#include "client/lab/analyze/sample.h"

namespace kerf::agent::analyze {
namespace {

// What lies directly in the one path that was given.
constexpr std::string_view kLooseFiles = ".";
// Where there are only files in it, and not more than so many, each is a part: archives and images
// of versions.
constexpr std::size_t kMaxFileParts = 100;

struct FoundFile {
  std::string path;
  NodeIdentity identity;
  std::string part;
};

// "2.9" before "2.10".
bool ComesBefore(const std::string& left, const std::string& right) {
  return strverscmp(left.c_str(), right.c_str()) < 0;
}

// What `path` is called below `root`; its own name if it is the root.
std::string_view NameBelow(std::string_view path, std::string_view root) {
  if (path == root) return NameOf(path);
  return root.empty() ? path : path.substr(root.size() + 1);
}

class Reader {
 public:
  Reader(const ReadOptions& options, const std::atomic<bool>& cancelled, ReadProgress& progress)
      : options_(options), cancelled_(cancelled), progress_(progress) {}

  absl::StatusOr<Corpus> Read() {
    std::vector<std::pair<std::string, absl::Status>> failures;
    for (const std::string& path : options_.paths) {
      const absl::Status found = Find(path);
      if (absl::IsCancelled(found)) return found;
      if (!found.ok()) failures.emplace_back(path, found);
    }
    progress_.scan_done = true;
    if (failures.size() == options_.paths.size()) return failures.front().second;
    for (const auto& [path, status] : failures) options_.on_warning(path, status);
    if (progress_.found_bytes == 0) {
      return absl::NotFoundError(
          "there is nothing to analyze: no file with content in these paths");
    }
    return ReadFound();
  }

 private:
  absl::Status Find(const std::string& path) {
    const bool is_only = options_.paths.size() == 1;
    ScanOptions scan;
    scan.excludes = options_.excludes;
    scan.read_xattrs = false;
    scan.on_error = options_.on_warning;
    struct stat status{};
    if (lstat(path.c_str(), &status) != 0) return OsError(errno, "cannot read", path);
    KERF_ASSIGN_OR_RETURN(const std::string absolute, ResolveRoot(path));
    KERF_ASSIGN_OR_RETURN(const std::unique_ptr<Scanner> scanner, MakeScanner({path}, scan));
    const std::string_view root = std::string_view(absolute).substr(1);
    ScannedNode scanned;
    while (scanner->Next(scanned)) {
      if (cancelled_) return absl::CancelledError("interrupted");
      const Node& node = scanned.node;
      if (node.kind != NodeKind::kFile || !node.hard_link_to.empty() || node.size_bytes == 0) {
        continue;
      }
      std::string_view name = NameBelow(node.path, root);
      std::string part = path;
      if (is_only) {
        const std::size_t slash = name.find('/');
        part = slash == std::string_view::npos ? kLooseFiles : name.substr(0, slash);
        if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
      }
      found_.push_back({node.path, scanned.identity, std::move(part)});
      candidates_.push_back({std::string(name), node.size_bytes});
      ++progress_.found_files;
      progress_.found_bytes += node.size_bytes;
    }
    return absl::OkStatus();
  }

  // In the order of the paths, or of the names of folders.
  std::vector<std::string> Parts() const {
    if (options_.paths.size() > 1) return options_.paths;
    std::vector<std::string> parts;
    parts.reserve(found_.size());
    for (const FoundFile& file : found_) parts.push_back(file.part);
    std::sort(parts.begin(), parts.end(), ComesBefore);
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    return parts;
  }

  void PartLooseFiles() {
    const bool all_loose = std::all_of(found_.begin(), found_.end(), [](const FoundFile& file) {
      return file.part == kLooseFiles;
    });
    if (!all_loose || found_.size() > kMaxFileParts) return;
    for (std::size_t index = 0; index < found_.size(); ++index) {
      found_[index].part = candidates_[index].name;
    }
  }

  absl::StatusOr<Corpus> ReadFound() {
    Corpus corpus;
    if (options_.paths.size() == 1) PartLooseFiles();
    corpus.parts = Parts();
    corpus.found_bytes = progress_.found_bytes;
    corpus.found_file_count = progress_.found_files;
    const std::vector<std::uint64_t> taken =
        ChooseSample(candidates_, options_.max_bytes, options_.seed);
    std::uint64_t total_bytes = 0;
    std::vector<std::vector<std::size_t>> by_part(corpus.parts.size());
    std::map<std::string_view, std::size_t> numbers;
    for (std::size_t part = 0; part < corpus.parts.size(); ++part) {
      numbers.try_emplace(corpus.parts[part], part);
    }
    for (std::size_t index = 0; index < found_.size(); ++index) {
      total_bytes += taken[index];
      if (taken[index] > 0) by_part[numbers[found_[index].part]].push_back(index);
    }
    progress_.found_bytes = total_bytes;
    // Not set to zero: who reads a page first takes it.
    corpus.content = std::make_unique_for_overwrite<std::uint8_t[]>(total_bytes);
    for (std::uint32_t part = 0; part < by_part.size(); ++part) {
      for (const std::size_t index : by_part[part]) {
        if (cancelled_) return absl::CancelledError("interrupted");
        if (taken[index] < candidates_[index].size_bytes) ++corpus.shortened_file_count;
        const absl::Status read = ReadOne(found_[index], taken[index], part, corpus);
        if (!read.ok()) options_.on_warning(AbsolutePath(found_[index].path), read);
        ++progress_.done_files;
      }
    }
    if (corpus.size_bytes > 0) return corpus;
    return absl::NotFoundError("there is nothing to analyze: none of the files could be read");
  }

  // Appends what can be read; nothing if that fails.
  absl::Status ReadOne(const FoundFile& file, std::uint64_t length_bytes, std::uint32_t part,
                       Corpus& corpus) {
    KERF_ASSIGN_OR_RETURN(FileSource source, FileSource::Open(file.path, file.identity));
    const std::span room(corpus.content.get() + corpus.size_bytes, length_bytes);
    std::uint64_t got = 0;
    constexpr std::uint64_t kStepBytes = 8 << 20;
    while (got < room.size() && !cancelled_) {
      const auto piece = room.subspan(got, std::min(kStepBytes, room.size() - got));
      KERF_ASSIGN_OR_RETURN(const std::size_t count, source.Read(piece));
      got += count;
      progress_.done_bytes += count;
      if (count < piece.size()) break;
    }
    if (got == 0) return absl::OkStatus();
    corpus.files.push_back({corpus.size_bytes, got, part});
    corpus.size_bytes += got;
    return absl::OkStatus();
  }

  const ReadOptions& options_;
  const std::atomic<bool>& cancelled_;
  ReadProgress& progress_;
  // Of the same index.
  std::vector<FoundFile> found_;
  std::vector<SampleCandidate> candidates_;
};

}  // namespace

absl::StatusOr<Corpus> ReadCorpus(const ReadOptions& options, const std::atomic<bool>& cancelled,
                                  ReadProgress& progress) {
  return Reader(options, cancelled, progress).Read();
}

}  // namespace kerf::agent::analyze
