package kerf

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"

	"kerf/client/go/kerfv1"
)

func TestBoundsWhatIsReadAheadOfAnswers(t *testing.T) {
	w := newWorld(t)
	// The server answers nothing for the first 1 MiB.
	w.fake.lagBytes = 1 << 20
	source := reader(content(6 << 20))
	source.most = 1 << 20
	most, put := 0, 0
	w.store.before = func(event string) error {
		if event == "put" {
			most = max(most, source.offset-put)
			put += fakeChunkBytes
		}
		return nil
	}
	client := w.open(func(o *Options) { o.WindowBytes = 2 << 20 })
	if _, err := client.Upload(context.Background(), source, nil); err != nil {
		t.Fatal(err)
	}
	if most > 2<<20+fakeChunkBytes || most < 1<<20 {
		t.Fatal("it has read ahead", most, "bytes")
	}
}

func TestBoundsTheWindowIsAsLongAsACutNeeds(t *testing.T) {
	// 1 MiB of a chunk, and no cut is certain before 3 MiB are there: a window of 64 KiB would wait for ever.
	w := newWorld(t)
	w.fake.chunkBytes, w.fake.lagBytes = 1<<20, 3<<20
	w.upload(w.open(func(o *Options) { o.WindowBytes, o.Silence = 64<<10, 20e9 }), content(5<<20))
	equal(t, "streams", len(w.fake.opens), 1)
}

func TestBoundsCommitsAndMessagesKeepToTheServersLimits(t *testing.T) {
	w := newWorld(t)
	w.fake.limits.MaxCommitEntries, w.fake.limits.MaxMessageBytes = 16, 64<<10
	w.isTold(w.upload(w.open(), content(200*fakeChunkBytes)))
	if w.fake.counts["commit"] < 200/16 {
		t.Fatal(w.fake.counts["commit"], "commits")
	}
}

// A quickStore finds a chunk without a look at all of them.
type quickStore struct {
	*memoryStore
	places map[string][][]byte
}

func (q *quickStore) Has(digest []byte) ([][]byte, error) { return q.places[string(digest)], nil }

func (q *quickStore) Sync() error {
	err := q.memoryStore.Sync()
	q.places = map[string][][]byte{}
	for locator, chunk := range q.content {
		q.places[chunk.digest] = append(q.places[chunk.digest], []byte(locator))
	}
	return err
}

func TestBoundsUncommittedChunksKeepToTheServersLimit(t *testing.T) {
	w := newWorld(t)
	// So that a server holds many before it answers the first one.
	w.fake.chunkBytes, w.fake.lagBytes = 64, 64<<10
	w.fake.limits.MaxUncommittedChunks = 4096
	recipe := w.upload(w.openAt([]string{w.fake.name}, &quickStore{memoryStore: w.store}), content(64*8_300))
	if len(recipe.Chunks) <= 2*4096 {
		t.Fatal(len(recipe.Chunks))
	}
}

func TestBoundsCommitsComeInBetween(t *testing.T) {
	w := newWorld(t)
	smallMessages(w.fake)
	w.isTold(w.upload(w.open(func(o *Options) { o.CommitBytes = 8 * fakeChunkBytes }), content(256<<10)))
	if w.fake.counts["commit"] < 5 {
		t.Fatal(w.fake.counts["commit"], "commits")
	}
}

func TestBoundsAServerWithTooLittleIsRefused(t *testing.T) {
	for _, limits := range []*kerfv1.Limits{
		{MaxMessageBytes: 4 << 20, MaxUncommittedChunks: 100, MaxCommitEntries: 4096},
		{MaxMessageBytes: 4 << 20, MaxUncommittedChunks: 65536, MaxCommitEntries: 15},
		{MaxUncommittedChunks: 65536, MaxCommitEntries: 4096},
		nil,
	} {
		w := newWorld(t)
		w.fake.limits = limits
		_, err := w.open().Upload(context.Background(), &badReader{}, nil)
		failsWith[*Refused](t, err, "the server")
	}
}

