package kerf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// A world is a store, and a fake server that knows when a client breaks a rule.
type world struct {
	t     *testing.T
	log   *eventLog
	fake  *fake
	store *memoryStore
}

func newWorld(t *testing.T) *world {
	log := &eventLog{}
	made := &world{t: t, log: log, store: newMemoryStore(log), fake: newFake(t, log)}
	made.watch(made.fake)
	return made
}

func (w *world) watch(fake *fake) {
	fake.isDurable = w.store.isDurable
	w.t.Cleanup(func() {
		fake.mutex.Lock()
		defer fake.mutex.Unlock()
		for _, violation := range fake.violations {
			w.t.Error("a rule was broken:", violation)
		}
	})
}

// fast: what takes seconds by the documents takes milliseconds here. A machine that is busy makes nothing fail.
func fast() *pace {
	made := defaultPace()
	made.firstWait, made.longestWait = time.Millisecond, 4*time.Millisecond
	made.askAgain, made.finish = 50*time.Millisecond, 20*time.Second
	made.jitter = func() float64 { return 1 }
	return made
}

func (w *world) open(change ...func(*Options)) *Client {
	return w.openAt([]string{w.fake.name}, w.store, change...)
}

func (w *world) openAt(servers []string, store Store, change ...func(*Options)) *Client {
	w.t.Helper()
	options := &Options{Digest: SHA256, Streams: 1, RetryFor: 30 * time.Second, Silence: 20 * time.Second,
		Dial: []grpc.DialOption{grpc.WithContextDialer(dialFakes)}}
	for _, change := range change {
		change(options)
	}
	client, err := open(servers, "tests", store, options, fast())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return client
}

// do: with the fake's mutex.
func (w *world) do(act func(*fake)) {
	w.fake.mutex.Lock()
	defer w.fake.mutex.Unlock()
	act(w.fake)
}

func content(size int, seed ...uint64) []byte {
	var number uint64
	for _, part := range seed {
		number = part
	}
	random := rand.New(rand.NewPCG(7, number))
	data := make([]byte, 0, size+8)
	for len(data) < size {
		data = binary.LittleEndian.AppendUint64(data, random.Uint64())
	}
	return data[:size:size]
}

// onlyReader cannot seek, and gives at most so much at a time.
type onlyReader struct {
	data []byte
	most int
	// Before each read.
	before func(offset int)
	offset int
}

func reader(data []byte) *onlyReader { return &onlyReader{data: data, most: 4096} }

func (r *onlyReader) Read(into []byte) (int, error) {
	if r.before != nil {
		r.before(r.offset)
	}
	if r.offset == len(r.data) {
		return 0, io.EOF
	}
	n := copy(into[:min(len(into), r.most)], r.data[r.offset:])
	r.offset += n
	return n, nil
}

func (w *world) upload(client *Client, data []byte) *Recipe {
	w.t.Helper()
	recipe, err := client.Upload(context.Background(), reader(data), []byte("file"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.isWhole(recipe, data)
	return recipe
}

func (w *world) isWhole(recipe *Recipe, data []byte) {
	w.t.Helper()
	restored, err := w.store.restore(recipe)
	if err != nil || !bytes.Equal(restored, data) {
		w.t.Fatalf("a recipe is not its file: %v", err)
	}
}

// isTold: the index believes each chunk of it, in a place where the store has it.
func (w *world) isTold(recipe *Recipe) {
	w.t.Helper()
	w.fake.mutex.Lock()
	defer w.fake.mutex.Unlock()
	for _, chunk := range recipe.Chunks {
		entry, is := w.fake.index.entries[string(chunk.Digest)]
		if !is {
			w.t.Fatalf("the index was not told of %x", chunk.Digest[:4])
		}
		w.store.mutex.Lock()
		there := w.store.content[entry.locator]
		w.store.mutex.Unlock()
		if there.digest != string(chunk.Digest) {
			w.t.Fatalf("the index names a place of %x that is none", chunk.Digest[:4])
		}
	}
}

func sha(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

func equal[A comparable](t *testing.T, what string, is, wanted A) {
	t.Helper()
	if is != wanted {
		t.Fatalf("%s: %v, not %v", what, is, wanted)
	}
}

func same(t *testing.T, what string, is, wanted []string) {
	t.Helper()
	equal(t, what, fmt.Sprint(is), fmt.Sprint(wanted))
}

// failsWith: an error of that class, that says so.
func failsWith[E error](t *testing.T, err error, says string) E {
	t.Helper()
	var class E
	if !errors.As(err, &class) {
		t.Fatalf("%T (%v) is no %T", err, err, class)
	}
	if !strings.Contains(err.Error(), says) {
		t.Fatalf("%q does not say %q", err, says)
	}
	return class
}

func smallMessages(fake *fake) { fake.limits.MaxMessageBytes = 8 << 10 }
