package kerf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kerf/client/go/kerfv1"
)

func TestUploadARecipeIsTheFile(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	for number, size := range []int{0, 1, fakeChunkBytes - 1, fakeChunkBytes, fakeChunkBytes + 1, 1_500_000} {
		data := content(size, uint64(number))
		recipe := w.upload(client, data)
		equal(t, "size", recipe.Size, int64(size))
		equal(t, "new bytes", recipe.NewBytes, int64(size))
		equal(t, "untold", recipe.UntoldChunks, 0)
		w.isTold(recipe)
		again := w.upload(client, data)
		equal(t, "new again", again.NewChunks, 0)
		equal(t, "chunks again", fmt.Sprint(again.Chunks), fmt.Sprint(recipe.Chunks))
	}
	client.Close()
	equal(t, "streams", len(w.fake.opens), 1)
	open := w.fake.opens[0]
	equal(t, "repository", open.GetRepository(), "tests")
	equal(t, "profile", open.GetProfile(), "mincdc-8k")
	equal(t, "digest", open.GetDigestAlgorithm(), kerfv1.DigestAlgorithm_DIGEST_ALGORITHM_SHA256)
	equal(t, "key", string(w.fake.files[0].GetFileKey()), "file")
	same(t, "features", open.GetFeatures(), []string{"index-epoch"})
}

func TestUploadCol2TheEpochThenThePlanThenTheFirstStream(t *testing.T) {
	w := newWorld(t)
	w.store.epoch = 5
	recipe := w.upload(w.open(), content(5000))
	same(t, "order", w.log.of("epoch", "plan", "open"), []string{"epoch", "plan", "open 5"})
	equal(t, "seen", recipe.Seen, Seen{5, false})
}

func TestUploadCol5WithoutEpochOrPlanNothingBegins(t *testing.T) {
	for _, event := range []string{"epoch", "plan", "damaged", "later", "zero"} {
		w := newWorld(t)
		w.store.before = func(happens string) error {
			if happens == event {
				return errors.New("cannot be read")
			}
			return nil
		}
		switch event {
		case "damaged":
			w.store.plan = []byte("no plan at all, and long enough to be one of them")
		case "later":
			w.store.plan = sealed(`{"version": 2}`)
		case "zero":
			w.store.epoch = 0
		}
		_, err := w.open().Upload(context.Background(), reader(content(10)), nil)
		failsWith[*StoreError](t, err, "")
		failsWith[*Refused](t, err, "")
		equal(t, "streams", len(w.log.of("open")), 0)
	}
}

func sealed(text string) []byte { return append(sha([]byte(text)), text...) }

func TestUploadCol7AStoreThatIsNeverCollectedIsAt1(t *testing.T) {
	w := newWorld(t)
	w.store.epoch = 9
	client := w.openAt([]string{w.fake.name}, plainStore{w.store})
	recipe := w.upload(client, content(5000))
	equal(t, "seen", recipe.Seen, Seen{1, false})
	equal(t, "epoch", w.fake.opens[0].GetStoreEpoch(), 1)
	if client.Snapshot("one", []*Recipe{recipe}) == nil {
		t.Fatal("a snapshot in a store that has none")
	}
	if _, err := client.Collect(context.Background(), w.store.roots); err == nil {
		t.Fatal("a collection of a store that has none")
	}
}

func TestUploadCol11And12WhatTheStoreHasIsCommittedFromThere(t *testing.T) {
	for _, verdict := range []kerfv1.Verdict{kerfv1.Verdict_VERDICT_UNVERIFIED, kerfv1.Verdict_VERDICT_NEW, 9} {
		w := newWorld(t)
		w.fake.verdict = func([]byte, kerfv1.Verdict) kerfv1.Verdict { return verdict }
		data := content(4 * fakeChunkBytes)
		place := w.store.addAs(sha(data[:fakeChunkBytes]), data[:fakeChunkBytes])
		recipe := w.upload(w.open(), data)
		// What is not there is stored, whatever the verdict; one that nobody knows is NEW (PRO-14).
		equal(t, "new", recipe.NewChunks, 3)
		w.isTold(recipe)
		equal(t, "place", w.fake.index.entries[string(sha(data[:fakeChunkBytes]))].locator, string(place))
	}
}

