#!/usr/bin/env python3
"""Rules that libkerf follows, each with what leaves it out: those of which a case of the conformance kit can see it.

mutants.py FOLDER SOURCE...: writes each of the sources, with all its mutants behind switches, into FOLDER/mutated_NAME. KERF_CPP_MUTANT=N
leaves the N-th rule out, from 0. mutants.py alone prints the rules as JSON.
"""

import json
import pathlib
import sys
from typing import NamedTuple

SWITCH = """#include <cstdlib>
namespace {
[[maybe_unused]] bool IsPlayed(int number) {
  static const int played = [] {
    const char* const text = std::getenv("KERF_CPP_MUTANT");
    return text == nullptr ? -1 : std::atoi(text);
  }();
  return played == number;
}
}  // namespace
"""


class Mutant(NamedTuple):
    """In the place of a piece of the source that is there once, another one: in it $ is whether this mutant is played, and @ the piece."""

    rule: str
    file: str
    there: str
    instead: str


LANE, C_UPLOAD, C_COMMITS = "client/agent/backup/lane.cc", "client/c/upload.cc", "client/c/upload_commits.cc"
STREAMS, ANSWERS, RETRY = "client/cpp/resuming_upload.cc", "client/cpp/resuming_upload_answers.cc", "client/cpp/retry.cc"
STREAM, CALLS, CHANNEL, ERROR = "client/cpp/upload_stream.cc", "client/cpp/patient_call.cc", "client/cpp/channel.cc", "client/c/error.cc"
LATE = "  if (!late.empty() && options_.on_late_commits) options_.on_late_commits"

