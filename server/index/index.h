// What the store of each repository holds, as far as agents have committed it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/task.h"
#include "kernels/fingerprint/digest.h"

namespace kerf {

// A repository's part of the index: no call on one ever reads or changes another's.
struct RepositoryId {
  // 1 to 64 of [A-Za-z0-9._-].
  std::string name;
  DigestAlgorithm digest_algorithm = DigestAlgorithm::kBlake3;

  friend bool operator==(const RepositoryId&, const RepositoryId&) = default;
};

inline constexpr std::size_t kMaxRepositoryNameBytes = 64;
inline constexpr std::size_t kMaxLocatorBytes = 64;

struct IndexEntry {
  Digest digest;
  std::uint32_t length_bytes = 0;
  // Where the agent keeps the chunk: 1 to kMaxLocatorBytes bytes, opaque.
  std::string locator;
  // To Commit alone: LookupResult::absent_at of a lookup of this digest in this repository of this
  // index, also before it was opened again in this process; 0: there was none. Saves a look, and
  // changes no answer, however old it is: what was committed since is found all the same.
  std::uint64_t absent_at = 0;

  friend bool operator==(const IndexEntry&, const IndexEntry&) = default;
};

// The values are those of kerf.v1.Verdict.
enum class Verdict : std::uint8_t {
  kNew = 1,
  kDuplicate = 2,
  kUnverified = 3,
};

struct LookupResult {
  Verdict verdict = Verdict::kNew;
  // Unless verdict is kNew.
  std::uint32_t length_bytes = 0;
  std::string locator;
  // The repository's as it was read for this verdict, kNew too; 0: none was told, or it is closed.
  // A leaf that lies in several places may know different ones of them.
  std::uint64_t repository_epoch = 0;
  // If verdict is kNew: for IndexEntry::absent_at. 0: the index has no use for it.
  std::uint64_t absent_at = 0;
};

struct IndexStats {
  // An estimate where the leaf cannot count cheaply.
  std::uint64_t entry_count = 0;
  // The epoch told by AdvanceEpoch, 0 if none.
  std::uint64_t epoch = 0;
};

struct ForgetResult {
  // Entries that were there and are gone: at least so many. What a leaf has done twice, because an
  // answer was lost on its way (Redis), it may not count.
  std::uint64_t forgotten_count = 0;
  // The repository's epoch while they went.
  std::uint64_t epoch = 0;
  // How many entries any call, this one too, has removed since the repository's epoch was last
  // raised. A leaf may leave out those that the call does not ask about, and count some twice: 0
  // says that of the digests that it does ask about none has been removed. An index that has gone
  // back in time counts what it still knows of.
  std::uint64_t removed_count = 0;
};

struct ForgetOlderResult {
  ForgetResult forgotten;
  // All digests up to here have been looked at; nothing: to the end.
  std::optional<Digest> last;
};

// Where a call that goes through all of a repository's entries has come to.
struct StepResult {
  // Entries that it has changed or removed.
  std::uint64_t changed_count = 0;
  // All digests up to here are done: the next call's `after`; nothing: it is done.
  std::optional<Digest> last;
};

struct ListedRepository {
  RepositoryId id;
  // By Create; else it was met when it was named.
  bool is_created = false;

