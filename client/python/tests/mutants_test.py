"""Each rule that the client follows is left out once, and one of its tests has to notice.

A mutant is the package with one piece of its text replaced. KERF_MUTANTS=COL-10,... plays those alone.
"""

import contextlib
import importlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import kerf

PATIENCE_S = 120
TESTS = pathlib.Path(__file__).resolve().parent
# Its fake server.
KIT = TESTS.parents[1] / "conformance"
PACKAGE = pathlib.Path(kerf.__file__).parent

# Rule, file, what stands there once, what stands there instead, and the test that fails then.
MUTANTS = [
    # Before and during an upload.
    ("COL-2 the epoch first", "store.py", "epoch = collected.epoch()\n    if epoch < FIRST_EPOCH:",
     "collected.plan()\n    epoch = collected.epoch()\n    if epoch < FIRST_EPOCH:",
     "upload_test.UploadTest.test_col_2_the_epoch_then_the_plan_then_the_first_stream"),
    ("COL-2 that epoch", "lane.py", "store_epoch=view.epoch", "store_epoch=1",
     "upload_test.UploadTest.test_open_says_what_the_documents_ask_for"),
    ("COL-5 a damaged plan", "store.py", 'raise DamagedPlan("the plan of a collection is damaged: run a collection")',
     "return Plan(0)", "upload_test.UploadTest.test_col_5_without_epoch_or_plan_nothing_begins"),
    ("COL-7 always 1", "store.py", "return View(FIRST_EPOCH, None)", "return View(2, None)",
     "upload_test.UploadTest.test_col_7_a_store_that_is_never_collected_is_at_1"),
    ("COL-10 check", "keeper.py", "if chunk.check != digests.check_of(data):", "if False:",
     "upload_test.WrongAnswersTest"),
    ("COL-10 digest", "keeper.py", "if chunk.digest != algorithm.digest(data):", "if False:",
     "upload_test.WrongAnswersTest"),
    ("COL-10 range", "lane.py", "if not file.answered < chunk.end_offset <= file.sent:", "if False:",
     "upload_test.WrongAnswersTest"),
    ("COL-10 of another file", "lane.py", "if number != self._files_begun:", "if False:",
     "upload_test.WrongAnswersTest.test_answers_of_another_file"),
    ("COL-10 whole", "lane.py", "or not file.is_complete or answer.file_done", "or answer.file_done",
     "upload_test.WrongAnswersTest.test_too_few_bytes"),
    ("COL-11 commit what was stored", "keeper.py", "is_stale or not is_duplicate, is_stale)", "is_stale, is_stale)",
     "upload_test.UploadTest.test_col_12_unverified_is_looked_up_and_else_stored"),
    ("COL-12 UNVERIFIED is trusted", "keeper.py", "is_duplicate = verdict == pb.VERDICT_DUPLICATE",
     "is_duplicate = verdict != pb.VERDICT_NEW", "upload_test.UploadTest.test_col_12_unverified_is_looked_up_and_else_stored"),
    ("COL-13 DUPLICATE is trusted", "keeper.py", "            if here is not None:\n",
     "            if here is not None or is_duplicate:\n                here = here or b'trusted'\n",
     "upload_test.UploadTest.test_col_13_16_a_stale_duplicate_is_stored_reported_and_committed"),
    ("COL-15 condemned places", "store.py", "return not self.condemned or locator not in self.condemned", "return True",
     "upload_test.UploadTest.test_col_15_what_is_condemned_is_stored_anew_whatever_the_verdict"),
    ("COL-16 stale is reported", "lane.py", "if place.is_stale:", "if False:",
     "upload_test.UploadTest.test_col_13_16_a_stale_duplicate_is_stored_reported_and_committed"),
    ("COL-16 with the locator of the answer", "lane.py", "add_stale(chunk.digest, chunk.locator)",
     "add_stale(chunk.digest, place.locator)",
     "upload_test.UploadTest.test_col_13_16_a_stale_duplicate_is_stored_reported_and_committed"),
    ("COL-16 condemned is not stale", "keeper.py", "is_stale = is_duplicate and not is_anywhere", "is_stale = is_duplicate",
     "upload_test.UploadTest.test_col_15_what_is_condemned_is_stored_anew_whatever_the_verdict"),
    ("CLI-20 a name that may be lost", "folder_store.py", "            self._doubt(named)\n", "",
     "folder_store_test.FolderStoreTest.test_cli_20_a_name_whose_folder_could_not_be_synced_is_not_named"),
    ("CLI-36 of another length", "store.py", "if callable(of_length) else", "if False else",
     "folder_store_test.RottenChunkTest.test_cli_36_it_is_stored_anew"),
    ("COL-14 one that cannot be read", "folder_store.py", "                error = unreadable\n                continue\n", "                raise\n",
     "folder_store_test.FolderStoreTest.test_a_chunk_that_has_rotted_is_not_read"),
    ("COL-18 what is taken over is looked up", "client.py", "if any(self._keeper.find(view, digest, length) is None for", "if any(False for",
     "snapshot_test.SnapshotTest.test_col_18_a_file_that_is_taken_over_is_looked_up"),
    # Commits.
    ("COL-19 on the stream", "lane.py", "        self._keeper.sync()\n        for frame", "        for frame",
     "upload_test.UploadTest.test_col_19_nothing_is_committed_before_it_is_durable"),
    ("COL-19 behind a lost stream", "lane.py", "        self._keeper.sync()  # COL-19\n", "",
     "retry_test.LostStreamsTest.test_every_moment_is_survived"),
    ("COL-19 behind a sync that failed", "keeper.py", "                    self._sync_error = error\n", "",
     "upload_test.UploadTest.test_col_19_what_a_sync_that_failed_should_have_kept_is_never_committed"),
    ("COL-20 names of others", "keeper.py", "            self._is_synced = False\n            if here is not None:\n",
     "            self._is_synced = here is not None\n            if here is not None:\n",
     "upload_test.UploadTest.test_col_20_a_name_of_another_writer_is_made_durable_first"),
    ("COL-20 in the long way", "keeper.py", "        self.sync()\n        return gone", "        return gone",
     "snapshot_test.SnapshotTest.test_col_20_what_the_long_way_counts_on_is_durable_before_the_snapshot"),
    ("COL-21 no place that the plan condemns", "keeper.py",
     "return next((place for place in places if view.is_safe(place)), None), bool(places)",
     "return next(iter(places), None), bool(places)",
     "retry_test.EpochTest.test_col_22_entries_are_not_sent_again_under_another_epoch"),
    ("COL-22 under another epoch", "lane.py", "            self._drop()\n            self._late.clear()\n            raise",
     "            self._late.update(self._uncommitted.all())\n            self._drop()\n            raise",
     "retry_test.EpochTest.test_col_22_entries_are_not_sent_again_under_another_epoch"),
    ("COL-23 epoch and plan are read again", "client.py", "fresh = self._keeper.view()", "fresh = behind",
     "retry_test.EpochTest.test_all_is_begun_again_in_the_new_epoch"),
    ("COL-23 a new stream", "lane.py", "(self._view != view or not self._stream.is_idle())", "not self._stream.is_idle()",
     "snapshot_test.SnapshotTest.test_each_snapshot_begins_with_the_epoch"),
    ("COL-24 the same epoch", "client.py", "if fresh.epoch == behind.epoch:", "if False:",
     "retry_test.EpochTest.test_col_24_a_store_that_was_set_back_is_said_and_not_mended_by_an_agent"),
    ("COL-25 told again", "uncommitted.py", "return {**found, **self.pending}", "return {**self.pending}",
     "retry_test.LostStreamsTest.test_every_moment_is_survived"),
    ("COL-33 the prefix is the agent's own", "file.py", "self.start = self.sent = self.answered", "self.start = self.sent = 0",
     "retry_test.LostStreamsTest.test_many_losses_one_behind_the_other"),
    ("COL-34 what was pending", "lane.py", "        self._late.update(self._uncommitted.all())\n        self._drop()\n",
     "        self._drop()\n",
     "retry_test.LostStreamsTest.test_col_34_what_was_pending_is_told_by_a_call_in_the_epoch_of_its_session"),
    # The end.
    ("COL-26 durable before it is pending", "client.py", "        self._keeper.sync()\n        with self._keeper.lock:\n            store.publish",
     "        with self._keeper.lock:\n            store.publish",
     "snapshot_test.SnapshotTest.test_col_26_all_is_durable_before_it_is_pending"),
    ("COL-27 published before it is looked", "client.py",
     "            store.publish(name, encode(whole))\n        try:\n            view = self._keeper.view()\n",
     "            view = self._keeper.view()\n            store.publish(name, encode(whole))\n        try:\n",
     "snapshot_test.SnapshotTest.test_the_short_way"),
    ("COL-28 the plan that was there", "client.py", " or recipe.seen.has_plan or", " or",
     "snapshot_test.SnapshotTest.test_col_29_a_plan_then_and_another_one_now"),
    ("COL-28 what was read first", "client.py", "if any(recipe.seen != view.seen or", "if any(recipe.seen.epoch < 0 or",
     "snapshot_test.SnapshotTest"),
    ("COL-81 the long way", "client.py", " or recipe.is_overtaken for", " for",
     "snapshot_test.SnapshotTest.test_col_81_an_index_that_has_moved_on_is_the_long_way"),
    ("COL-81 of FileDone", "lane.py", "max(self._index_epoch, answer.file_done.index_epoch)", "0",
     "snapshot_test.SnapshotTest.test_col_81_an_index_that_has_moved_on_is_the_long_way"),
    ("COL-81 of Committed", "lane.py", "max(self._index_epoch, answer.committed.index_epoch)", "0",
     "snapshot_test.SnapshotTest.test_col_81_a_commit_tells_it_too"),
    ("COL-81 the next stream", "client.py", "                        self._leave(view)\n", "                        pass\n",
     "snapshot_test.SnapshotTest.test_col_81_the_next_stream_begins_with_the_epoch"),
    ("PRO-92 what is announced", "lane.py", ", features=FEATURES", "",
     "upload_test.UploadTest.test_open_says_what_the_documents_ask_for"),
    ("COL-29 the long way", "keeper.py", "gone = [digest for digest in sorted(wanted) if self.find(view, digest, wanted[digest]) is None]",
     "gone = []", "snapshot_test.SnapshotTest.test_col_29_a_plan_now_a_plan_then_or_another_epoch_is_the_long_way"),
    ("COL-30 withdrawn", "client.py", "                store.withdraw(name)\n", "                pass\n",
     "snapshot_test.SnapshotTest.test_col_29_a_plan_now_a_plan_then_or_another_epoch_is_the_long_way"),
    ("COL-30 no snapshot", "client.py", "                    raise ChunksLost(lost)\n", "                    pass\n",
     "snapshot_test.SnapshotTest.test_col_29_a_plan_now_a_plan_then_or_another_epoch_is_the_long_way"),
    ("COL-36 kept recipes", "recipe.py", "seen: Seen = Seen(0, True)", "seen: Seen = Seen(1, False)",
     "snapshot_test.SnapshotTest.test_col_36_recipes_that_were_kept_are_always_looked_up"),
    # A collector.
    ("COL-40 the lock", "collect.py", "with self._store.lock():", "if True:", "collect_test.CollectTest.test_col_40_one_at_a_time"),
    ("COL-43 the largest epoch", "collect.py", "self._epoch = max(epoch, last, index_epoch)", "self._epoch = epoch",
     "collect_test.CollectTest.test_col_43_the_epoch_is_the_largest_of_all"),
    ("COL-43 not followed too far", "collect.py", "if index_epoch > LARGEST_EPOCH:", "if False:",
     "collect_test.CollectTest.test_col_43_no_index_is_followed_too_far"),
    ("COL-44 gone back", "collect.py", "has_gone_back or is_damaged or index_epoch < needed or index_epoch > epoch", "False",
     "collect_test.IndexThatGoesBackTest.test_an_old_copy_is_not_believed"),
    ("COL-45 pending first, and all of them", "folder_store.py", 'for folder in ("pending", "snapshots"):', 'for folder in ("snapshots",):',
     "folder_store_test.FolderStoreTest.test_col_45_47_roots"),
    ("CLI-29 a snapshot that is damaged", "recipe.py", "if hashlib.sha256(rest).digest() != body[:_SUM_BYTES]:", "if len(body) < _SUM_BYTES:",
     "folder_store_test.DamagedTest.test_cli_29_a_damaged_snapshot_ends_a_collection"),
    ("CLI-35 an epoch that is damaged", "folder_store.py", " or body.rstrip() != _epoch_line(int(number)):", ":",
     "folder_store_test.DamagedTest.test_cli_35_an_epoch_that_is_damaged_stops_all"),
    ("CLI-34 a folder that is gone", "folder_store.py", "if not (self.path / name).is_dir():", "_make_folder(self.path / name)\n            if False:",
     "folder_store_test.DamagedTest.test_a_folder_that_is_gone_is_not_made_anew"),
    ("CLI-28 a plan of a newer version", "collect.py", "except DamagedPlan:", "except StoreError:",
     "collect_test.CollectTest.test_cli_28_a_plan_of_a_newer_version_stops_it"),
    ("COL-47 durable as they were read", "folder_store.py", "                yield from digests_of(recipes)\n            _sync(self.path / folder)",
     "                yield from digests_of(recipes)", "folder_store_test.FolderStoreTest.test_col_45_47_roots"),
    ("COL-1 a store is begun once", "folder_store.py", "            os.link(written, self.path / name)\n        except",
     "            (self.path / name).write_bytes(body)\n        except",
     "folder_store_test.FolderStoreTest.test_begun_by_two_at_a_time_its_epoch_stays"),
    ("CLI-20 behind a sync that failed, in the store", "folder_store.py", "if self._has_sync_failed:", "if False:",
     "folder_store_test.FolderStoreTest.test_behind_a_sync_that_failed_nothing_of_it_is_named"),
    ("CLI-33 roots", "collect.py", "self._check_digests(\"a root\", live)", "pass",
     "collect_test.CollectTest.test_cli_33_roots_that_are_no_digests_stop_it"),
    ("CLI-33 chunks", "collect.py", "self._check_digests(\"a chunk\", (place.digest for place in places))", "pass",
     "collect_test.CollectTest.test_cli_33_roots_that_are_no_digests_stop_it"),
    ("CLI-9 no status counts", "lane.py", "            self._lost_behind_the_last_chunk(failure)\n", "            patience.allow(failure)\n",
     "upload_test.WrongAnswersTest.test_behind_the_last_chunk_no_status_counts"),
    ("CLI-32 a proxy", "channel.py", "(\"grpc.enable_http_proxy\", 0)", "(\"grpc.enable_http_proxy\", 1)",
     "channel_test.ProxyTest.test_that_of_the_environment_is_not_used"),
    ("CLI-39 none behind a mismatch", "lane.py", "is_suspect = failure.reason == CONTENT_MISMATCH and", "is_suspect = False and",
     "retry_test.LostStreamsTest.test_cli_39_behind_a_mismatch_nothing_goes_on_of_which_a_part_was_answered"),
    ("CLI-39 as it was read", "file.py", " and check_of(block.data) != block.check:", " and False:",
     "retry_test.LostStreamsTest.test_cli_39_what_has_changed_while_it_waited_is_not_sent_again"),
    ("COL-48 the plan", "collect.py", "        self._publish(doomed)\n", "        self._plan = self._plan.with_(last_epoch=self._epoch + 2)\n",
     "collect_test.CollectTest.test_an_agent_that_was_answered_before_and_publishes_at_every_moment"),
    ("COL-49 the fence", "collect.py", "        self._fence()\n        live", "        self._raise_store()\n        live",
     "collect_test.CollectTest.test_the_order"),
    ("COL-49 the store first", "collect.py", "        self._epoch += 1\n        with self._lock:\n            self._store.raise_epoch(self._epoch)\n",
     "        self._epoch += 1\n", "collect_test.CollectTest.test_the_order"),
    ("COL-50 gone back at the fence", "collect.py", "        if previous < min_previous:\n            raise _WentBack\n", "",
     "collect_test.IndexThatGoesBackTest.test_col_50_one_that_goes_back_before_the_fence"),
    ("COL-51 roots again", "collect.py", "        live = self._read(roots)  # COL-51: who was published before he could see the plan.\n", "",
     "collect_test.CollectTest.test_col_51_who_was_published_before_he_saw_the_plan_keeps_his_chunks"),
    ("COL-52 forget before", "collect.py", "        for _ in self._forgotten(digests):  # COL-52: if a call fails, nothing is deleted.\n            pass\n", "",
     "collect_test.CollectTest.test_the_order"),
    ("COL-52 empty locators", "index.py", "entries=[pb.IndexEntry(digest=digest) for", 'entries=[pb.IndexEntry(digest=digest, locator=b"l") for',
     "collect_test.CollectTest.test_what_no_snapshot_needs_goes"),
    ("COL-54 believed by its answers", "collect.py", "            if all(list(self._forgotten(digests))):", "            if list(self._forgotten(digests)):",
     "collect_test.IndexThatGoesBackTest.test_col_54_somebody_commits_meanwhile"),
    ("COL-55 what an index needs", "collect.py", "        self._write_plan(needed_epoch=self._epoch)\n", "",
     "collect_test.CollectTest.test_the_order"),
    ("COL-56 deleted last", "collect.py", "        self._publish(doomed)\n        self._fence()", "        self._publish(doomed)\n        self._delete(doomed)\n        self._fence()",
     "collect_test.CollectTest.test_the_order"),
    ("COL-57 the plan goes", "collect.py", "            self._store.remove_plan()", "            pass",
     "collect_test.CollectTest.test_what_no_snapshot_needs_goes"),
    ("COL-59 again", "index.py", "patience.next(failure_of(error, server.text))", "raise failure_of(error, server.text).error() from error",
     "collect_test.CollectTest.test_col_59_calls_are_made_again"),
    ("COL-60 (c) all that stays", "collect.py", "[place for place in places if place.locator not in gone]", "[]",
     "collect_test.IndexThatGoesBackTest.test_an_index_that_is_new_becomes_whole"),
    ("COL-60 (d) what is older", "collect.py", "        self._forget_older()\n        for _ in", "        for _ in",
     "collect_test.IndexThatGoesBackTest.test_an_old_copy_is_not_believed"),
    ("COL-60 (f) believed by its answers", "collect.py", "                if self._forget_older():", "                if self._forget_older() or True:",
     "collect_test.IndexThatGoesBackTest.test_col_61_one_that_is_never_to_be_believed_is_left_behind"),
    ("CLI-41 no length that is none", "collect.py", "if 0 < lengths[place.digest] <= LONGEST_CHUNK_BYTES)", "if True)",
     "collect_test.IndexThatGoesBackTest.test_cli_41_places_that_have_rotted_are_not_told"),
    ("COL-80 what died is told", "collect.py", "if index_epoch < epoch and body is not None and not is_damaged and not needed > index_epoch:",
     "if False:", "collect_test.CollectTest.test_col_80_what_died_is_told_first"),
    # docs/spec/client.md.
    ("CLI-11 progress", "lane.py", "                if file.answered > answered:", "                if True:",
     "retry_test.LostStreamsTest.test_only_an_answered_chunk_is_progress"),
    ("CLI-12 from the first failure", "patience.py", "        self._failing_since = None\n", "        self._failing_since = time.monotonic()\n",
     "retry_test.LostStreamsTest.test_time_that_the_reader_takes_is_not_the_servers"),
    ("CLI-15 met", "patience.py", "        if failure.reason:\n", "        if False:\n",
     "retry_test.LostStreamsTest.test_each_reason_that_may_pass"),
    ("CLI-16 codes", "errors.py", "grpc.StatusCode.INTERNAL: Action.RETRY, grpc.StatusCode.UNKNOWN: Action.RETRY,", "",
     "retry_test.LostStreamsTest.test_statuses_of_grpcs_own"),
    ("CLI-24 what an index must have", "collect.py", "needed, has_gone_back = (epoch if epoch > 1 else 0), False", "needed, has_gone_back = 0, False",
     "collect_test.IndexThatGoesBackTest.test_an_old_copy_is_not_believed"),
    ("CLI-25 a new epoch to count from", "collect.py", "while self._epoch - 1 <= self._told:", "while self._epoch - 1 < self._told:",
     "collect_test.IndexThatGoesBackTest.test_an_old_copy_is_not_believed"),
    # The protocol.
    ("PRO entries of a Commit", "uncommitted.py", "min(limits.max_commit_entries, min(", "min(10**6, min(",
     "upload_test.BoundsTest.test_commits_and_messages_keep_to_the_servers_limits"),
    ("PRO bytes of a message", "lane.py", "min(_BLOCK_BYTES, self.limits.max_message_bytes // 2,", "min(_BLOCK_BYTES,",
     "upload_test.BoundsTest.test_commits_and_messages_keep_to_the_servers_limits"),
    ("PRO uncommitted chunks", "lane.py", "return uncommitted.count + coming <= self.limits.max_uncommitted_chunks or", "return True or",
     "upload_test.BoundsTest.test_uncommitted_chunks_keep_to_the_servers_limit"),
    ("PRO content hash", "file.py", "        self.content.update(block)\n", "",
     "upload_test.UploadTest.test_a_recipe_is_the_file"),
    ("PRO one content hash a stream", "file.py", "        self.is_done = False\n        self.content = ContentHash()",
     "        self.is_done = False\n        self.content = getattr(self, 'content', None) or ContentHash()",
     "retry_test.LostStreamsTest.test_many_losses_one_behind_the_other"),
    ("PRO memory", "lane.py", "file.unanswered + self._bounds.block <= self._bounds.window and", "True and",
     "upload_test.BoundsTest.test_what_is_read_ahead_of_answers_is_bounded"),
    ("PRO a window that a cut needs", "lane.py", "self.window = max(settings.window_bytes, self._least_window)",
     "self.window = max(settings.window_bytes, self.block)", "upload_test.BoundsTest.test_the_window_is_as_long_as_a_cut_needs"),
    ("CLI-5 of any server", "lane.py", "if largest > _LARGEST_CHUNK_BYTES:", "if False:",
     "upload_test.BoundsTest.test_a_profile_without_an_end_is_refused"),
    ("PRO-71 an answer's length", "channel.py", "_MAX_ANSWER_BYTES = 2 * 1024 * 1024", "_MAX_ANSWER_BYTES = 4 * 1024 * 1024",
     "upload_test.BoundsTest.test_an_answer_that_is_too_long_ends_the_stream"),
    ("PRO-71 answers that wait", "stream.py", "self._waiting_bytes < _WAITING_ANSWER_BYTES or self._is_closed", "True",
     "stream_test.FloodTest.test_answers_that_nobody_takes_do_not_grow"),
    ("PRO a verdict that is not known", "keeper.py", "is_duplicate = verdict == pb.VERDICT_DUPLICATE",
     "is_duplicate = verdict not in (pb.VERDICT_NEW, pb.VERDICT_UNVERIFIED)",
     "upload_test.UploadTest.test_a_verdict_that_nobody_knows_is_new"),
    ("PRO an answer before Opened that is not known", "lane.py", " or answer.WhichOneof(\"answer\") is None:", ":",
     "upload_test.UploadTest.test_an_answer_that_nobody_knows_is_passed_over"),
    ("PRO GoAway", "lane.py", '            case "go_away":\n                raise StreamEnded(Failure(Action.RETRY, "the server stops", reason="DRAINING", server=self._worker.text))\n',
     "", "retry_test.LostStreamsTest.test_every_moment_is_survived"),
    ("PRO silence", "lane.py", "if silent_s >= self._settings.silence_s:", "if silent_s >= 12:",
     "retry_test.LostStreamsTest.test_silence_is_a_loss_and_its_worker_is_avoided"),
    ("PRO silence is the server's", "lane.py", "            self._busy_until = time.monotonic()\n", "",
     "retry_test.LostStreamsTest.test_time_that_the_store_takes_is_no_silence"),
    ("CLI-42 words that say nothing", "stream.py", "    return kind is not None and (kind", "    return True or (kind",
     "retry_test.LostStreamsTest.test_cli_42_whoever_says_nothing_in_many_messages_is_silent"),
    ("CLI-42 nor do they end a silence", "lane.py", "                if not says_something(answer):\n", "                if False:\n",
     "retry_test.LostStreamsTest.test_cli_42_whoever_says_nothing_in_many_messages_is_silent"),
    ("PRO final reasons", "errors.py", "action = _BY_REASON.get(info.reason, Action.FINAL)", "action = _BY_REASON.get(info.reason, Action.RETRY)",
     "retry_test.LostStreamsTest.test_each_reason_that_is_final"),
    ("PRO once", "patience.py", "            if kind in self._once:", "            if False:", "retry_test.LostStreamsTest.test_once"),
    ("PRO RetryInfo", "patience.py", "wait_s = max(wait_s, failure.delay_s or 0.0)", "wait_s += 0.0",
     "retry_test.PatienceTest.test_retry_info_comes_first"),
    ("PRO jitter", "patience.py", " * random.uniform(0.5, 1.0)", "", "retry_test.PatienceTest.test_waits_grow_to_20_s_and_are_jittered_by_half"),
    ("PRO nobody was met", "patience.py", "if not self._servers.is_met and", "if False and",
     "retry_test.PatienceTest.test_nobody_who_was_never_met_is_waited_for"),
    ("PRO deadlines", "index.py", "timeout=CALL_S, ", "", "collect_test.CollectTest.test_what_no_snapshot_needs_goes"),
    ("PRO request ids", "channel.py", '[("kerf-request-id", uuid.uuid4().hex)]', "[]", "upload_test.UploadTest.test_a_recipe_is_the_file"),
    ("PRO a token in the clear", "channel.py", "        if self.token is not None and self.tls is None and not address.is_unix:",
     "        if False:", "channel_test.TokenTest.test_never_in_the_clear"),
    ("CLI-27 a token that is none", "channel.py", "if not _TOKEN.fullmatch(token):", "if False:",
     "channel_test.TokenTest.test_one_that_is_none_is_said_and_not_shown"),
    ("CLI-4 pings", "channel.py", "(\"grpc.keepalive_time_ms\", 40_000)", "(\"grpc.keepalive_time_ms\", 4_000)",
     "channel_test.OptionsTest.test_cli_4_pings_are_sent_and_not_too_often"),
    ("ROUTE whom a certificate has to be of", "channel.py", "self.tls.name if worker_name is None else worker_name:", "self.tls.name:",
     "channel_test.OptionsTest.test_rou_8_whom_a_certificate_has_to_be_of"),
    ("PRO a token for another user", "channel.py", "            if user not in (0, os.geteuid()):", "            if False:",
     "channel_test.TokenTest.test_not_at_a_socket_of_another_user"),
    ("PRO a token for whoever has no number", "channel.py", "            if may_be_anybody(user):", "            if False:",
     "channel_test.TokenTest.test_not_at_a_socket_of_whoever_has_no_number"),
    ("ROUTE shard key", "routing.py", "lane {lane}", "lane{lane}", "channel_test.AddressTest.test_shard_keys_are_those_of_the_specification"),
    ("ROUTE addresses that mean others", "routing.py", "        return server.is_unix\n", "        return True\n",
     "channel_test.AddressTest.test_addresses_that_mean_another_machine_here_than_there"),
    ("ROUTE detour", "routing.py", "            self._is_detour = True\n", "            self._is_detour = False\n",
     "channel_test.DirectTest.test_a_worker_that_opens_nothing_costs_one_try"),
    ("ROUTE avoided until a chunk is answered", "routing.py", "        self._avoided.clear()\n", "",
     "retry_test.LostStreamsTest.test_workers_that_a_client_avoids"),
]


