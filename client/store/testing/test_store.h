// A store in a temporary folder, and short ways to put things into it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/store/format/chunk_ref.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/pack_writer.h"
#include "client/store/parity/pack_sums.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// A folder that goes with the object: below TEST_TMPDIR, or for simulations of many small files in
// memory where the machine has such a place.
class TemporaryFolder {
 public:
  enum class Place { kTestFolder, kMemory };
  explicit TemporaryFolder(Place place = Place::kTestFolder);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The files of a made-up snapshot: the contents of their chunks, by path. Paths have no '/'.
using FileChunks = std::map<std::string, std::vector<std::string>>;

class TestStore {
 public:
  TestStore();
  // In `folder`, which stays; made there if it is not there yet.
  explicit TestStore(const std::string& folder);

  Store& store() { return *store_; }
  const std::string& directory() const { return store_->directory(); }
  // Blocks and packs are small; on_sealed does nothing.
  PackWriterOptions writer_options() const;

  // Writes the chunks into one new pack.
  SealedPack WritePack(const std::vector<std::string>& chunks);
  // The metadata streams of a snapshot, each cut into chunks of `metadata_chunks`.
  store::v1::Snapshot Describe(const FileChunks& files, std::vector<std::string>& metadata_chunks);
  // Puts everything into new packs and publishes the snapshot as checked.
  store::v1::Snapshot WriteSnapshot(const FileChunks& files);

  // Reads every chunk of the snapshot back and compares it with its digest.
  absl::Status Restore(const store::v1::Snapshot& snapshot);
  // The same for every checked snapshot; none may be damaged.
  absl::Status RestoreAll();
  std::vector<std::string> PackFiles();

 private:
  std::optional<TemporaryFolder> folder_;
  std::unique_ptr<Store> store_;
};

ChunkRef RefOf(std::string_view chunk);
std::string ReadTestFile(const std::string& path);
void WriteTestFile(const std::string& path, std::string_view bytes);
// The framed file as a newer kerf would have written it: a version that this one does not know.
std::string OfNewerKerf(std::string_view framed_file);
// Of the pack as it is now, sound or not.
PackSums SumsOfTestFile(const std::string& path);

}  // namespace kerf::agent
