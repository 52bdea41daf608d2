package kerf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"kerf/client/go/kerfv1"
)

// docs/spec/protocol.md, Errors: the code, and what the last column says.
var retried = map[string]codes.Code{
	"TOO_MANY_UNCOMMITTED_CHUNKS": codes.ResourceExhausted, "TOO_MANY_UNCOMMITTED_FILES": codes.ResourceExhausted,
	"TOO_MANY_STREAMS": codes.ResourceExhausted, "NO_WORKER": codes.Unavailable, "WORKER_UNREACHABLE": codes.Unavailable,
	"MEMORY_EXHAUSTED": codes.ResourceExhausted, "DRAINING": codes.Unavailable, "OPEN_TIMEOUT": codes.DeadlineExceeded,
	"IDLE_TIMEOUT": codes.DeadlineExceeded, "IDLE_EVICTED": codes.Unavailable, "READ_STALLED": codes.DeadlineExceeded,
	"INDEX_UNAVAILABLE": codes.Unavailable, "INDEX_FULL": codes.ResourceExhausted, "AUDIT_UNAVAILABLE": codes.Unavailable,
	"TOO_MANY_CALLS": codes.ResourceExhausted,
}

var final = map[string]codes.Code{
	"MALFORMED_MESSAGE": codes.InvalidArgument, "MESSAGE_TOO_LARGE": codes.ResourceExhausted, "FRAME_ORDER": codes.InvalidArgument,
	"BAD_FIELD": codes.InvalidArgument, "UNKNOWN_DIGEST": codes.InvalidArgument, "UNFINISHED_FILE": codes.InvalidArgument,
	"PROFILE_TOO_LARGE": codes.FailedPrecondition, "CRITERION_NEEDS_HINTS": codes.FailedPrecondition,
	"DIGEST_ALGORITHM_MISMATCH": codes.FailedPrecondition, "SIZE_MISMATCH": codes.OutOfRange, "OFFSET_TOO_LARGE": codes.OutOfRange,
	"TOO_MANY_ENTRIES": codes.ResourceExhausted, "FRONT_BEHIND_FRONT": codes.FailedPrecondition,
	"UNKNOWN_CALLER": codes.Unauthenticated, "NOT_YOURS": codes.PermissionDenied, "QUOTA_EXCEEDED": codes.ResourceExhausted,
	"A_REASON_OF_TOMORROW": codes.Unavailable,
}

var fileData = content(40*fakeChunkBytes+7, 99)

func smallCommits(o *Options) { o.CommitBytes = 8 << 10 }

func manyFaults(event string, act fault, numbers ...int) map[moment]fault {
	faults := map[moment]fault{}
	for _, number := range numbers {
		faults[moment{event, number}] = act
	}
	return faults
}

func from1To(n int) (numbers []int) {
	for number := range n {
		numbers = append(numbers, number+1)
	}
	return numbers
}

func TestLostStreamsEveryMomentIsSurvived(t *testing.T) {
	for event, count := range map[string]int{"open": 1, "opened": 1, "data": 10, "chunks": 9, "commit": 4, "end": 1} {
		for number := range count {
			for name, act := range map[string]fault{"kill": kill, "go away": goAway, "evict": fails(codes.Unavailable, "IDLE_EVICTED")} {
				if event == "open" && name != "evict" {
					continue // A server that nobody has met is not waited for.
				}
				t.Run(fmt.Sprintf("%s %s %d", name, event, number+1), func(t *testing.T) {
					w := newWorld(t)
					smallMessages(w.fake)
					w.fake.faults[moment{event, number + 1}] = act
					began := time.Now()
					recipe := w.upload(w.open(smallCommits), fileData)
					if time.Since(began) > 15*time.Second {
						t.Error("by silence alone")
					}
					equal(t, "new", recipe.NewBytes, int64(len(fileData)))
					equal(t, "untold", recipe.UntoldChunks, 0)
					w.isTold(recipe)
				})
			}
		}
	}
}

func TestLostStreamsManyOneBehindTheOther(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.faults = manyFaults("data", kill, 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32)
	w.isTold(w.upload(w.open(smallCommits), fileData))
	if len(w.fake.opens) < 5 {
		t.Error(len(w.fake.opens), "streams")
	}
}