class TableTest(unittest.TestCase):
    """Quick: run with the other tests, so that a change of the client takes its mutants along."""

    def test_each_text_is_there_once(self):
        for rule, file, there, instead, _ in MUTANTS:
            with self.subTest(rule):
                self.assertEqual((PACKAGE / file).read_text(encoding="utf-8").count(there), 1, f"'{there}' in {file}")
                self.assertNotEqual(there, instead)

    def test_each_names_a_test(self):
        for rule, *_, test in MUTANTS:
            with self.subTest(rule):
                found = unittest.TestLoader().loadTestsFromName(test)
                self.assertGreater(found.countTestCases(), 0, test)
                self.assertNotIn("_FailedTest", str(found), test)

    def test_each_has_a_name_of_its_own(self):
        names = [rule for rule, *_ in MUTANTS]
        self.assertEqual(len(names), len(set(names)))

    def test_what_the_kit_cannot_see_is_a_mutant(self):
        kit = importlib.import_module("mutants")
        self.assertLessEqual(set(kit.UNSEEN), {rule for rule, *_ in MUTANTS})
        of_go = (KIT.parent / "go/mutants/table.go").read_text(encoding="utf-8")
        for rule in kit.UNSEEN_OF_GO:
            with self.subTest(rule):
                self.assertIn(f'\t{{"{rule}", ', of_go)

    def test_one_that_was_starved_is_played_once_more(self):
        kit = importlib.import_module("mutants")
        answers = {"one": [("CON-1: hung: nothing for 120 s, and its first line is owed", ""), ("", "CON-2")],
                   "two": [("no case has failed", "")],
                   "three": 2 * [("CON-1: hung: nothing for 120 s, and its first line is owed", "")]}
        with mock.patch.object(kit, "play", lambda _, rule: answers[rule].pop(0)), contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(kit.judge(mock.Mock(), list(answers)), ["two", "three"])
        self.assertEqual(said.getvalue().count("once more"), 2)


