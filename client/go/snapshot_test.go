package kerf

import (
	"errors"
	"testing"

	"kerf/client/go/kerfv1"
)

func TestSnapshotTheShortWay(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	recipe := w.upload(client, fileData)
	w.log.clear()
	if err := client.Snapshot("one", []*Recipe{recipe}); err != nil {
		t.Fatal(err)
	}
	// COL-26 to COL-28: nothing is looked up.
	same(t, "order", w.log.of("publish", "epoch", "plan", "has", "confirm"), []string{"publish", "epoch", "plan", "confirm"})
	read, err := DecodeRecipes(w.store.snapshots["one"])
	if err != nil {
		t.Fatal(err)
	}
	w.isWhole(read[0], fileData)
	equal(t, "key", string(read[0].Key), "file")
	// COL-36.
	equal(t, "seen", read[0].Seen, Seen{0, true})
}

func TestSnapshotCol26AllIsDurableBeforeItIsPending(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	data := content(fakeChunkBytes)
	recipe := w.upload(client, data)
	kept, is, err := client.Reuse(recipe)
	if !is || err != nil {
		t.Fatal(is, err)
	}
	for place := range w.store.content {
		w.store.atRisk[place] = true
	}
	w.store.before = func(event string) error {
		if event == "publish" && len(w.store.atRisk) > 0 {
			t.Error("it is pending, and not durable")
		}
		return nil
	}
	if err := client.Snapshot("one", []*Recipe{kept}); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotCol29APlanNowAPlanThenOrAnotherEpochIsTheLongWay(t *testing.T) {
	noPlan := func(w *world) { w.store.plan = nil }
	aPlan := func(w *world) { w.store.plan = (&plan{lastEpoch: 3}).encode() }
	later := func(w *world) { w.store.epoch = 3 }
	for name, change := range map[string][2]func(*world){
		"a plan now": {noPlan, aPlan}, "a plan then": {aPlan, noPlan}, "a plan then and now": {aPlan, aPlan}, "another epoch": {noPlan, later},
	} {
		for _, isLost := range []bool{false, true} {
			w := newWorld(t)
			change[0](w)
			client := w.open()
			recipe := w.upload(client, fileData)
			change[1](w)
			if isLost {
				for place := range w.store.content {
					delete(w.store.content, place)
					break
				}
			}
			w.log.clear()
			err := client.Snapshot("one", []*Recipe{recipe})
			if len(w.log.of("has")) != len(recipe.Chunks) {
				t.Error(name, "not all chunks were looked up:", len(w.log.of("has")))
			}
			if !isLost {
				if err != nil {
					t.Fatal(name, err)
				}
				// COL-20.
				same(t, name, w.log.of("sync", "confirm"), []string{"sync", "confirm"})
				continue
			}
			lost := failsWith[*ChunksLost](t, err, "withdrawn")
			failsWith[*Retryable](t, err, "")
			equal(t, name, len(lost.Digests), 1)
			equal(t, name, len(w.store.pending)+len(w.store.snapshots), 0)
		}
	}
}

func TestSnapshotWhereNobodyCanLookIsWithdrawn(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	recipe := w.upload(client, fileData)
	bad := errors.New("no epoch today")
	w.store.setBefore(func(event string) error {
		if event == "epoch" {
			return bad
		}
		return nil
	})
	if err := client.Snapshot("one", []*Recipe{recipe}); !errors.Is(err, bad) {
		t.Fatal(err)
	}
	equal(t, "snapshots", len(w.store.pending)+len(w.store.snapshots), 0)
	w.store.setBefore(func(string) error { return nil })
	if err := client.Snapshot("one", []*Recipe{recipe}); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotCol29WhatIsCondemnedIsLost(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	recipe := w.upload(client, fileData)
	condemned := map[string]bool{}
	for place := range w.store.content {
		condemned[place] = true
	}
	w.store.plan = (&plan{lastEpoch: 3, condemned: condemned}).encode()
	lost := failsWith[*ChunksLost](t, client.Snapshot("one", []*Recipe{recipe}), "")
	equal(t, "lost", len(lost.Digests), len(recipe.Chunks))
}

func TestSnapshotCol31OneThatIsGoneIsNotPublishedInAnotherWay(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	recipe := w.upload(client, fileData)
	w.store.before = func(event string) error {
		if event == "confirm" {
			delete(w.store.pending, "one")
		}
		return nil
	}
	if client.Snapshot("one", []*Recipe{recipe}) == nil {
		t.Fatal("it is one")
	}
	equal(t, "snapshots", len(w.store.snapshots), 0)
}

func TestSnapshotCol36RecipesThatWereKeptAreAlwaysLookedUp(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	recipe := w.upload(client, fileData)
	kept, err := DecodeRecipes(EncodeRecipes([]*Recipe{recipe}))
	if err != nil {
		t.Fatal(err)
	}
	for place := range w.store.content {
		delete(w.store.content, place)
		break
	}
	failsWith[*ChunksLost](t, client.Snapshot("one", kept), "")
}

func TestSnapshotCol6And35FilesOfTwoEpochsAreLookedAt(t *testing.T) {
	w := newWorld(t)
	first := w.upload(w.open(), fileData)
	w.store.epoch = 2
	client := w.open()
	second := w.upload(client, content(2000))
	w.log.clear()
	if err := client.Snapshot("one", []*Recipe{first, second}); err != nil {
		t.Fatal(err)
	}
	equal(t, "looked up", len(w.log.of("has")), len(first.Chunks)+len(second.Chunks))
}

// The store's epoch is read as it was; of the second upload nothing is new, so that no commit is refused.
func TestSnapshotCol81AnIndexThatHasMovedOnIsTheLongWay(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	equal(t, "overtaken", w.upload(client, fileData).IsOvertaken(), false)
	w.fake.index.epoch = 3
	second := w.upload(client, fileData)
	equal(t, "new", second.NewChunks, 0)
	equal(t, "told", second.IndexEpoch, 3)
	equal(t, "overtaken", second.IsOvertaken(), true)
	for place := range w.store.content {
		delete(w.store.content, place)
		break
	}
	failsWith[*ChunksLost](t, client.Snapshot("one", []*Recipe{second}), "")
}

func TestSnapshotCol81ACommitTellsItToo(t *testing.T) {
	w := newWorld(t)
	w.fake.toldEpoch = func() uint64 { return 3 }
	w.fake.changeDone = func(done *kerfv1.FileDone) *kerfv1.FileDone {
		done.IndexEpoch = 0
		return done
	}
	equal(t, "overtaken", w.upload(w.open(), fileData).IsOvertaken(), true)
}

func TestSnapshotCol81TheNextStreamBeginsWithTheEpoch(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	w.upload(client, fileData)
	w.store.epoch, w.fake.index.epoch = 3, 3
	equal(t, "overtaken", w.upload(client, fileData).IsOvertaken(), true)
	third := w.upload(client, fileData)
	equal(t, "seen", third.Seen, Seen{3, false})
	equal(t, "overtaken", third.IsOvertaken(), false)
	same(t, "streams", w.log.of("open"), []string{"open 1", "open 3"})
}

func TestSnapshotCol81AServerThatTellsNothingIsNoReason(t *testing.T) {
	w := newWorld(t)
	w.fake.toldEpoch = func() uint64 { return 0 }
	client := w.open()
	w.upload(client, fileData)
	w.fake.index.epoch = 3
	recipe := w.upload(client, fileData)
	equal(t, "overtaken", recipe.IsOvertaken(), false)
	w.log.clear()
	if err := client.Snapshot("one", []*Recipe{recipe}); err != nil {
		t.Fatal(err)
	}
	equal(t, "looked up", len(w.log.of("has")), 0)
}

func TestSnapshotEachBeginsWithTheEpoch(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	for epoch := uint64(1); epoch < 4; epoch++ {
		w.store.epoch = epoch
		recipe := w.upload(client, fileData)
		equal(t, "seen", recipe.Seen.Epoch, epoch)
		if err := client.Snapshot("one", []*Recipe{recipe}); err != nil {
			t.Fatal(err)
		}
	}
	// COL-23: each session has one epoch.
	same(t, "streams", w.log.of("open"), []string{"open 1", "open 2", "open 3"})
}

func TestSnapshotAPlanThatCameIsReadByTheNextStream(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	recipe := w.upload(client, fileData)
	if err := client.Snapshot("one", []*Recipe{recipe}); err != nil {
		t.Fatal(err)
	}
	w.store.plan = (&plan{lastEpoch: 3}).encode()
	equal(t, "seen", w.upload(client, fileData).Seen, Seen{1, true})
}

func TestSnapshotCol18AFileThatIsTakenOverIsLookedUp(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	recipe := w.upload(client, fileData)
	kept, is, err := client.Reuse(recipe)
	if err != nil || !is || kept.NewChunks != 0 {
		t.Fatal(kept, is, err)
	}
	for place := range w.store.content {
		delete(w.store.content, place)
		break
	}
	if _, is, err := client.Reuse(recipe); is || err != nil {
		t.Fatal(is, err)
	}
}

func TestSnapshotWhatFailsComesToTheCaller(t *testing.T) {
	for _, event := range []string{"publish", "confirm", "epoch"} {
		w := newWorld(t)
		client := w.open()
		recipe := w.upload(client, fileData)
		bad := errors.New("bad")
		w.store.before = func(happens string) error {
			if happens == event {
				return bad
			}
			return nil
		}
		if err := client.Snapshot("one", []*Recipe{recipe}); !errors.Is(err, bad) {
			t.Error(event, err)
		}
		equal(t, event, len(w.store.snapshots), 0)
	}
}

// Formats that stores keep: CLI-28, CLI-29.

func TestFormatsOfAPlan(t *testing.T) {
	made := &plan{lastEpoch: 7, neededEpoch: 5, hasGoneBack: true, condemned: map[string]bool{"b": true, "a": true}}
	text := `{"version":1,"last_epoch":7,"needed_epoch":5,"has_gone_back":true,"condemned":["61","62"]}`
	equal(t, "plan", string(made.encode()), string(sealed(text)))
	// As client/python writes it.
	read, err := decodePlan(sealed(`{"version": 1, "last_epoch": 7, "needed_epoch": 5, "has_gone_back": true, "condemned": ["61", "62"]}`))
	if err != nil || read.lastEpoch != 7 || read.neededEpoch != 5 || !read.hasGoneBack || len(read.condemned) != 2 || !read.condemned["b"] {
		t.Fatal(read, err)
	}
	for _, body := range [][]byte{nil, []byte("short"), sealed("{")[1:], append(make([]byte, 32), `{"version":1}`...), sealed(`{"version": 2}`), sealed(`{"version": 1, "condemned": ["x"]}`), sealed("[]")} {
		if _, err := decodePlan(body); err == nil {
			t.Errorf("%q is a plan", body)
		}
	}
}

func TestFormatsOfASnapshot(t *testing.T) {
	recipe := &Recipe{Key: []byte("ab"), Size: 5, Chunks: []Chunk{{[]byte{1, 0xff}, 2}, {[]byte{3}, 3}}}
	body := EncodeRecipes([]*Recipe{recipe})
	equal(t, "body", string(body[32:]), `{"version":1,"files":[{"key":"6162","size":5,"chunks":[["01ff",2],["03",3]]}]}`)
	equal(t, "nothing", string(EncodeRecipes(nil)), string(sealed(`{"version":1,"files":[]}`)))
	for _, bad := range []string{"", "{}", `{"version":2,"files":[]}`, `{"version":1,"files":[{"key":"6162","size":6,"chunks":[["01ff",2],["03",3]]}]}`,
		`{"version":1,"files":[{"key":"x","size":0,"chunks":[]}]}`, `{"version":1,"files":[{"key":"61","size":0,"chunks":[["01",0]]}]}`,
		`{"version":1,"files":[{"key":"61","size":1,"chunks":[["01",1,2]]}]}`, `{"version":1,"files":[{"key":"61","size":1,"chunks":[["01"]]}]}`,
		`{"version":1,"files":[{"key":"61","size":1,"chunks":[["0",1]]}]}`, `{"version":1,"files":[{"key":"61","size":1,"chunks":[[1,1]]}]}`} {
		if _, err := DecodeRecipes(sealed(bad)); err == nil {
			t.Errorf("%q is a snapshot", bad)
		} else {
			failsWith[*StoreError](t, err, "a snapshot")
		}
	}
	for _, bad := range [][]byte{nil, []byte("short"), body[32:]} {
		_, err := DecodeRecipes(bad)
		failsWith[*StoreError](t, err, "damaged")
	}
}
