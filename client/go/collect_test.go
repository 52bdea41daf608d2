package kerf

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// docs/spec/collection.md, COL-40 to COL-61: collections in their order, beside agents at every moment, dying at any, and
// with an index that has gone back.

var (
	deadData  = content(3*fakeChunkBytes, 11)
	liveData  = content(2*fakeChunkBytes, 12)
	freshData = content(2*fakeChunkBytes, 13)
	errDied   = errors.New("it died")
)

// newCollecting: a snapshot was forgotten: its own chunks are garbage.
func newCollecting(t *testing.T) *world {
	w := newWorld(t)
	client := w.open()
	w.snapshot(client, "old", deadData, liveData)
	w.snapshot(client, "new", liveData)
	client.Close()
	delete(w.store.snapshots, "old")
	w.log.clear()
	return w
}

func (w *world) snapshot(client *Client, name string, files ...[]byte) {
	w.t.Helper()
	var recipes []*Recipe
	for _, data := range files {
		recipes = append(recipes, w.upload(client, data))
	}
	if err := client.Snapshot(name, recipes); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) collect() (*Collected, error) {
	client := w.open()
	defer client.Close()
	return client.Collect(context.Background(), w.store.roots)
}

func (w *world) mustCollect() *Collected {
	w.t.Helper()
	done, err := w.collect()
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// backUp as an agent does: until it is a snapshot.
func (w *world) backUp(name string, data []byte) {
	w.t.Helper()
	client := w.open()
	defer client.Close()
	for range 5 {
		recipe, err := client.Upload(context.Background(), bytes.NewReader(data), []byte(name))
		if err == nil {
			err = client.Snapshot(name, []*Recipe{recipe})
		}
		var behind *EpochBehind
		var lost *ChunksLost
		switch {
		case err == nil:
			return
		case errors.As(err, &behind) && behind.IsSetBack:
			_, _ = w.collect()
		case !errors.As(err, &lost) && behind == nil:
			w.t.Fatal(err)
		}
	}
	w.t.Fatal("it never became a snapshot")
}

// isRestorable: each snapshot is.
func (w *world) isRestorable() {
	w.t.Helper()
	for name, body := range w.store.snapshots {
		recipes, err := DecodeRecipes(body)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, recipe := range recipes {
			if _, err := w.store.restore(recipe); err != nil {
				w.t.Fatalf("snapshot %s is lost: %v", name, err)
			}
		}
	}
}

// isSound: and what the index calls a duplicate in the store's epoch is there.
func (w *world) isSound() {
	w.t.Helper()
	w.isRestorable()
	w.fake.mutex.Lock()
	defer w.fake.mutex.Unlock()
	if w.store.plan != nil {
		return // Until a collection has come to its end, agents look for themselves.
	}
	for digest, entry := range w.fake.index.entries {
		isThere := false
		for _, chunk := range w.store.content {
			isThere = isThere || chunk.digest == digest
		}
		if !isThere && max(w.fake.index.epoch, entry.epoch) >= w.store.epoch { // COL-70.
			w.t.Fatalf("the index believes %x of epoch %d, which is gone", digest[:4], entry.epoch)
		}
	}
}

// isBelieved: the index is at the store's epoch.
func (w *world) isBelieved() {
	w.t.Helper()
	if w.store.epoch > 1 {
		equal(w.t, "the index's epoch", w.fake.index.epoch, w.store.epoch)
	}
}

func TestCollectWhatNoSnapshotNeedsGoes(t *testing.T) {
	w := newCollecting(t)
	done := w.mustCollect()
	equal(t, "deleted", done.DeletedChunks, 3)
	equal(t, "bytes", done.DeletedBytes, int64(len(deadData)))
	equal(t, "kept", done.KeptChunks, 2)
	equal(t, "believed", done.IsIndexBelieved, true)
	equal(t, "epoch", done.Epoch, 3)
	equal(t, "places", len(w.store.content), 2)
	equal(t, "entries", len(w.fake.index.entries), 2)
	if w.store.plan != nil || w.store.isLocked {
		t.Error("COL-57: plan or lock are there")
	}
	w.isSound()
	w.isBelieved()
	// CLI-26: nothing to do is nothing done.
	w.log.clear()
	equal(t, "deleted again", w.mustCollect().DeletedChunks, 0)
	equal(t, "raised again", len(w.log.of("raise", "write_plan", "advance")), 0)
}

func TestCollectTheOrder(t *testing.T) {
	w := newCollecting(t)
	w.mustCollect()
	same(t, "order", w.log.of("lock", "roots", "chunks", "write_plan", "raise", "advance", "forget", "delete", "remove_plan", "unlock"), []string{
		"lock", "roots", "chunks", "write_plan", "raise 2", "advance 2", "roots", "forget", "raise 3", "advance 3", "forget",
		"write_plan", "delete", "delete", "delete", "remove_plan", "unlock"})
}

func TestCollectCol40OneAtATime(t *testing.T) {
	w := newCollecting(t)
	w.store.isLocked = true
	_, err := w.collect()
	failsWith[*Retryable](t, err, "another collection")
	equal(t, "places", len(w.store.content), 5)
}

func TestCollectCol43TheEpochIsTheLargestOfAll(t *testing.T) {
	for name, change := range map[string]func(*world){
		"store": func(w *world) { w.store.epoch, w.fake.index.epoch = 9, 9 },
		"index": func(w *world) { w.fake.index.epoch = 9 },
		"plan":  func(w *world) { w.store.plan = (&plan{lastEpoch: 9}).encode() },
	} {
		w := newCollecting(t)
		change(w)
		w.mustCollect()
		if w.store.epoch <= 10 {
			t.Error(name, w.store.epoch)
		}
		w.isSound()
		w.isBelieved()
	}
}

func TestCollectCol43NoIndexIsFollowedTooFar(t *testing.T) {
	w := newCollecting(t)
	w.fake.index.epoch = largestEpoch + 1
	_, err := w.collect()
	failsWith[*Refused](t, err, "an operator")
	equal(t, "epoch", w.store.epoch, 1)
}

func TestCollectCol43ADamagedPlanIsTheWorst(t *testing.T) {
	w := newCollecting(t)
	w.store.plan = []byte("damaged")
	w.mustCollect()
	equal(t, "forgotten", len(w.log.of("forget_older")) > 0, true)
	w.isSound()
	w.isBelieved()
	later := newCollecting(t)
	later.store.plan = sealed(`{"version": 2}`)
	_, err := later.collect()
	failsWith[*StoreError](t, err, "newer")
	equal(t, "places", len(later.store.content), 5)
}

func TestCollectCol45WhatCannotBeReadStopsIt(t *testing.T) {
	for _, event := range []string{"roots", "chunks", "epoch", "plan", "write_plan", "raise 2", "raise 3", "delete", "remove_plan", "lock", "unlock"} {
		w := newCollecting(t)
		bad := errors.New("bad")
		w.store.before = func(happens string) error {
			if happens == event {
				return bad
			}
			return nil
		}
		if _, err := w.collect(); !errors.Is(err, bad) {
			t.Error(event, err)
		}
		if event != "remove_plan" && event != "unlock" {
			equal(t, event, len(w.store.content), 5)
		}
	}
}

func TestCollectCli29ADamagedSnapshotEndsIt(t *testing.T) {
	w := newCollecting(t)
	body := w.store.snapshots["new"]
	for _, bad := range damagedFormsOf(body) {
		w.store.snapshots["new"] = bad
		_, err := w.collect()
		failsWith[*StoreError](t, err, "damaged")
	}
	equal(t, "places", len(w.store.content), 5)
	equal(t, "what it did", len(w.log.of("write_plan", "raise", "advance", "forget", "delete")), 0)
	w.store.snapshots["new"] = body
	equal(t, "deleted", w.mustCollect().DeletedChunks, 3)
	w.isSound()
}

// damagedFormsOf a file: each byte another, once; each truncation; longer.
func damagedFormsOf(body []byte) (damaged [][]byte) {
	for at := range body {
		flipped := bytes.Clone(body)
		flipped[at] ^= 1
		damaged = append(damaged, flipped, body[:at])
	}
	return append(damaged, append(bytes.Clone(body), ' '))
}

func TestCollectCol51WhoWasPublishedBeforeHeSawThePlanKeepsHisChunks(t *testing.T) {
	w := newCollecting(t)
	agent := w.open()
	recipe := w.upload(agent, deadData)
	w.store.setBefore(func(event string) error {
		if event == "write_plan" {
			w.store.setBefore(func(string) error { return nil })
			w.store.mutex.Lock()
			w.store.pending["agent"] = EncodeRecipes([]*Recipe{recipe})
			w.store.mutex.Unlock()
		}
		return nil
	})
	equal(t, "deleted", w.mustCollect().DeletedChunks, 0)
	w.isWhole(recipe, deadData)
}

func TestCollectCol59CallsAreMadeAgain(t *testing.T) {
	for _, name := range []string{"GetIndexStats", "AdvanceEpoch", "ForgetChunks"} {
		w := newCollecting(t)
		w.fake.faults = manyFaults(name, fails(codes.Unavailable, "INDEX_UNAVAILABLE"), 1, 2)
		w.mustCollect()
		w.isSound()
		w.isBelieved()
	}
}

func TestCollectACallThatIsRefusedEndsItAndTheNextOneGoesOn(t *testing.T) {
	for _, name := range []string{"GetIndexStats", "AdvanceEpoch", "ForgetChunks"} {
		for number := 1; number < 3; number++ {
			if name == "GetIndexStats" && number == 2 {
				continue
			}
			w := newCollecting(t)
			w.fake.faults = manyFaults(name, fails(codes.PermissionDenied, "NOT_YOURS"), number)
			_, err := w.collect()
			failsWith[*Refused](t, err, "NOT_YOURS")
			// COL-52.
			equal(t, "places", len(w.store.content), 5)
			w.isSound()
			w.mustCollect()
			w.isSound()
			w.isBelieved()
		}
	}
}

func TestCollectIsGivenUpByItsContext(t *testing.T) {
	w := newCollecting(t)
	ctx, cancel := context.WithCancel(context.Background())
	w.store.setBefore(func(event string) error {
		if event == "delete" {
			cancel()
		}
		return nil
	})
	if _, err := w.open().Collect(ctx, w.store.roots); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.store.setBefore(func(string) error { return nil })
	w.mustCollect()
	w.isSound()
	w.isBelieved()
}

// atMoment: `act` just before the n-th thing that a collection does in the store; how many there were.
func (w *world) atMoment(number int, act func()) (count int, err error) {
	w.store.setBefore(func(string) error {
		if count++; count == number {
			w.store.setBefore(func(string) error { return nil })
			act()
		}
		return nil
	})
	defer w.store.setBefore(func(string) error { return nil })
	_, err = w.collect()
	return count, err
}

func TestCollectAnAgentAtEveryMoment(t *testing.T) {
	isThrough := false
	for number := 1; !isThrough; number++ {
		isFine := t.Run(fmt.Sprint(number), func(t *testing.T) {
			w := newCollecting(t)
			hasActed := false
			_, err := w.atMoment(number, func() {
				hasActed = true
				w.backUp("agent", append(bytes.Clone(deadData), freshData...))
			})
			if err != nil {
				t.Fatal(err)
			}
			isThrough = !hasActed
			w.isSound()
			w.mustCollect()
			w.isSound()
		})
		if !isFine {
			return
		}
	}
}

func TestCollectAnAgentThatWasAnsweredBeforeAndPublishesAtEveryMoment(t *testing.T) {
	isThrough := false
	for number := 1; !isThrough; number++ {
		isFine := t.Run(fmt.Sprint(number), func(t *testing.T) {
			w := newCollecting(t)
			agent := w.open()
			recipe := w.upload(agent, deadData)
			hasActed := false
			_, err := w.atMoment(number, func() {
				hasActed = true
				err := agent.Snapshot("agent", []*Recipe{recipe})
				var lost *ChunksLost
				if err != nil && !errors.As(err, &lost) {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			isThrough = !hasActed
			w.isSound()
		})
		if !isFine {
			return
		}
	}
}

func TestCollectACollectionAtEveryMomentOfAnUpload(t *testing.T) {
	// An upload and its snapshot have so many things to do in the store, or fewer.
	for number := 1; number < 24; number++ {
		isFine := t.Run(fmt.Sprint(number), func(t *testing.T) {
			w := newCollecting(t)
			count := 0
			w.store.setBefore(func(string) error {
				if count++; count == number {
					w.store.setBefore(func(string) error { return nil })
					w.mustCollect()
				}
				return nil
			})
			w.backUp("agent", append(bytes.Clone(deadData), freshData...))
			w.store.setBefore(func(string) error { return nil })
			w.isSound()
			w.mustCollect()
			w.isSound()
			w.isBelieved()
		})
		if !isFine {
			return
		}
	}
}

func TestCollectOneThatDiesAtEveryMoment(t *testing.T) {
	isThrough, moments := false, 0
	for number := 1; !isThrough; number++ {
		moments = number
		isFine := t.Run(fmt.Sprint(number), func(t *testing.T) {
			w := newCollecting(t)
			count := 0
			w.store.setBefore(func(event string) error {
				// Who is dead unlocks nothing, and the lock is free.
				if count++; count >= number && event != "unlock" {
					return errDied
				}
				return nil
			})
			_, err := w.collect()
			if isThrough = err == nil; !isThrough && !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			w.store.setBefore(func(string) error { return nil })
			w.isSound()
			w.backUp("agent", deadData)
			w.isSound()
			w.mustCollect()
			w.isSound()
			w.isBelieved()
			if w.store.plan != nil {
				t.Error("a plan is there")
			}
		})
		if !isFine {
			return
		}
	}
	if moments < 15 {
		t.Error(moments, "moments")
	}
}

// An index that goes back.

func TestIndexThatGoesBackANewOneBecomesWhole(t *testing.T) {
	w := newCollecting(t)
	w.mustCollect()
	w.fake.index = newFakeIndex()
	equal(t, "believed", w.mustCollect().IsIndexBelieved, true)
	w.isSound()
	w.isBelieved()
	equal(t, "entries", len(w.fake.index.entries), 2)
	equal(t, "new", w.upload(w.open(), liveData).NewChunks, 0)
}

// An empty file, which no call takes, and a copy that was cut short, whichever of the two comes last.
func TestIndexThatGoesBackCli41PlacesThatHaveRottedAreNotTold(t *testing.T) {
	w := newCollecting(t)
	w.mustCollect()
	first, second := sha(liveData[:fakeChunkBytes]), sha(liveData[fakeChunkBytes:])
	for locator, chunk := range w.store.content {
		if chunk.digest == string(first) {
			w.store.content[locator] = memoryChunk{chunk.digest, nil}
		}
	}
	w.store.addAs(second, liveData[fakeChunkBytes:2*fakeChunkBytes-1])
	w.fake.index = newFakeIndex()
	equal(t, "believed", w.mustCollect().IsIndexBelieved, true)
	equal(t, "entries", len(w.fake.index.entries), 0)
}

func TestIndexThatGoesBackAnOldCopyIsNotBelieved(t *testing.T) {
	w := newCollecting(t)
	before := w.fake.index.copy()
	w.mustCollect()
	w.fake.index = before
	w.isSound()
	w.log.clear()
	w.mustCollect()
	w.isSound()
	w.isBelieved()
	equal(t, "entries", len(w.fake.index.entries), 2)
	// COL-60 (c) to (g), CLI-24, CLI-25.
	said := w.log.of("commit_chunks", "forget_older", "advance")
	same(t, "order", without(said, "forget_older"), []string{"advance 4", "commit_chunks 6", "advance 5", "advance 6"})
	equal(t, "older", strings.Count(fmt.Sprint(said), "forget_older 4") >= 2, true)
}

func without(events []string, word string) (left []string) {
	for _, event := range events {
		if !strings.HasPrefix(event, word) {
			left = append(left, event)
		}
	}
	return left
}

func TestIndexThatGoesBackCol50BeforeTheFence(t *testing.T) {
	w := newCollecting(t)
	before := w.fake.index.copy()
	w.mustCollect()
	w.backUp("garbage", freshData)
	delete(w.store.snapshots, "garbage")
	w.log.clear()
	w.fake.counts = map[string]int{}
	w.fake.faults[moment{"AdvanceEpoch", 1}] = func(*fakeStream) error {
		w.fake.index = before
		return nil
	}
	equal(t, "believed", w.mustCollect().IsIndexBelieved, true)
	// The plan says so before the index is told anything: else it would look sound to who comes next.
	same(t, "order", w.log.of("write_plan", "raise", "advance")[:6], []string{
		"write_plan", "raise 4", "advance 4", "write_plan", "raise 5", "advance 4"})
	w.isSound()
	w.isBelieved()
}

func TestIndexThatGoesBackAStoreThatWasSetBack(t *testing.T) {
	w := newCollecting(t)
	w.fake.index.epoch = 7
	_, err := w.open().Upload(context.Background(), bytes.NewReader(freshData), nil)
	equal(t, "is set back", failsWith[*EpochBehind](t, err, "").IsSetBack, true)
	w.mustCollect()
	equal(t, "epoch", w.store.epoch > 7, true)
	w.isSound()
	w.isBelieved()
	w.backUp("agent", freshData)
}

func TestIndexThatGoesBackAtEveryMoment(t *testing.T) {
	isThrough := false
	for number := 1; !isThrough; number++ {
		isFine := t.Run(fmt.Sprint(number), func(t *testing.T) {
			w := newCollecting(t)
			w.mustCollect()
			w.backUp("garbage", freshData)
			first := w.fake.index.copy()
			first.epoch = 1
			delete(w.store.snapshots, "garbage")
			hasActed := false
			_, err := w.atMoment(number, func() {
				hasActed = true
				w.do(func(fake *fake) { fake.index = first.copy() })
			})
			if err != nil {
				failsWith[*Retryable](t, err, "gone back")
			}
			isThrough = !hasActed
			w.isSound()
			w.backUp("agent", deadData)
			w.mustCollect()
			w.mustCollect()
			w.isSound()
			w.isBelieved()
		})
		if !isFine {
			return
		}
	}
}

func TestIndexThatGoesBackCol54SomebodyCommitsMeanwhile(t *testing.T) {
	// What B commits between the fence and the last forgetting is forgotten, and then the index is asked again.
	w := newCollecting(t)
	dead := sha(deadData[:fakeChunkBytes])
	w.store.setBefore(func(event string) error {
		if event == "raise 3" {
			w.store.setBefore(func(string) error { return nil })
			w.do(func(fake *fake) { _ = fake.index.commit(2, dead, fakeChunkBytes, []byte("late"), false) })
		}
		return nil
	})
	equal(t, "believed", w.mustCollect().IsIndexBelieved, true)
	equal(t, "epoch", w.store.epoch, 4)
	w.isSound()
	w.isBelieved()
}

func TestIndexThatGoesBackCol61OneThatIsNeverToBeBelievedIsLeftBehind(t *testing.T) {
	w := newCollecting(t)
	w.store.epoch, w.fake.neverWhole = 5, true
	done := w.mustCollect()
	equal(t, "believed", done.IsIndexBelieved, false)
	equal(t, "deleted", done.DeletedChunks, 3)
	if w.fake.index.epoch >= w.store.epoch {
		t.Error("the index is at", w.fake.index.epoch)
	}
	equal(t, "advances", len(w.log.of("advance")), 1+tellings)
}

func TestIndexThatGoesBackAFullRepositoryIsGoneOnBehind(t *testing.T) {
	w := newCollecting(t)
	w.mustCollect()
	w.fake.index = newFakeIndex()
	w.fake.faults[moment{"CommitChunks", 1}] = fails(codes.ResourceExhausted, "QUOTA_EXCEEDED")
	equal(t, "believed", w.mustCollect().IsIndexBelieved, true)
	w.isSound()
}

func TestCollectCol80WhatDiedIsToldFirst(t *testing.T) {
	for hasGoneBack, wanted := range map[bool]string{false: "advance 6", true: "advance 5"} {
		w := newCollecting(t)
		w.store.epoch, w.fake.index.epoch = 6, 4
		w.store.plan = (&plan{lastEpoch: 8, neededEpoch: 4, hasGoneBack: hasGoneBack}).encode()
		w.mustCollect()
		equal(t, "first", w.log.of("advance")[0], wanted)
		w.isSound()
		w.isBelieved()
		refused := newCollecting(t)
		refused.store.epoch, refused.fake.index.epoch = 6, 4
		refused.store.plan = (&plan{lastEpoch: 8, neededEpoch: 4, hasGoneBack: hasGoneBack}).encode()
		refused.fake.faults[moment{"AdvanceEpoch", 1}] = fails(codes.PermissionDenied, "NOT_YOURS")
		_, err := refused.collect()
		failsWith[*Refused](t, err, "NOT_YOURS")
		equal(t, "epoch", refused.store.epoch, 6)
	}
}

func TestCollectRootsThatAreNoDigestsStopIt(t *testing.T) {
	w := newCollecting(t)
	// In hexadecimal: all would be garbage.
	roots := func() iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for digest, err := range w.store.roots() {
				if !yield([]byte(hex.EncodeToString(digest)), err) {
					return
				}
			}
		}
	}
	_, err := w.open().Collect(context.Background(), roots)
	failsWith[*StoreError](t, err, "a root has 64 bytes")
	equal(t, "places", len(w.store.content), 5)
	// So would be what a store lists so.
	for locator, chunk := range w.store.content {
		w.store.content[locator] = memoryChunk{hex.EncodeToString([]byte(chunk.digest)), chunk.data}
	}
	_, err = w.collect()
	failsWith[*StoreError](t, err, "a chunk has 64 bytes")
	equal(t, "places", len(w.store.content), 5)
}

func TestCollectRootsThatFailMidway(t *testing.T) {
	w := newCollecting(t)
	bad := errors.New("bad")
	roots := func() iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			if yield(sha(liveData[:fakeChunkBytes]), nil) {
				yield(nil, bad)
			}
		}
	}
	if _, err := w.open().Collect(context.Background(), roots); !errors.Is(err, bad) {
		t.Fatal(err)
	}
	equal(t, "places", len(w.store.content), 5)
}