func TestLostStreamsOnlyWhatWasNotAnsweredIsSentAgain(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.faults[moment{"data", 6}] = kill
	source := reader(fileData)
	recipe, err := w.open(smallCommits, func(o *Options) { o.WindowBytes = 1 }).Upload(context.Background(), source, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.isWhole(recipe, fileData)
	if sent := w.fake.counts["data"] * 4 << 10; sent > len(fileData)+16<<10 {
		t.Error(sent, "bytes were sent")
	}
	if w.fake.files[1].GetStartOffset() == 0 {
		t.Error("the second stream begins at 0")
	}
}

func TestLostStreamsCol34WhatWasPendingIsToldByACallInTheEpochOfItsSession(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.store.epoch = 5
	w.fake.faults[moment{"data", 6}] = kill
	w.isTold(w.upload(w.open(func(o *Options) { o.WindowBytes = 1 }), fileData))
	if len(w.fake.lateCommits) == 0 {
		t.Fatal("nothing was told late")
	}
	for _, late := range w.fake.lateCommits {
		equal(t, "epoch", late.epoch, 5)
	}
}

func TestLostStreamsWhoCannotBeToldCostsNoRecipe(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.faults = manyFaults("CommitChunks", fails(codes.PermissionDenied, "NOT_YOURS"), from1To(9)...)
	w.fake.faults[moment{"data", 6}] = kill
	var warnings []string
	recipe := w.upload(w.open(func(o *Options) {
		o.WindowBytes = 1
		o.Warn = func(message string) { warnings = append(warnings, message) }
	}), fileData)
	if recipe.UntoldChunks == 0 || !strings.Contains(strings.Join(warnings, ""), "NOT_YOURS") {
		t.Error(recipe.UntoldChunks, warnings)
	}
}

func TestLostStreamsACommitThatWasNotAnsweredIsToldAgain(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.faults[moment{"commit", 1}] = kill
	w.isTold(w.upload(w.open(smallCommits), fileData))
	if len(w.fake.lateCommits) == 0 {
		t.Error("COL-25: it was not told again")
	}
}

func TestLostStreamsEachReasonThatMayPass(t *testing.T) {
	for reason, code := range retried {
		for _, event := range []string{"open", "data"} {
			t.Run(reason+" "+event, func(t *testing.T) {
				w := newWorld(t)
				smallMessages(w.fake)
				w.fake.faults[moment{event, 1}] = func(*fakeStream) error { return abort{code: code, reason: reason, delay: time.Millisecond} }
				w.isTold(w.upload(w.open(smallCommits), fileData))
			})
		}
	}
}

func TestLostStreamsEachReasonThatIsFinal(t *testing.T) {
	for reason, code := range final {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t)
			smallMessages(w.fake)
			w.fake.faults[moment{"data", 4}] = fails(code, reason)
			_, err := w.open().Upload(context.Background(), reader(fileData), nil)
			refused := failsWith[*Refused](t, err, reason)
			equal(t, "reason", refused.Reason, reason)
			equal(t, "code", refused.Code, code)
			equal(t, "request id", len(refused.RequestID), 32)
			equal(t, "streams", len(w.fake.opens), 1)
		})
	}
}

func TestLostStreamsStatusesOfGrpcsOwn(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Canceled, codes.Internal, codes.Unknown, codes.DeadlineExceeded, codes.Aborted} {
		w := newWorld(t)
		smallMessages(w.fake)
		w.fake.faults[moment{"data", 4}] = func(*fakeStream) error { return abort{code: code, note: " in words that nobody reads"} }
		w.isTold(w.upload(w.open(smallCommits), fileData))
	}
	for _, code := range []codes.Code{codes.Unimplemented, codes.ResourceExhausted, codes.Unauthenticated, codes.PermissionDenied,
		codes.InvalidArgument, codes.DataLoss, codes.FailedPrecondition} {
		w := newWorld(t)
		smallMessages(w.fake)
		w.fake.faults[moment{"data", 4}] = fails(code, "")
		_, err := w.open().Upload(context.Background(), reader(fileData), nil)
		failsWith[*Refused](t, err, code.String())
		equal(t, "streams", len(w.fake.opens), 1)
	}
}