class MutantsTest(unittest.TestCase):
    def test_each_is_caught(self):
        chosen = os.environ.get("KERF_MUTANTS", "").split(",") if os.environ.get("KERF_MUTANTS") else None
        with tempfile.TemporaryDirectory(prefix="kerf-mutants-") as folder:
            mutant = pathlib.Path(folder) / "kerf"
            shutil.copytree(PACKAGE, mutant, ignore=shutil.ignore_patterns("__pycache__"))
            for rule, file, there, instead, test in MUTANTS:
                if chosen and not any(rule.startswith(name) for name in chosen):
                    continue
                with self.subTest(rule):
                    text = (PACKAGE / file).read_text(encoding="utf-8")
                    self.assertEqual(text.count(there), 1, f"{rule}: '{there}' in {file}")
                    (mutant / file).write_text(text.replace(there, instead), encoding="utf-8")
                    self.assertTrue(self.is_caught(folder, test), f"{rule} was left out, and {test} has passed")
                    (mutant / file).write_text(text, encoding="utf-8")

    def is_caught(self, folder, test):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((folder, str(KIT))), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run([sys.executable, "-m", "unittest", "--failfast", test], cwd=TESTS, env=environment, check=False,
                                  capture_output=True, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            return True
        self.assertIn(b"Ran ", done.stderr, done.stderr.decode())
        self.assertNotIn(b"SyntaxError", done.stderr)
        self.assertNotIn(b"unittest.loader._FailedTest", done.stderr)
        return done.returncode != 0


if __name__ == "__main__":
    unittest.main()