func TestUploadAnAnswerThatNobodyKnowsIsPassedOver(t *testing.T) {
	w := newWorld(t)
	unknown := func(s *fakeStream) error {
		s.answers = append([]*kerfv1.UploadAnswer{{}}, s.answers...)
		s.answer(&kerfv1.UploadAnswer{})
		return nil
	}
	w.fake.faults = map[moment]fault{{"opened", 1}: unknown, {"chunks", 1}: unknown}
	w.upload(w.open(), content(5000))
}

func TestUploadCol13And16AStaleDuplicateIsStoredReportedAndCommitted(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	data := content(6 * fakeChunkBytes)
	recipe := w.upload(client, data)
	stale := map[string]string{}
	for number, chunk := range recipe.Chunks {
		if number%2 == 0 {
			locator := w.fake.index.entries[string(chunk.Digest)].locator
			stale[string(chunk.Digest)] = locator
			delete(w.store.content, locator)
		}
	}
	w.log.clear()
	again := w.upload(client, append(bytes.Clone(data), data...))
	equal(t, "new", again.NewChunks, len(stale))
	equal(t, "reports", len(w.fake.reports), len(stale))
	for _, report := range w.fake.reports {
		equal(t, "locator of the answer", report.locator, stale[report.digest])
	}
	same(t, "order", w.log.of("report", "commit"), []string{"report", "commit"})
	w.isTold(again)
}

// A sizedStore is a memoryStore that looks how long a chunk is.
type sizedStore struct{ *memoryStore }

func (s sizedStore) HasOfLength(digest []byte, length int) ([][]byte, error) {
	places, err := s.Has(digest)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.DeleteFunc(places, func(place []byte) bool { return len(s.content[string(place)].data) != length }), err
}

