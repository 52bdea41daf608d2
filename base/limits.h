// Times and sizes that depend on each other, of both ends of a connection, and how. What can be set
// (docs/hacking.md, "Add an option") has its default here: the relations hold of the defaults, and
// whoever sets one looks here for what it touches.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace kerf::limits {

using std::chrono::milliseconds;

// What kerfd waits for.

// Until a stream's Open has come (--open-timeout-ms).
inline constexpr milliseconds kOpenTimeout{10'000};
// Of silence in mid-file (--idle-timeout-ms).
inline constexpr milliseconds kIdleTimeout{60'000};
// Of silence between files, after which a stream may have to make room (--idle-evict-ms).
inline constexpr milliseconds kIdleEvict{30'000};
// Until a peer has read one write (--write-stall-timeout-ms).
inline constexpr milliseconds kWriteStall{60'000};
// Until the index has answered (--index-timeout-ms).
inline constexpr milliseconds kIndexTimeout{60'000};
// After which a call that waits for it makes room for others.
inline constexpr milliseconds kSlowIndexCall{500};
// Of a wait for one thing, after which the log tells of it (--stall-warn-ms).
inline constexpr milliseconds kStallWarn{10'000};
// For a quota of bytes to let a stream's next message by.
inline constexpr milliseconds kMaxPaced{30'000};
// From SIGTERM on, for commits (--drain-ms).
inline constexpr milliseconds kDrain{10'000};
// How often all of these are looked at.
inline constexpr milliseconds kWatchdogInterval{250};
// Until a stream or call that was ended for others has taken its status.
inline constexpr milliseconds kEvictedGrace{1'000};
// Of a call that a front passes on, but for uploads.
inline constexpr milliseconds kMaxForwardedTime{120'000};
// What RetryInfo asks of clients: long enough that refused ones cost little, short enough that a
// person does not notice.
inline constexpr milliseconds kRetrySoon{1'000};
inline constexpr milliseconds kRetryLater{5'000};

// What kerf waits for.

// Without a message, before an empty one says that the stream is still wanted.
inline constexpr milliseconds kKeepPlace{10'000};
// For a server that owes an answer.
inline constexpr milliseconds kAnswerLimit{120'000};
// For a call of the Index service.
inline constexpr milliseconds kIndexCallDeadline{60'000};
// Without progress (--retry-for), and between two tries.
inline constexpr milliseconds kRetryFor{300'000};
inline constexpr milliseconds kFirstRetryWait{500};
inline constexpr milliseconds kLongestRetryWait{20'000};
// The longest that is believed of RetryInfo.
inline constexpr milliseconds kLongestAskedWait{60'000};

// Pings of HTTP/2, by which a peer that is cut off is noticed.

inline constexpr milliseconds kServerPing{60'000};
inline constexpr milliseconds kServerPingTimeout{20'000};
// kerfd ends a connection whose client pings oftener.
inline constexpr milliseconds kMinPingInterval{5'000};
// Of kerf: about a minute with its timeout, without waking load balancers too often.
inline constexpr milliseconds kAgentPing{40'000};
inline constexpr milliseconds kAgentPingTimeout{20'000};
// Of a front, to its workers.
inline constexpr milliseconds kFrontPing{10'000};
inline constexpr milliseconds kFrontPingTimeout{10'000};

// Redis, as kerfd waits for it.

inline constexpr milliseconds kRedisConnectTimeout{2'000};
// Of one attempt; all of them together have kIndexTimeout.
inline constexpr milliseconds kRedisAttemptTimeout{3'000};
inline constexpr milliseconds kRedisReplicaTimeout{1'000};

// Sizes and counts.

// Of an encoded message to kerfd.
inline constexpr std::uint32_t kMaxMessageBytes = 4 * kMiB;
// Of an encoded answer of kerfd.
inline constexpr std::size_t kMaxAnswerBytes = 2 * kMiB;
// What gRPC takes of an answer, in front and agent.
inline constexpr int kMaxReceivedBytes = 4 * kMiB;
// Of a Commit of a stream, and of all else there that lists chunks.
inline constexpr std::uint32_t kMaxCommitEntries = 4'096;
// Of files, that one message names by chunks which the client has cut. A quota of bytes is owed
// them once they are known.
inline constexpr std::uint32_t kMaxNamedBytes = 16 * kMiB;
// Of CommitChunks, and all else that names chunks to the Index service.
inline constexpr int kMaxIndexRequestEntries = 65'536;
// Of a CommitChunks by which kerf tells what a lost stream did not.
inline constexpr std::size_t kMaxLateCommitEntries = 4'096;

// An agent that waits for its disk or its user says so after at most two intervals: one may have
// just begun when it last sent something. Else a full kerfd gives its place to another one.
static_assert(2 * kKeepPlace + kWatchdogInterval < kIdleEvict);

// The log tells of a stream that waits before the wait is ended. Else nobody learns what it was
// for.
static_assert(kStallWarn + kWatchdogInterval < kIdleTimeout);
static_assert(kStallWarn + kWatchdogInterval < kWriteStall);
static_assert(kStallWarn + kWatchdogInterval < kIndexTimeout);

// Others are let by long before they have waited too long themselves. Else a part of an index that
// is gone takes all of it away.
static_assert(4 * (kSlowIndexCall + kWatchdogInterval) < kIndexTimeout);

// kerfd says that its index is silent, and a front that its worker is lost, before those who asked
// give up. Else the agent blames the wrong one, and knows no reason.
static_assert(kIndexTimeout + kWatchdogInterval < kAnswerLimit);
static_assert(kIndexTimeout + kWatchdogInterval < kMaxForwardedTime);
static_assert(kIndexTimeout <= kIndexCallDeadline);
static_assert(kFrontPing + kFrontPingTimeout < kAnswerLimit);

// Pings find a server that is cut off before its silence does. Else they are of no use.
static_assert(kAgentPing + kAgentPingTimeout < kAnswerLimit);

// Pings are taken. Else kerfd ends the connection with all its streams (GOAWAY, too_many_pings).
static_assert(kAgentPing >= kMinPingInterval);
static_assert(kFrontPing >= kMinPingInterval);

// A backup outlives what ends by itself: a server that drains and is started anew, one that is
// silent and given up, and one wait between two tries. Else it fails at the first of them.
static_assert(kDrain + kLongestRetryWait < kRetryFor);
static_assert(kAnswerLimit + kLongestRetryWait < kRetryFor);
static_assert(kLongestAskedWait < kRetryFor);
static_assert(kFirstRetryWait < kLongestRetryWait);
// What kerfd asks for is done.
static_assert(kRetrySoon < kRetryLater && kRetryLater < kLongestAskedWait);

// A stream that a quota holds up is told so before its agent takes kerfd for dead.
static_assert(kMaxPaced + kWatchdogInterval < kAnswerLimit);

// A stream that is ended for others has left its place when one that was refused asks again. Else
// it is refused again, of a place that nobody uses.
static_assert(kEvictedGrace + kWatchdogInterval < kRetryLater);

// A node of Redis that is dead is given up, and others are asked more than once, before a stream is
// told that there is no index. A master's word on its replicas comes before it is given up.
static_assert(4 * (kRedisConnectTimeout + kRedisAttemptTimeout) < kIndexTimeout);
static_assert(kRedisReplicaTimeout < kRedisAttemptTimeout);

// What one end sends the other one takes, also behind a front.
static_assert(kMaxAnswerBytes < kMaxReceivedBytes);
static_assert(kMaxLateCommitEntries <= kMaxIndexRequestEntries);

}  // namespace kerf::limits