func TestLostStreamsOnce(t *testing.T) {
	for reason, code := range map[string]codes.Code{"INTERNAL": codes.Internal, "CONTENT_MISMATCH": codes.DataLoss} {
		event, first, second := "data", 4, 6
		lagBytes := 3 * fakeChunkBytes
		if reason == "CONTENT_MISMATCH" { // Of which nothing may have been answered (CLI-39).
			event, first, second, lagBytes = "end", 1, 2, 1<<30
		}
		w := newWorld(t)
		smallMessages(w.fake)
		w.fake.lagBytes = lagBytes
		w.fake.faults[moment{event, first}] = fails(code, reason)
		w.isTold(w.upload(w.open(smallCommits), fileData))
		again := newWorld(t)
		smallMessages(again.fake)
		again.fake.lagBytes = lagBytes
		again.fake.faults = manyFaults(event, fails(code, reason), first, second)
		_, err := again.open().Upload(context.Background(), reader(fileData), nil)
		// What is given up so is not to be tried again as it is.
		failsWith[*Refused](t, err, "second time")
		equal(t, "streams", len(again.fake.opens), 2)
	}
}

func TestLostStreamsCli39NothingGoesOnBehindAMismatchOfWhatWasAnswered(t *testing.T) {
	whole := fileData[:40*fakeChunkBytes]
	for _, one := range []struct {
		data     []byte
		lagBytes int
	}{{fileData, 3 * fakeChunkBytes}, {whole, fakeChunkBytes}} { // A part of it, all of it.
		w := newWorld(t)
		smallMessages(w.fake)
		w.fake.lagBytes = one.lagBytes
		w.fake.faults[moment{"end", 1}] = fails(codes.DataLoss, "CONTENT_MISMATCH")
		_, err := w.open().Upload(context.Background(), reader(one.data), nil)
		equal(t, "reason", failsWith[*Refused](t, err, "a part of it was answered").Reason, "CONTENT_MISMATCH")
		equal(t, "streams", len(w.fake.opens), 1)
	}
}

// A keepingReader has what it read into, which is the client's own memory.
type keepingReader struct {
	*onlyReader
	kept [][]byte
}

func (r *keepingReader) Read(into []byte) (int, error) {
	n, err := r.onlyReader.Read(into)
	r.kept = append(r.kept, into[:n])
	return n, err
}

// Memory that is broken: the server is told the hash of what the bytes are by then, and would find nothing wrong.
func TestLostStreamsCli39WhatHasChangedWhileItWaitedIsNotSentAgain(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.lagBytes = 1 << 30
	// It reads a block for each message.
	source := &keepingReader{onlyReader: reader(fileData)}
	first := make(chan []byte, 1)
	source.before = func(int) {
		if len(source.kept) == 1 {
			first <- source.kept[0]
		}
	}
	w.fake.faults[moment{"data", 3}] = func(s *fakeStream) error {
		(<-first)[0] ^= 1
		return kill(s)
	}
	_, err := w.open().Upload(context.Background(), source, nil)
	failsWith[*Refused](t, err, "are not those that were read")
	equal(t, "chunks", len(w.store.content), 0)
}

func TestLostStreamsAQuotaWithADelayPasses(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.faults[moment{"data", 4}] = func(*fakeStream) error {
		return abort{code: codes.ResourceExhausted, reason: "QUOTA_EXCEEDED", delay: time.Millisecond}
	}
	w.isTold(w.upload(w.open(smallCommits), fileData))
}

func TestLostStreamsAFullRepositoryIsAWarning(t *testing.T) {
	w := newWorld(t)
	w.fake.faults[moment{"half_close", 1}] = fails(codes.ResourceExhausted, "QUOTA_EXCEEDED")
	var warnings []string
	client := w.open(func(o *Options) { o.Warn = func(message string) { warnings = append(warnings, message) } })
	w.upload(client, fileData)
	client.Close()
	if len(warnings) != 1 || !strings.Contains(warnings[0], "no room") {
		t.Error(warnings)
	}
}

func TestLostStreamsSilenceIsALossAndItsWorkerIsAvoided(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.faults[moment{"data", 4}] = silence
	client := w.open(smallCommits, func(o *Options) { o.Silence = 2 * time.Second })
	w.isTold(w.upload(client, fileData))
	if avoided := avoidedBy(w.fake); len(avoided) == 0 || avoided[0] != "fake-worker" {
		t.Error("avoided:", avoided)
	}
}

