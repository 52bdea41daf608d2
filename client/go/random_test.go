package kerf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"kerf/client/go/kerfv1"
)

// TestRandom: files, readers, faults, verdicts, lost chunks and collections by chance. KERF_GO_SEED plays one again.
func TestRandom(t *testing.T) {
	first, rounds := uint64(time.Now().UnixNano()), 12
	if text := os.Getenv("KERF_GO_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, rounds = seed, 1
	}
	for round := range rounds {
		seed := first + uint64(round)
		t.Run(fmt.Sprintf("KERF_GO_SEED=%d", seed), func(t *testing.T) { playRandom(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func playRandom(t *testing.T, random *rand.Rand) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.chunkBytes = 64 + random.IntN(2000)
	w.fake.lagBytes = 3 * w.fake.chunkBytes
	faults := []fault{kill, goAway, fails(codes.Unavailable, "IDLE_EVICTED"), fails(codes.ResourceExhausted, "TOO_MANY_STREAMS"),
		fails(codes.Unavailable, "INDEX_UNAVAILABLE")}
	events := []string{"open", "opened", "data", "chunks", "commit", "end"}
	for range random.IntN(20) {
		w.fake.faults[moment{events[random.IntN(len(events))], 1 + random.IntN(60)}] = faults[random.IntN(len(faults))]
	}
	verdicts := rand.New(rand.NewPCG(random.Uint64(), 2))
	w.fake.verdict = func(_ []byte, is kerfv1.Verdict) kerfv1.Verdict {
		if verdicts.IntN(10) == 0 { // Whatever it says: only the store is believed.
			return kerfv1.Verdict(1 + verdicts.IntN(4))
		}
		return is
	}
	client := w.open(func(o *Options) {
		o.CommitBytes, o.WindowBytes = int64(1+random.IntN(30_000)), int64(1+random.IntN(100_000))
	})
	pieces := [][]byte{content(20_000, random.Uint64()), content(20_000, random.Uint64()), content(7, random.Uint64())}
	files := map[string][]byte{}
	for number := range 6 {
		var data []byte
		for range random.IntN(5) {
			data = append(data, pieces[random.IntN(len(pieces))]...)
		}
		if random.IntN(3) == 0 {
			w.loseOne(random)
		}
		if random.IntN(3) == 0 {
			if _, err := client.Collect(context.Background(), w.store.roots); err != nil {
				failsWith[*Retryable](t, err, "")
			}
		}
		name := fmt.Sprint(number)
		if w.tryRandom(client, name, data, 1+random.IntN(9000)) {
			files[name] = data
		}
		w.isRestorable()
	}
	for name, data := range files {
		recipes, err := DecodeRecipes(w.store.snapshots[name])
		if err != nil {
			t.Fatal(err)
		}
		w.isWhole(recipes[0], data)
	}
}

// loseOne: a chunk that no snapshot needs goes without a word, as if another index had been told of it.
func (w *world) loseOne(random *rand.Rand) {
	live := map[string]bool{}
	for digest := range w.store.roots() {
		live[string(digest)] = true
	}
	w.store.mutex.Lock()
	defer w.store.mutex.Unlock()
	for locator, chunk := range w.store.content {
		if !live[chunk.digest] && random.IntN(2) == 0 {
			delete(w.store.content, locator)
			return
		}
	}
}

func (w *world) tryRandom(client *Client, name string, data []byte, most int) bool {
	for range 4 {
		source := &onlyReader{data: data, most: most}
		recipe, err := client.Upload(context.Background(), source, []byte(name))
		if err == nil {
			if restored, err := w.store.restore(recipe); err != nil || !bytes.Equal(restored, data) {
				w.t.Fatal("a recipe is not its file:", err)
			}
			err = client.Snapshot(name, []*Recipe{recipe})
		}
		var lost *ChunksLost
		var behind *EpochBehind
		switch {
		case err == nil:
			return true
		case !errors.As(err, &lost) && !errors.As(err, &behind):
			w.t.Fatal(err)
		}
	}
	return false
}
