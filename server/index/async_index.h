// The index as streams use it: no thread waits while it answers.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "server/index/index.h"

namespace kerf {

// Thread-safe. Index (index.h) says what each call does and which errors there are; here it returns
// at once, or after as long as its leaf takes if that has no better way, and calls `done` exactly
// once: from any thread, also before it returns. Everything that the arguments refer to is left
// alone by the caller, and is there, until then. `done` does not block.
class AsyncIndex {
 public:
  using Done = std::function<void(const absl::Status&)>;

  virtual ~AsyncIndex() = default;

  virtual void Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                      std::span<const Digest> digests, std::span<LookupResult> results,
                      Done done) = 0;
  virtual void Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                      std::span<const IndexEntry> entries, bool replace, Done done) = 0;
  virtual void Forget(const RepositoryId& repository, std::span<const IndexEntry> entries,
                      Done done) = 0;
};

// A leaf whose calls are short enough to be made where they are asked for: `done` is called before
// the return.
class InlineIndex final : public AsyncIndex {
 public:
  // `index` outlives it.
  explicit InlineIndex(Index* index) : index_(index) {}

  void Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
              std::span<const Digest> digests, std::span<LookupResult> results,
              Done done) override {
    done(index_->Lookup(repository, session_epoch, digests, results));
  }
  void Commit(const RepositoryId& repository, std::uint64_t session_epoch,
              std::span<const IndexEntry> entries, bool replace, Done done) override {
    done(index_->Commit(repository, session_epoch, entries, replace));
  }
  void Forget(const RepositoryId& repository, std::span<const IndexEntry> entries,
              Done done) override {
    done(index_->Forget(repository, entries).status());
  }

 private:
  Index* const index_;
};

}  // namespace kerf