func TestLostStreamsCli42WhoeverSaysNothingInManyMessagesIsSilent(t *testing.T) {
	noChunks := &kerfv1.UploadAnswer{Answer: &kerfv1.UploadAnswer_Chunks{Chunks: &kerfv1.Chunks{FileNumber: 1}}}
	for name, answers := range map[string][]*kerfv1.UploadAnswer{"none": nil, "one of tomorrow": {{}}, "no chunks": {noChunks}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			smallMessages(w.fake)
			w.fake.faults[moment{"data", 4}] = babble(answers...)
			w.isTold(w.upload(w.open(smallCommits, func(o *Options) { o.Silence = 4 * time.Second }), fileData))
			if len(w.fake.opens) < 2 {
				t.Error("one stream was enough")
			}
		})
	}
	t.Run("before Opened", func(t *testing.T) {
		w := newWorld(t)
		w.fake.faults[moment{"open", 1}] = babble(&kerfv1.UploadAnswer{})
		_, err := w.open(func(o *Options) { o.Silence = 2 * time.Second }).Upload(context.Background(), reader(fileData), nil)
		failsWith[*Retryable](t, err, "silent for")
	})
}

func avoidedBy(fake *fake) (names []string) {
	fake.mutex.Lock()
	defer fake.mutex.Unlock()
	for _, sent := range fake.metadata {
		names = append(names, sent.Get("kerf-avoid-worker-bin")...)
	}
	return names
}

func TestLostStreamsWorkersThatAClientAvoids(t *testing.T) {
	for _, reason := range []string{"INDEX_UNAVAILABLE", "AUDIT_UNAVAILABLE", "WORKER_UNREACHABLE", "MEMORY_EXHAUSTED"} {
		w := newWorld(t)
		smallMessages(w.fake)
		gone := func(worker string) fault {
			return func(*fakeStream) error { return abort{code: codes.Unavailable, reason: reason, worker: worker} }
		}
		w.fake.faults[moment{"data", 4}], w.fake.faults[moment{"data", 9}] = gone("one"), gone("two")
		w.upload(w.open(func(o *Options) { o.WindowBytes = 1 }), fileData)
		wanted := []string{"one", "two"} // Until a chunk is answered: so each stream names one.
		if reason == "MEMORY_EXHAUSTED" {
			wanted = nil
		}
		same(t, reason, avoidedBy(w.fake), wanted)
	}
}

// Longer than that of any worker: eight of them would be more than a server takes of metadata.
func TestLostStreamsRou7WhatIsNoNameIsToldToNobody(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.faults[moment{"data", 4}] = func(*fakeStream) error {
		return abort{code: codes.Unavailable, reason: "INDEX_UNAVAILABLE", worker: strings.Repeat("x", 1_000)}
	}
	w.isTold(w.upload(w.open(func(o *Options) { o.WindowBytes = 1 }), fileData))
	same(t, "avoided", avoidedBy(w.fake), nil)
}

func TestLostStreamsOneThatEndedBetweenFilesCostsNothing(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	w.upload(client, []byte("one"))
	w.fake.stop()
	again := newFakeAt(t, w.log, w.fake.name)
	w.watch(again)
	w.upload(client, fileData)
	if len(again.opens) == 0 {
		t.Error("nobody came")
	}
}

func TestLostStreamsTheNextServerOfTheList(t *testing.T) {
	w := newWorld(t)
	w.isTold(w.upload(w.openAt([]string{"127.0.0.1:1", w.fake.name}, w.store), fileData))
	began := time.Now()
	_, err := w.openAt([]string{"127.0.0.1:1", "127.0.0.1:2"}, w.store, func(o *Options) { o.RetryFor = time.Hour }).
		Upload(context.Background(), reader(fileData), nil)
	failsWith[*Retryable](t, err, "no server has answered yet")
	if time.Since(began) > 20*time.Second {
		t.Error("nobody was waited for, for", time.Since(began))
	}
}

func TestLostStreamsWhoGivesUpSaysSo(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.faults = manyFaults("data", kill, from1To(4000)...)
	_, err := w.open(func(o *Options) { o.RetryFor = 100 * time.Millisecond }).Upload(context.Background(), reader(fileData), nil)
	failsWith[*Retryable](t, err, "given up after")
}