  friend bool operator==(const ListedRepository&, const ListedRepository&) = default;
};

// What an index is worth to new calls.
struct IndexHealth {
  // Not OK: why it cannot be reached, or is not to be used. Does not waver: a call that fails once
  // changes nothing.
  absl::Status status;
  // Which index it is, of one that many kerfd share; empty: nobody knows.
  std::string identity = {};
  // It takes no new entries, and is of use for all else: no reason to go elsewhere. `findings` says
  // why.
  bool is_full = false;
  // What has happened to it since it was opened that costs uploads, for people.
  std::vector<std::string> findings = {};
};

// Of all repositories together.
struct IndexTotals {
  // Those that have entries.
  std::uint64_t repository_count = 0;
  std::uint64_t entry_count = 0;
  // The highest one that any repository has been told.
  std::uint64_t epoch = 0;
};

// How large an index is, and what room it has: nothing where it does not know without asking
// others.
struct IndexSize {
  std::optional<IndexTotals> totals = std::nullopt;
  // All that it takes on its disk.
  std::optional<std::uint64_t> disk_bytes = std::nullopt;
  std::optional<std::uint64_t> free_disk_bytes = std::nullopt;
  // With less it takes no commits.
  std::optional<std::uint64_t> min_free_disk_bytes = std::nullopt;
};

// Thread-safe: any method from any thread. Each call is a task (base/task.h): awaited, it answers
// when it is done or its leaf's deadline has passed (kDeadlineExceeded, kUnavailable: nothing is
// known about what was written; repeat it, every write is idempotent). Everything that the
// arguments refer to is left alone by the caller, and is there, until then. A leaf whose calls are
// short, or that has no better way, does the work in the caller's thread before it returns the
// task; another one answers from a thread of its own, which is not to be kept waiting. A call that
// was begun is carried out, whether somebody waits for its answer or not. InvalidArgument for
// arguments out of the limits above, and for an epoch so far ahead of the repository's that no
// store can have it (rules.h); kDataLoss where stored bytes cannot be understood.
//
// The rule of epochs. A store's epoch is raised by each collection of garbage. An entry remembers
// the epoch of the session that committed it, and the repository the highest epoch that a
// collection has told it (AdvanceEpoch). A session of epoch E is answered kDuplicate only by an
// entry of which max(entry epoch, repository epoch) >= E; any other hit may have come back from the
// dead (a lost delete, an old snapshot of the index) and is kUnverified. The repository's epoch is
// also a fence: commits of earlier sessions are refused, for they may name chunks that the
// collection deletes (docs/adr/0005).
class Index {
 public:
  virtual ~Index() = default;

  // results[i] is about digests[i]; the spans have the same length.
  virtual Task<absl::Status> Lookup(const RepositoryId& repository, std::uint64_t session_epoch,
                                    std::span<const Digest> digests,
                                    std::span<LookupResult> results) = 0;

  // Writes the entries: visible to every lookup that begins after the return. An entry that is
  // there keeps its locator (the first commit wins) if max(its epoch, repository epoch) >=
  // session_epoch, unless `replace`; else it gets the new locator and epoch. The epoch of an entry
  // never falls. FailedPrecondition, and nothing is written, if session_epoch lies behind the
  // repository's epoch: the session must read the store's epoch again and reopen. A leaf that lies
  // in several places may have written to those that a raise beside the call had not reached yet:
  // as if that part had been a call of its own, complete before AdvanceEpoch returned.
  virtual Task<absl::Status> Commit(const RepositoryId& repository, std::uint64_t session_epoch,
                                    std::span<const IndexEntry> entries, bool replace) = 0;

  // Removes the entries, durably before the return. One whose locator differs from the given,
  // non-empty one has moved and stays. length_bytes is not used.
  virtual Task<absl::StatusOr<ForgetResult>> Forget(const RepositoryId& repository,
                                                    std::span<const IndexEntry> entries) = 0;

  // Forget for the entries behind `after` (from the first without it), about `limit` of them, of
  // which the epoch lies behind `epoch`: those that a collection cannot answer for once it has
  // committed anew, with that epoch, what it knows to be there. An entry that is written meanwhile
  // by a session of an earlier epoch may or may not be seen. `limit` is at least 1.
  virtual Task<absl::StatusOr<ForgetOlderResult>> ForgetOlder(const RepositoryId& repository,
                                                              std::uint64_t epoch,
                                                              const std::optional<Digest>& after,
                                                              std::size_t limit) = 0;