MUTANTS = [
    # What is sent.
    Mutant("PRO-13 the epoch of the store", C_UPLOAD, "open.set_store_epoch(options_.store_epoch)", "open.set_store_epoch($ ? 1 : options_.store_epoch)"),
    Mutant("CLI-38 index-epoch is announced", C_UPLOAD, "  open.add_features(kIndexEpochFeature);", "  if (!$) open.add_features(kIndexEpochFeature);"),
    Mutant("PRO-67 a request id", STREAM, "    context_.AddMetadata(kRequestIdMetadata, request_id);", "    if (!$) @"),
    Mutant("ROU-1 a shard key", STREAM, "if (!options.shard_key.empty())", "if (!$ && !options.shard_key.empty())"),
    Mutant("CLI-18 a deadline", CALLS, "context.set_deadline(", "if (!$) context.set_deadline("),
    Mutant("CLI-32 no proxy", CHANNEL, "GRPC_ARG_ENABLE_HTTP_PROXY, 0", "GRPC_ARG_ENABLE_HTTP_PROXY, $ ? 1 : 0"),
    Mutant("PRO-71 data of one message", STREAMS, "      stream->LimitData(limits_.max_message_bytes());", "      if (!$) @"),
    Mutant("PRO-71 entries of a Commit", ANSWERS, "static_cast<std::uint32_t>(part.entries_size()) >= limits_.max_commit_entries()", "(!$ && @)"),
    Mutant("CLI-5 three of the longest chunks", LANE, "kMaxUnansweredChunks * profile.max_bytes + 2 * options.block_bytes", "($ ? 1 : kMaxUnansweredChunks) * profile.max_bytes + 2 * options.block_bytes"),
    Mutant("CLI-5 no longer ones", LANE, "if (!profile.ok() || profile->rule.max_bytes > profile_.max_bytes) {", "if ($ && !profile.ok()) return absl::OkStatus();\n  @"),
    Mutant("CLI-6 what may become uncommitted", LANE, "while (!ended_ && RoomBytesLocked()", "while (!$ && !ended_ && RoomBytesLocked()"),
    # What is answered.
    Mutant("COL-10 check", LANE, "if (!answered.is_cut_here && Xxh3Of64", "if (!$ && !answered.is_cut_here && Xxh3Of64"),
    Mutant("COL-10 digest", C_UPLOAD, "if (!chunk.is_cut_here && Fingerprint", "if (!$ && !chunk.is_cut_here && Fingerprint"),
    Mutant("CLI-8 once more", ANSWERS, "? fatal_ : lost_) = status", "|| $ @"),
    Mutant("CLI-8 and not again", ANSWERS, "(std::exchange(has_disagreed_, true)", "((std::exchange(has_disagreed_, true) && !$)"),
    Mutant("CLI-8 from the last cut that was right", ANSWERS, "    if (is_some) NoteAnsweredLocked", "    if (is_some && !$) NoteAnsweredLocked"),
    Mutant("PRO-14 a verdict that nobody knows", C_UPLOAD, "  return verdict == v1::VERDICT_UNVERIFIED ?", "  if ($ && verdict > v1::VERDICT_UNVERIFIED) return KERF_DUPLICATE;\n@"),
    Mutant("PRO-14 an answer that nobody knows", ANSWERS, "    case v1::UploadAnswer::ANSWER_NOT_SET:\n", "@      if ($) return Fail(absl::InternalError(\"unknown\"));\n"),
    Mutant("COL-81 FileDone tells of another epoch", LANE, "      on_index_epoch_(answer.file_done()", "      if (!$) on_index_epoch_(answer.file_done()"),
    Mutant("COL-81 so does Committed", LANE, "      on_index_epoch_(answer.committed()", "      if (!$) on_index_epoch_(answer.committed()"),
    # What the program says.
    Mutant("COL-11 what was stored is committed", C_COMMITS, "  if (!entries.empty()) lane_->Commit", "  if (!entries.empty() && !$) lane_->Commit"),
    Mutant("COL-16 stale is reported", C_COMMITS, "  if (!entries.empty()) lane_->ReportStale", "  if (!entries.empty() && !$) lane_->ReportStale"),
    Mutant("COL-22 late entries under another epoch", C_COMMITS, "Commit(options_.store_epoch,", "Commit(options_.store_epoch + ($ ? 1 : 0),"),
    Mutant("COL-23 late entries that come too late", C_COMMITS, "  if (CodeOf(status) == KERF_EPOCH_BEHIND)", "  if (!$ && CodeOf(status) == KERF_EPOCH_BEHIND)"),
    Mutant("COL-23 the class of an epoch that has passed", ERROR, "if (reason == \"EPOCH_BEHIND\")", "if (!$ && reason == \"EPOCH_BEHIND\")"),
    # Streams that are lost.
    Mutant("COL-25 told again", STREAMS, LATE, LATE.replace("if (", "if (!$ && ")),
    Mutant("COL-34 what was pending", ANSWERS, LATE, LATE.replace("if (", "if (!$ && ")),
    Mutant("PRO-32 what the next stream does not know", ANSWERS, "digest.has_value() && pending_.erase(*digest) > 0", "digest.has_value() && (pending_.erase(*digest) > 0 || $)"),
    Mutant("PRO-30 the hash is of what is sent again", STREAMS, "  content_hash_.Reset();", "  if (!$) content_hash_.Reset();"),
    Mutant("PRO-40 GoAway", ANSWERS, "      return Lose(absl::UnavailableError(\"the server is", "      if ($) return;\n@"),
    Mutant("CLI-13 silence", LANE, "if (silent >= answer_limit_)", "if (!$ && silent >= answer_limit_)"),
    Mutant("CLI-42 words that say nothing", LANE, "if (answer.answer_case() != v1::UploadAnswer::ANSWER_NOT_SET) {", "if ($ || answer.answer_case() != v1::UploadAnswer::ANSWER_NOT_SET) {"),
    Mutant("CLI-11 Opened is no progress", ANSWERS, "    ever_opened_ = true;\n", "@    if ($) plan_.Progress();\n"),
    Mutant("CLI-15 who was not met", STREAMS, "if (!*options_.reached &&", "if (!$ && !*options_.reached &&"),
    Mutant("CLI-15 met by a reason", STREAMS, "if (!ReasonOfLoss(loss).empty()) *options_", "if (!$ && !ReasonOfLoss(loss).empty()) *options_"),
    Mutant("CLI-15 the next server", STREAMS, "if (!is_own_silence) ++server_index_", "if (!$ && !is_own_silence) ++server_index_"),
    Mutant("PRO-61 reasons that pass", RETRY, "if (IsOf(reason, kRetriedReasons))", "if (!$ && IsOf(reason, kRetriedReasons))"),
    Mutant("PRO-61 a quota that is used up", RETRY, "if (reason == kQuotaExceeded && AskedWaitOf", "if (!$ && reason == kQuotaExceeded && AskedWaitOf"),
    Mutant("CLI-17 a reason that nobody knows", RETRY, "? Loss::kRetryOnce : Loss::kFinal;", "? Loss::kRetryOnce : $ ? Loss::kRetry : Loss::kFinal;"),
    Mutant("CLI-16 a connection that broke", RETRY, "return IsWrongAnswer(status) ?", "return IsWrongAnswer(status) || $ ?"),
    Mutant("CLI-16 all others are final", RETRY, "    default:\n      return Loss::kFinal;", "    default:\n      return $ ? Loss::kRetry : Loss::kFinal;"),
    Mutant("CLI-39 none behind a mismatch", STREAMS, "if (IsMismatchOfAnsweredLocked(loss)) return loss;", "if (!$ && IsMismatchOfAnsweredLocked(loss)) return loss;"),
    Mutant("CLI-14 once", RETRY, "++once_count_ > 1", "++once_count_ > ($ ? 99 : 1)"),
    Mutant("PRO-61 some minutes", RETRY, "if (left.count() <= 0) return", "if (!$ && left.count() <= 0) return"),
    Mutant("PRO-61 so long as RetryInfo says", RETRY, "return std::max(std::min(wait, left), asked);", "return $ ? std::chrono::milliseconds(1) : std::max(std::min(wait, left), asked);"),
]


def with_mutants(file, text):
    """Switches lie within each other where two rules have one piece."""
    for number, mutant in enumerate(MUTANTS):
        if mutant.file != file:
            continue
        if text.count(mutant.there) != 1:
            raise SystemExit(f"mutants: {mutant.rule}: {mutant.there!r} is in {file} {text.count(mutant.there)} times")
        text = text.replace(mutant.there, mutant.instead.replace("$", f"IsPlayed({number})").replace("@", mutant.there))
    return SWITCH + text


def main():
    if len(sys.argv) == 1:
        print(json.dumps([mutant.rule for mutant in MUTANTS]))
        return
    folder = pathlib.Path(sys.argv[1])
    for source in map(pathlib.Path, sys.argv[2:]):
        (folder / f"mutated_{source.name}").write_text(with_mutants(source.as_posix(), source.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