func TestLostStreamsOnlyAnAnsweredChunkIsProgress(t *testing.T) {
	// A server that opens streams, and says something, and no chunk.
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.lagBytes = 1 << 30
	w.fake.faults = manyFaults("data", func(s *fakeStream) error {
		s.answer(&kerfv1.UploadAnswer{})
		return kill(s)
	}, from1To(4000)...)
	_, err := w.open(func(o *Options) { o.RetryFor = 100 * time.Millisecond }).Upload(context.Background(), reader(fileData), nil)
	failsWith[*Retryable](t, err, "given up after")
}

func TestLostStreamsTimeThatTheReaderTakesIsNotTheServers(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.faults = manyFaults("data", kill, 2, 4)
	source := reader(fileData)
	source.before = func(offset int) {
		if offset > 0 && offset < 12<<10 {
			time.Sleep(2200 * time.Millisecond)
		}
	}
	client := w.open(func(o *Options) { o.RetryFor = 2 * time.Second })
	if _, err := client.Upload(context.Background(), source, nil); err != nil {
		t.Fatal(err)
	}
}

func TestLostStreamsTimeThatTheStoreTakesIsNoSilence(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	puts := 0
	w.store.before = func(event string) error {
		if event == "put" {
			if puts++; puts == 3 {
				time.Sleep(4500 * time.Millisecond)
			}
		}
		return nil
	}
	// The server's next answer comes a little later.
	w.fake.faults = manyFaults("data", func(*fakeStream) error {
		time.Sleep(50 * time.Millisecond)
		return nil
	}, from1To(11)[1:]...)
	w.upload(w.open(func(o *Options) { o.Silence, o.WindowBytes = 4*time.Second, 1 }), fileData)
	equal(t, "streams", len(w.fake.opens), 1)
}