  // Raises the repository's epoch from one that is at least `min_before`, durably before the
  // answer; returns the one before. If that is smaller the index has gone back in time, and nothing
  // is changed: once raised, nobody could tell. A commit of an earlier session is either complete
  // before the return, or refused. FailedPrecondition if `epoch` lies behind the repository's,
  // InvalidArgument if it is absurdly far ahead of it (rules.h).
  virtual Task<absl::StatusOr<std::uint64_t>> AdvanceEpoch(const RepositoryId& repository,
                                                           std::uint64_t epoch,
                                                           std::uint64_t min_before) = 0;

  // Up to `limit` entries in digest order, those behind `after` (from the first without it). An
  // empty answer is the end. Entries that come or go meanwhile may or may not be seen.
  virtual Task<absl::StatusOr<std::vector<IndexEntry>>> Scan(const RepositoryId& repository,
                                                             const std::optional<Digest>& after,
                                                             std::size_t limit) = 0;

  virtual Task<absl::StatusOr<IndexStats>> Stats(const RepositoryId& repository) = 0;

  // Makes the repository known by itself, durably before the return, and leaves what it holds.
  // Whether it was not created before. One that is being dropped meanwhile may go with that.
  virtual Task<absl::StatusOr<bool>> Create(const RepositoryId& repository) = 0;

  // Whether Create has made it known, and Drop has not begun since.
  virtual Task<absl::StatusOr<bool>> IsCreated(const RepositoryId& repository) = 0;

  // Whether List names it: it was created, written to or told an epoch, and not dropped since.
  virtual Task<absl::StatusOr<bool>> IsThere(const RepositoryId& repository) = 0;

  // Up to `limit` of all repositories that were created or written to, those behind `after` (from
  // the first without it), in the order of RepositoryOrder. An empty answer is the end.
  virtual Task<absl::StatusOr<std::vector<ListedRepository>>> List(
      const std::optional<RepositoryId>& after, std::size_t limit) = 0;

  // Removes about `limit` of the repository's entries behind `after` (from the first without it),
  // durably before the answer; the step behind the last entry removes all else that is known of it,
  // its epoch too. From the first step on it is not created, its commits are refused where a leaf
  // has one epoch for all entries, and what is left is kUnverified there. A drop that was broken
  // off is begun again. What is committed beside it may stay, as of a new repository of that name.
  // Entries that an `after` leaves out, being none that an earlier step has answered, may stay
  // (Redis), or InvalidArgument says so.
  virtual Task<absl::StatusOr<StepResult>> Drop(const RepositoryId& repository,
                                                const std::optional<Digest>& after,
                                                std::size_t limit) = 0;

  // Sets the epoch of a repository, down as well as up, to at most index_rules::kMaxEpoch: for one
  // that has run away. In steps, as Drop: none of its entries keeps a later epoch than `epoch`, and
  // the last step sets that of the repository. So sessions of later epochs than `epoch` are
  // answered kUnverified by all that was there, as by an index that has gone back in time, until a
  // collection has made it whole; the caller gives one that lies behind the store's. Until the last
  // step is answered commits may be refused.
  virtual Task<absl::StatusOr<StepResult>> ResetEpoch(const RepositoryId& repository,
                                                      std::uint64_t epoch,
                                                      const std::optional<Digest>& after,
                                                      std::size_t limit) = 0;

  // "memory", "rocksdb", ...
  virtual std::string_view backend_name() const = 0;

  // Each call is a round trip: better one that asks for much.
  virtual bool is_remote() const { return false; }

  // Whether each of its calls, awaited, has been answered before that returns, in the caller's
  // thread: so that nobody but the caller has what the call's arguments refer to.
  virtual bool answers_at_once() const { return false; }

  // As it is known; asks nobody.
  virtual IndexHealth health() const { return {}; }
  // The same; may be some seconds old.
  virtual IndexSize size() const { return {}; }
};

// The order of List, which is that of their keys (codec.h): by the length of the name, then by the
// name, then by the digest algorithm.
struct RepositoryOrder {
  bool operator()(const RepositoryId& a, const RepositoryId& b) const;
};

// InvalidArgument unless `name` is 1 to 64 of [A-Za-z0-9._-].
absl::Status ValidateRepositoryName(std::string_view name);

}  // namespace kerf