func TestUploadAChunkThatHasRotted(t *testing.T) {
	w := newWorld(t)
	client := w.openAt([]string{w.fake.name}, sizedStore{w.store})
	data := content(3 * fakeChunkBytes)
	recipe := w.upload(client, data)
	locator := w.fake.index.entries[string(recipe.Chunks[1].Digest)].locator
	rotten := w.store.content[locator]
	rotten.data = rotten.data[1:]
	w.store.content[locator] = rotten
	if _, whole, err := client.Reuse(recipe); whole || err != nil {
		t.Fatal("CLI-36: a file with a chunk that has rotted is taken over", err)
	}
	again, err := client.Upload(context.Background(), reader(data), []byte("file"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "new", again.NewChunks, 1)
	equal(t, "reports", len(w.fake.reports), 1)
}

func TestUploadCol15WhatIsCondemnedIsStoredAnewWhateverTheVerdict(t *testing.T) {
	for _, verdict := range []kerfv1.Verdict{kerfv1.Verdict_VERDICT_DUPLICATE, kerfv1.Verdict_VERDICT_UNVERIFIED, kerfv1.Verdict_VERDICT_NEW} {
		w := newWorld(t)
		data := content(4 * fakeChunkBytes)
		w.upload(w.open(), data)
		condemned := map[string]bool{}
		for locator := range w.store.content {
			condemned[locator] = true
		}
		w.store.plan = (&plan{lastEpoch: 3, condemned: condemned}).encode()
		w.do(func(fake *fake) {
			fake.verdict = func([]byte, kerfv1.Verdict) kerfv1.Verdict { return verdict }
			fake.commits = nil
		})
		equal(t, "new", w.upload(w.open(), data).NewChunks, 4)
		for _, commit := range w.fake.commits {
			if condemned[commit.locator] {
				t.Fatal("COL-21: a condemned place was committed")
			}
		}
		// CLI-21.
		equal(t, "reports", len(w.fake.reports), 0)
		if verdict == kerfv1.Verdict_VERDICT_DUPLICATE {
			equal(t, "commits", len(w.fake.commits), 0)
		}
	}
}

func TestUploadCol15ASafePlaceBesideACondemnedOneIsCountedOn(t *testing.T) {
	w := newWorld(t)
	data := content(fakeChunkBytes)
	w.upload(w.open(), data)
	condemned := map[string]bool{}
	for locator := range w.store.content {
		condemned[locator] = true
	}
	place := w.store.addAs(sha(data), data)
	w.store.plan = (&plan{lastEpoch: 3, condemned: condemned}).encode()
	w.do(func(fake *fake) {
		fake.verdict = func([]byte, kerfv1.Verdict) kerfv1.Verdict { return kerfv1.Verdict_VERDICT_UNVERIFIED }
		fake.commits = nil
	})
	equal(t, "new", w.upload(w.open(), data).NewChunks, 0)
	equal(t, "place", w.fake.commits[0].locator, string(place))
}

func TestUploadCol19NothingIsCommittedBeforeItIsDurable(t *testing.T) {
	// The fake judges each Commit as it comes; here the disk fails.
	w := newWorld(t)
	full := errors.New("no room")
	w.store.before = func(event string) error {
		if event == "sync" {
			return full
		}
		return nil
	}
	_, err := w.open(func(o *Options) { o.CommitBytes = 4096 }).Upload(context.Background(), reader(content(50_000)), nil)
	if !errors.Is(err, full) {
		t.Fatal(err)
	}
	equal(t, "entries", len(w.fake.index.entries), 0)
}

func TestUploadCol19WhatASyncThatFailedShouldHaveKeptIsNeverCommitted(t *testing.T) {
	// The second sync goes well, and says nothing of what the first one has lost: by another file, on another stream.
	w := newWorld(t)
	client := w.open(func(o *Options) { o.Streams = 2 })
	syncs := 0
	w.store.before = func(event string) error {
		if event != "sync" {
			return nil
		}
		if syncs++; syncs > 1 {
			return nil
		}
		w.store.mutex.Lock()
		clear(w.store.volatile)
		w.store.mutex.Unlock()
		return errors.New("an error of the disk")
	}
	data := content(10 * fakeChunkBytes)
	if _, err := client.Upload(context.Background(), reader(data), nil); err == nil {
		t.Fatal("it went well")
	}
	_, err := client.Upload(context.Background(), reader(data), nil)
	failsWith[*StoreError](t, err, "could not sync")
	failsWith[*StoreError](t, client.Snapshot("one", nil), "could not sync")
	equal(t, "entries", len(w.fake.index.entries), 0)
	w.upload(w.open(), data)
}

func TestUploadCol20ANameOfAnotherWriterIsMadeDurableFirst(t *testing.T) {
	w := newWorld(t)
	data := content(fakeChunkBytes)
	place := w.store.addAs(sha(data), data)
	client := w.open()
	w.upload(client, data)
	// Also where it is only counted on.
	w.store.atRisk[string(place)] = true
	w.upload(client, data)
	equal(t, "at risk", len(w.store.atRisk), 0)
}

// badStore returns a locator that is none.
type badStore struct {
	*memoryStore
	locator []byte
}

func (b badStore) Put([]byte, []byte) ([]byte, error) { return b.locator, nil }

func TestUploadLocatorsOfPutAreChecked(t *testing.T) {
	w := newWorld(t)
	for _, locator := range [][]byte{nil, {}, make([]byte, 65)} {
		client := w.openAt([]string{w.fake.name}, badStore{w.store, locator})
		if _, err := client.Upload(context.Background(), reader([]byte("x")), nil); err == nil {
			t.Fatal("a locator of", len(locator), "bytes")
		}
	}
	equal(t, "commits", len(w.fake.commits), 0)
}

// halfStore has something of a store that is collected.
type halfStore struct{ Store }

func (halfStore) Epoch() (uint64, error) { return 3, nil }

func TestOpenArguments(t *testing.T) {
	w := newWorld(t)
	many := make([]byte, 65)
	for i := range many {
		many[i] = 'a'
	}
	for name, act := range map[string]func() (*Client, error){
		"no server":  func() (*Client, error) { return Open(nil, "r", w.store, nil) },
		"address":    func() (*Client, error) { return Open([]string{"a b"}, "r", w.store, nil) },
		"socket":     func() (*Client, error) { return Open([]string{"unix:"}, "r", w.store, nil) },
		"repository": func() (*Client, error) { return Open([]string{"h"}, "a/b", w.store, nil) },
		"empty":      func() (*Client, error) { return Open([]string{"h"}, "", w.store, nil) },
		"long":       func() (*Client, error) { return Open([]string{"h"}, string(many), w.store, nil) },
		"streams":    func() (*Client, error) { return Open([]string{"h"}, "r", w.store, &Options{Streams: -1}) },
		"digest":     func() (*Client, error) { return Open([]string{"h"}, "r", w.store, &Options{Digest: 7}) },
		"key":        func() (*Client, error) { return Open([]string{"h"}, "r", w.store, &Options{TLS: &TLS{CertFile: "c"}}) },
		"token":      func() (*Client, error) { return Open([]string{"h"}, "r", w.store, &Options{Token: Token("t")}) },
		"store":      func() (*Client, error) { return Open([]string{"h"}, "r", nil, nil) },
		"half":       func() (*Client, error) { return Open([]string{"h"}, "r", halfStore{w.store}, nil) },
	} {
		if _, err := act(); err == nil {
			t.Error(name, "is taken")
		}
	}
	client := w.open()
	if _, err := client.Upload(context.Background(), reader(nil), make([]byte, 4097)); err == nil {
		t.Error("a long key is taken")
	}
	client.Close()
	client.Close()
	if _, err := client.Upload(context.Background(), reader(nil), nil); err == nil {
		t.Error("a closed client uploads")
	}
	// Calls of its own would open connections that nobody closes.
	if _, err := client.Collect(context.Background(), w.store.roots); !errors.Is(err, errClosed) {
		t.Error("a closed client collects:", err)
	}
	if _, err := client.index.epoch(context.Background(), time.Second); !errors.Is(err, errClosed) {
		t.Error("a closed client calls:", err)
	}
}

func TestOpenNamesThatAreNoText(t *testing.T) {
	w := newWorld(t)
	if _, err := Open([]string{"h"}, "r", w.store, &Options{Profile: "a\xff"}); err == nil {
		t.Error("a profile that no message can carry is taken")
	}
	// Cut in the middle of a character.
	w.upload(w.open(func(o *Options) { o.Agent = "a" + strings.Repeat("\u00e9", 100) }), fileData)
	equal(t, "agent", w.fake.opens[0].GetAgent(), "a"+strings.Repeat("\u00e9", 63))
}

func TestUploadManyAtATime(t *testing.T) {
	w := newWorld(t)
	client := w.open(func(o *Options) { o.Streams = 3 })
	var group sync.WaitGroup
	for number := range 9 {
		group.Go(func() {
			data := content(40_000, uint64(number))
			recipe, err := client.Upload(context.Background(), reader(data), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if restored, err := w.store.restore(recipe); err != nil || !bytes.Equal(restored, data) {
				t.Error("a recipe is not its file:", err)
			}
		})
	}
	group.Wait()
	if len(w.fake.opens) > 3 {
		t.Error(len(w.fake.opens), "streams")
	}
}

// Readers.

type badReader struct {
	data []byte
	err  error
}

func (b *badReader) Read(into []byte) (int, error) {
	n := copy(into, b.data)
	b.data = b.data[n:]
	if n > 0 && b.err != io.EOF {
		return n, nil
	}
	// With io.EOF: data and the end at once.
	return n, b.err
}

func TestUploadAReaderThatFailsIsNoEnd(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	for _, err := range []error{io.ErrUnexpectedEOF, errors.New("a bad sector"), nil} {
		_, is := client.Upload(context.Background(), &badReader{content(5000), err}, nil)
		if wanted := map[bool]error{true: err, false: io.ErrNoProgress}[err != nil]; !errors.Is(is, wanted) {
			t.Fatalf("%v, not %v", is, wanted)
		}
	}
	data := content(5000)
	recipe, err := client.Upload(context.Background(), &badReader{data, io.EOF}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.isWhole(recipe, data)
}

func TestUploadAReaderThatPanicsLeavesNothingBehind(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	client := w.open(smallCommits)
	source := reader(fileData)
	source.before = func(offset int) {
		if offset > 20<<10 {
			panic("a bug of the caller's")
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it was swallowed")
			}
		}()
		_, _ = client.Upload(context.Background(), source, nil)
	}()
	w.isTold(w.upload(client, fileData))
	equal(t, "streams", len(w.fake.opens), 2)
}

func TestUploadASeekerGoesOnFromWhereItIs(t *testing.T) {
	w := newWorld(t)
	data := content(5000)
	source := bytes.NewReader(data)
	_, _ = source.Seek(100, io.SeekStart)
	recipe, err := w.open().Upload(context.Background(), source, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.isWhole(recipe, data[100:])
	equal(t, "hint", w.fake.files[0].GetSizeHintBytes(), 4900)
}