func TestBoundsAProfileWithoutAnEndIsRefused(t *testing.T) {
	// Three of its longest chunks would be read ahead: as many gigabytes as a server likes.
	w := newWorld(t)
	w.fake.chunkBytes = 1 << 30
	_, err := w.open().Upload(context.Background(), &badReader{}, nil)
	failsWith[*Refused](t, err, "this client takes")
	w.fake.chunkBytes = 4 << 20
	w.upload(w.open(), content(100_000))
}

func TestBoundsAnAnswerThatIsTooLongEndsTheStream(t *testing.T) {
	w := newWorld(t)
	w.fake.faults[moment{"data", 1}] = func(s *fakeStream) error {
		s.answer(&kerfv1.UploadAnswer{Answer: &kerfv1.UploadAnswer_Chunks{Chunks: &kerfv1.Chunks{FileNumber: 1,
			Chunks: []*kerfv1.Chunk{{Locator: make([]byte, 2<<20)}}}}})
		return nil
	}
	_, err := w.open().Upload(context.Background(), reader(fileData), nil)
	failsWith[*Refused](t, err, "ResourceExhausted")
	equal(t, "streams", len(w.fake.opens), 1)
}

// A floodingCall has answers without end.
type floodingCall struct {
	grpc.ClientStream
	given chan struct{}
}

func (f floodingCall) RecvMsg(into any) error {
	select {
	case f.given <- struct{}{}:
	default:
		return io.EOF
	}
	into.(*kerfv1.UploadResponse).Answers = []*kerfv1.UploadAnswer{{Answer: &kerfv1.UploadAnswer_Chunks{
		Chunks: &kerfv1.Chunks{Chunks: []*kerfv1.Chunk{{Locator: make([]byte, 400<<10)}}}}}}
	return nil
}

func TestBoundsAnswersThatNobodyTakesWait(t *testing.T) {
	call := floodingCall{given: make(chan struct{}, 100)}
	made := &stream{changed: make(chan struct{}, 1), cancel: func() {}, requests: make(chan *kerfv1.UploadRequest)}
	made.room = sync.NewCond(&made.mutex)
	ended := make(chan error)
	go func() { ended <- made.receive(call) }()
	for deadline := time.Now().Add(30 * time.Second); len(call.given) < 4 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	// Three are 1 MiB and more, and one is on its way.
	equal(t, "answers", len(call.given), 4)
	made.drop()
	if err := <-ended; err != io.EOF {
		t.Error(err)
	}
}

// An emptyCall has messages of fields that nobody knows, and no answers.
type emptyCall struct {
	grpc.ClientStream
	left int
}

func (e *emptyCall) RecvMsg(into any) error {
	if e.left == 0 {
		return io.EOF
	}
	e.left--
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 100, protowire.BytesType), make([]byte, 400<<10))
	into.(*kerfv1.UploadResponse).ProtoReflect().SetUnknown(unknown)
	return nil
}

func TestBoundsMessagesWithoutAnswersHoldUpNone(t *testing.T) {
	made := &stream{changed: make(chan struct{}, 1), cancel: func() {}, requests: make(chan *kerfv1.UploadRequest)}
	made.room = sync.NewCond(&made.mutex)
	ended := make(chan error, 1)
	go func() { ended <- made.receive(&emptyCall{left: 10}) }()
	select {
	case err := <-ended:
		equal(t, "end", err, io.EOF)
	case <-time.After(30 * time.Second):
		t.Error("what is never taken is waited for")
		made.drop()
	}
}

func TestBoundsOfProfiles(t *testing.T) {
	for _, test := range []struct {
		profile           string
		shortest, longest int64
	}{
		{"mincdc:min=4096,max=12288", 4096, 12288}, {"fixed:size=8192", 8192, 8192}, {"fastcdc:min=64,avg=256,max=512,level=1+ff", 64, 512},
		{"ae-max:window=8192,max=32768", 64, 32768}, {"", 64, 4 << 20}, {"seqcdc:mode=increasing,length=5,min=4096,max=16384", 4096, 16384},
		{"other:min=-1,max=x", 64, 4 << 20},
	} {
		shortest, longest := chunkBounds(test.profile)
		equal(t, test.profile, shortest, test.shortest)
		equal(t, test.profile, longest, test.longest)
	}
}
