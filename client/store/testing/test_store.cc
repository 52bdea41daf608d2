#include "client/store/testing/test_store.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/store/format/tree_codec.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/snapshots/roots.h"

namespace kerf::agent {
namespace {

constexpr char kMemoryFolder[] = "/dev/shm";
constexpr DigestAlgorithm kAlgorithm = DigestAlgorithm::kBlake3;
constexpr std::size_t kDigestBytes = 32;
// Small, so that a small tree has several metadata chunks.
constexpr std::size_t kMetadataChunkBytes = 200;

std::span<const std::uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::vector<ChunkRef> Cut(const std::vector<std::uint8_t>& stream,
                          std::vector<std::string>& chunks) {
  std::vector<ChunkRef> recipe;
  for (std::size_t offset = 0; offset < stream.size(); offset += kMetadataChunkBytes) {
    const std::size_t end = std::min(stream.size(), offset + kMetadataChunkBytes);
    chunks.emplace_back(stream.begin() + static_cast<std::ptrdiff_t>(offset),
                        stream.begin() + static_cast<std::ptrdiff_t>(end));
    recipe.push_back(RefOf(chunks.back()));
  }
  return recipe;
}

absl::Status ReadAll(const store::v1::Snapshot& snapshot, ChunkReader& reader) {
  absl::Status missing;
  KERF_RETURN_IF_ERROR(VisitSnapshot(
      snapshot, kDigestBytes, reader,
      [&](const ChunkRef& chunk) {
        if (missing.ok()) missing = reader.Read(chunk).status();
      },
      EntryVisitor()));
  return missing;
}

}  // namespace

TemporaryFolder::TemporaryFolder(Place place) {
  const char* base = std::getenv("TEST_TMPDIR");
  if (place == Place::kMemory && access(kMemoryFolder, W_OK | X_OK) == 0) base = kMemoryFolder;
  path_ = Cat(base != nullptr ? base : "/tmp", "/kerf-store-XXXXXX");
  KERF_CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

TestStore::TestStore() : TestStore("") {}

TestStore::TestStore(const std::string& folder) {
  if (folder.empty()) folder_.emplace();
  auto opened = Store::OpenOrCreate((folder.empty() ? folder_->path() : folder) + "/store",
                                    "fastcdc2020:min=1,avg=2,max=3", kAlgorithm);
  KERF_CHECK(opened.ok());
  store_ = *std::move(opened);
}

PackWriterOptions TestStore::writer_options() const {
  PackWriterOptions options;
  options.packs_directory = store_->packs_directory();
  options.temporary_directory = store_->temporary_directory();
  options.digest_algorithm = kAlgorithm;
  options.compression.block_bytes = 256;
  options.thread_count = 1;
  options.on_sealed = [](const SealedPack&) {};
  return options;
}

SealedPack TestStore::WritePack(const std::vector<std::string>& chunks) {
  SealedPack result;
  PackWriterOptions options = writer_options();
  options.on_sealed = [&](SealedPack pack) { result = std::move(pack); };
  PackWriter writer(std::move(options));
  for (const std::string& chunk : chunks) {
    KERF_CHECK(writer.Add(RefOf(chunk).digest, BytesOf(chunk)).ok());
  }
  KERF_CHECK(writer.Flush().ok());
  return result;
}

store::v1::Snapshot TestStore::Describe(const FileChunks& files,
                                        std::vector<std::string>& metadata_chunks) {
  std::vector<std::uint8_t> tree;
  std::vector<std::uint8_t> identity;
  store::v1::Snapshot snapshot;
  for (const auto& [path, chunks] : files) {
    TreeEntry entry;
    entry.node.path = path;
    entry.node.mode = 0644;
    for (const std::string& chunk : chunks) {
      entry.node.size_bytes += chunk.size();
      entry.recipe.push_back(RefOf(chunk));
    }
    EncodeTreeEntry(entry, kDigestBytes, tree);
    EncodeIdentity({1, 2, {3, 4}}, identity);
    store::v1::SnapshotStats& stats = *snapshot.mutable_stats();
    stats.set_entry_count(stats.entry_count() + 1);
    stats.set_file_count(stats.file_count() + 1);
    stats.set_total_bytes(stats.total_bytes() + entry.node.size_bytes);
  }
  RecipeToProto(Cut(tree, metadata_chunks), kDigestBytes, *snapshot.mutable_tree());
  RecipeToProto(Cut(identity, metadata_chunks), kDigestBytes, *snapshot.mutable_identity());
  return snapshot;
}

store::v1::Snapshot TestStore::WriteSnapshot(const FileChunks& files) {
  std::vector<std::string> chunks;
  store::v1::Snapshot snapshot = Describe(files, chunks);
  for (const auto& [path, contents] : files) {
    chunks.insert(chunks.end(), contents.begin(), contents.end());
  }
  WritePack(chunks);
  KERF_CHECK(store_->WriteSnapshot(snapshot).ok());
  return snapshot;
}

absl::Status TestStore::Restore(const store::v1::Snapshot& snapshot) {
  ChunkIndex index(store_->packs_directory());
  KERF_RETURN_IF_ERROR(index.Refresh());
  ChunkReader reader(index, ChunkReader::Options());
  return ReadAll(snapshot, reader);
}

absl::Status TestStore::RestoreAll() {
  KERF_ASSIGN_OR_RETURN(const SnapshotList list, store_->ListSnapshots());
  if (!list.damaged.empty()) return list.damaged.front().status;
  KERF_RETURN_IF_ERROR(CheckNoneIsMissing(list));
  ChunkIndex index(store_->packs_directory());
  KERF_RETURN_IF_ERROR(index.Refresh());
  ChunkReader reader(index, ChunkReader::Options());
  for (const store::v1::Snapshot& snapshot : list.snapshots) {
    KERF_RETURN_IF_ERROR(
        Annotate(ReadAll(snapshot, reader), Cat("snapshot ", snapshot.id(), " is lost")));
  }
  return absl::OkStatus();
}

std::vector<std::string> TestStore::PackFiles() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(store_->packs_directory())) {
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  return paths;
}

ChunkRef RefOf(std::string_view chunk) {
  return {Fingerprint(kAlgorithm, BytesOf(chunk)), static_cast<std::uint32_t>(chunk.size())};
}

std::string ReadTestFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  KERF_CHECK(file.good());
  // At once: byte by byte a pack of megabytes takes seconds with a sanitizer.
  std::string bytes(static_cast<std::size_t>(file.tellg()), '\0');
  file.seekg(0);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  KERF_CHECK(file.good());
  return bytes;
}

void WriteTestFile(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  KERF_CHECK(file.good());
}

std::string OfNewerKerf(std::string_view framed_file) {
  constexpr std::size_t kVersionOffset = 8;
  std::string file(framed_file.substr(0, framed_file.size() - kDigestBytes));
  file[kVersionOffset] = 9;
  const Digest checksum = Fingerprint(DigestAlgorithm::kBlake3, BytesOf(file));
  file.append(reinterpret_cast<const char*>(checksum.bytes.data()), kDigestBytes);
  return file;
}

PackSums SumsOfTestFile(const std::string& path) {
  const std::string bytes = ReadTestFile(path);
  PackSums sums;
  sums.Add(0, {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  return sums;
}

}  // namespace kerf::agent