func TestLostStreamsGivenUpByItsContext(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.faults[moment{"data", 3}] = silence
	client := w.open()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := client.Upload(ctx, reader(fileData), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	w.upload(client, fileData)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := client.Upload(cancelled, reader(fileData), nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestLostStreamsAServerThatEndsNoStreamHoldsNoContext(t *testing.T) {
	// The stream of before is to be ended first, for the view is another.
	made := &stream{changed: make(chan struct{}, 1), cancel: func() {}, requests: make(chan *kerfv1.UploadRequest)}
	made.room = sync.NewCond(&made.mutex)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if made.finish(ctx, time.Hour) == nil || time.Since(began) > 30*time.Second {
		t.Error("it took", time.Since(began))
	}
}

func TestLostStreamsAndCloseLeaveNoGoroutineBehind(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	before := runtime.NumGoroutine()
	w.fake.faults = manyFaults("data", kill, 2, 5, 8)
	w.fake.faults[moment{"data", 30}] = silence
	client := w.open(smallCommits, func(o *Options) { o.Streams = 3 })
	w.upload(client, fileData)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := client.Upload(ctx, reader(content(200*fakeChunkBytes)), nil); err == nil {
		t.Error("the server is silent")
	}
	source := &badReader{data: fileData, err: errors.New("bad")}
	if _, err := client.Upload(context.Background(), source, nil); err == nil {
		t.Error("the reader is bad")
	}
	w.upload(client, fileData)
	client.Close()
	after := runtime.NumGoroutine()
	for deadline := time.Now().Add(30 * time.Second); after > before && time.Now().Before(deadline); after = runtime.NumGoroutine() {
		time.Sleep(10 * time.Millisecond)
	}
	if after > before {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines, and %d before:\n%s", after, before, stacks[:runtime.Stack(stacks, true)])
	}
}

// Patience.

func TestPatienceWaits(t *testing.T) {
	pace := defaultPace()
	pace.jitter = func() float64 { return 1 }
	p := newPatience(&servers{addresses: []address{{text: "one"}}}, time.Hour, pace)
	for tries, wanted := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		16 * time.Second, 20 * time.Second, 20 * time.Second} {
		p.tries = tries + 1
		equal(t, "wait", p.wait(&failure{}), wanted)
	}
	p.tries = 1000
	equal(t, "wait", p.wait(&failure{}), 20*time.Second)
	p.tries = 1
	equal(t, "RetryInfo", p.wait(&failure{Details: Details{Delay: 3 * time.Second}}), 3*time.Second)
	p.pace = defaultPace()
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		wait := p.wait(&failure{})
		least, most = min(least, wait), max(most, wait)
	}
	if least < 250*time.Millisecond || most > 500*time.Millisecond || most-least < 100*time.Millisecond {
		t.Error("from", least, "to", most)
	}
}

// Epochs: COL-22 to COL-24.

// raised: a collection has fenced the index, and raised the store's epoch.
func raised(w *world, index, store uint64) fault {
	return func(s *fakeStream) error {
		w.store.mutex.Lock()
		w.store.epoch = store
		w.store.mutex.Unlock()
		w.fake.index.epoch = index
		return nil
	}
}

func TestEpochAllIsBegunAgainInTheNewOne(t *testing.T) {
	for _, when := range []moment{{"commit", 1}, {"commit", 2}, {"CommitChunks", 1}} {
		w := newWorld(t)
		smallMessages(w.fake)
		w.fake.faults[when] = raised(w, 2, 2)
		commitBytes := int64(8 << 10)
		if when.event == "CommitChunks" {
			w.fake.faults[moment{"data", 6}] = kill
			commitBytes = 1 << 20 // So that the lost stream leaves something to be told.
		}
		client := w.open(func(o *Options) { o.CommitBytes, o.WindowBytes = commitBytes, 1 })
		recipe, err := client.Upload(context.Background(), bytes.NewReader(fileData), nil)
		if err != nil {
			t.Fatal(err)
		}
		w.isWhole(recipe, fileData)
		w.isTold(recipe)
		equal(t, "seen", recipe.Seen, Seen{2, false})
		equal(t, "epoch", w.fake.opens[len(w.fake.opens)-1].GetStoreEpoch(), 2)
		read := w.log.of("epoch", "plan")
		same(t, "order", read[len(read)-2:], []string{"epoch", "plan"})
	}
}

func TestEpochCol22EntriesAreNotSentAgainUnderAnotherOne(t *testing.T) {
	// What the first session had placed is condemned by the plan that the second one has read.
	w := newWorld(t)
	smallMessages(w.fake)
	condemned := map[string]bool{}
	w.fake.faults[moment{"commit", 2}] = func(s *fakeStream) error {
		_ = raised(w, 2, 2)(s)
		w.store.mutex.Lock()
		defer w.store.mutex.Unlock()
		for locator, chunk := range w.store.volatile {
			w.store.content[locator] = chunk
		}
		for locator := range w.store.content {
			condemned[locator] = true
		}
		w.store.plan = (&plan{lastEpoch: 3, condemned: condemned}).encode()
		return nil
	}
	recipe, err := w.open(smallCommits).Upload(context.Background(), bytes.NewReader(fileData), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, commit := range slices.Concat(w.fake.commits, w.fake.lateCommits) {
		if commit.epoch == 2 && condemned[commit.locator] {
			t.Fatal("a place of the first session, in the epoch of the second one")
		}
	}
	if recipe.NewChunks < len(condemned) {
		t.Error(recipe.NewChunks, "stored of", len(condemned))
	}
}

func TestEpochWhatCannotBeReadAgainIsTheCallers(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.fake.faults[moment{"commit", 2}] = raised(w, 2, 2)
	client := w.open(smallCommits)
	_, err := client.Upload(context.Background(), reader(fileData), nil)
	behind := failsWith[*EpochBehind](t, err, "EPOCH_BEHIND")
	equal(t, "is set back", behind.IsSetBack, false)
	equal(t, "epoch", w.upload(client, fileData).Seen.Epoch, 2)
}

func TestEpochCol24AStoreThatWasSetBackIsSaidAndNotMendedByAnAgent(t *testing.T) {
	w := newWorld(t)
	w.fake.index.epoch = 7
	_, err := w.open().Upload(context.Background(), bytes.NewReader(fileData), nil)
	behind := failsWith[*EpochBehind](t, err, "a collection has to run")
	equal(t, "is set back", behind.IsSetBack, true)
	equal(t, "advances", len(w.log.of("advance")), 0)
	equal(t, "opens", fmt.Sprint(w.log.of("open")), "[open 1]")
}

func TestEpochThatRisesAllTheTimeIsTheCallers(t *testing.T) {
	w := newWorld(t)
	for number := range 9 {
		w.fake.faults[moment{"commit", number + 1}] = raised(w, uint64(number+2), uint64(number+2))
	}
	_, err := w.open().Upload(context.Background(), bytes.NewReader(fileData), nil)
	failsWith[*EpochBehind](t, err, "")
	equal(t, "streams", len(w.fake.opens), rounds)
}
