package kerf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"kerf/client/go/kerfv1"
)

const fakeChunkBytes = 1024

// A moment is the n-th event of a kind, from 1.
type moment struct {
	event string
	count int
}

// A fault is what happens there; an error ends the call.
type fault func(*fakeStream) error

// abort is a status; with a reason one of kerf's.
type abort struct {
	code   codes.Code
	reason string
	delay  time.Duration
	worker string
	note   string
}

func (a abort) Error() string { return a.reason }

func (a abort) status(requestID string) error {
	is := status.New(a.code, "as it was told"+a.note)
	if a.reason == "" {
		return is.Err()
	}
	info := &errdetails.ErrorInfo{Reason: a.reason, Domain: "kerf", Metadata: map[string]string{"request_id": requestID}}
	if a.worker != "" {
		info.Metadata["worker"] = a.worker
	}
	is, err := is.WithDetails(info)
	if err == nil && a.delay != 0 {
		is, err = is.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(a.delay)})
	}
	if err != nil {
		return err
	}
	return is.Err()
}

func fails(code codes.Code, reason string) fault {
	return func(*fakeStream) error { return abort{code: code, reason: reason} }
}

// kill: the connection breaks.
func kill(*fakeStream) error { return abort{code: codes.Unavailable} }

// goAway: the server stops.
func goAway(s *fakeStream) error {
	s.isDraining = true
	away := &kerfv1.GoAway{DrainMs: 1000}
	if s.file != nil {
		away.Files = []*kerfv1.FileProgress{{FileNumber: s.file.number, DurableOffset: uint64(s.file.durable)}}
	}
	s.answer(&kerfv1.UploadAnswer{Answer: &kerfv1.UploadAnswer_GoAway{GoAway: away}})
	return nil
}

// silence: nothing more is said.
func silence(s *fakeStream) error {
	s.isSilent = true
	return nil
}

// babble: nothing more is said, in one message after the other of these answers.
func babble(answers ...*kerfv1.UploadAnswer) fault {
	return func(s *fakeStream) error {
		s.isSilent = true
		s.babble = &kerfv1.UploadResponse{Answers: answers}
		return nil
	}
}

// A fake is a kerfd that cuts at fixed sizes and has a switch for each verdict and failure. It also judges its client: what
// docs/spec forbids is a line in violations.
type fake struct {
	kerfv1.UnimplementedChunkingServiceServer
	kerfv1.UnimplementedIndexServiceServer
	kerfv1.UnimplementedRoutingServiceServer

	name     string
	listener *bufconn.Listener
	server   *grpc.Server

	mutex       sync.Mutex
	log         *eventLog
	violations  []string
	faults      map[moment]fault
	counts      map[string]int
	opens       []*kerfv1.Open
	files       []*kerfv1.FileBegin
	metadata    []metadata.MD
	commits     []told
	lateCommits []told
	reports     []told
	index       *fakeIndex
	worker      string
	chunkBytes  int
	// So much is there before the first chunk of it is answered.
	lagBytes   int
	limits     *kerfv1.Limits
	verdict    func(digest []byte, is kerfv1.Verdict) kerfv1.Verdict
	change     func(*kerfv1.Chunk) *kerfv1.Chunk
	changeDone func(*kerfv1.FileDone) *kerfv1.FileDone
	// One of 0.1.0 says 0.
	toldEpoch      func() uint64
	isDurable      func(locator []byte) bool
	mostUnanswered int
	located        *kerfv1.LocateResponse
	neverWhole     bool
}

type told struct {
	epoch           uint64
	digest, locator string
}

// An eventLog is what happened, at servers and in the store, in its order.
type eventLog struct {
	mutex  sync.Mutex
	events []string
}

func (l *eventLog) add(event string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.events = append(l.events, event)
}

// of: those that begin with one of these words.
func (l *eventLog) of(words ...string) (found []string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, event := range l.events {
		for _, word := range words {
			if event == word || len(event) > len(word) && event[:len(word)+1] == word+" " {
				found = append(found, event)
			}
		}
	}
	return found
}

func (l *eventLog) clear() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.events = nil
}

// network: addresses of fakes.
var network sync.Map

func dialFakes(ctx context.Context, name string) (net.Conn, error) {
	found, is := network.Load(name)
	if !is {
		return nil, errors.New("nobody is there")
	}
	return found.(*fake).listener.DialContext(ctx)
}

var fakeNumber = func() func() int {
	var mutex sync.Mutex
	number := 1000
	return func() int {
		mutex.Lock()
		defer mutex.Unlock()
		number++
		return number
	}
}()

func newFake(t *testing.T, log *eventLog) *fake {
	return newFakeAt(t, log, fmt.Sprintf("127.0.0.1:%d", fakeNumber()))
}

func newFakeAt(t *testing.T, log *eventLog, name string) *fake {
	made := &fake{name: name, log: log, listener: bufconn.Listen(1 << 20), faults: map[moment]fault{}, counts: map[string]int{},
		index: newFakeIndex(), worker: "fake-worker", chunkBytes: fakeChunkBytes, lagBytes: 3 * fakeChunkBytes,
		limits: &kerfv1.Limits{MaxMessageBytes: 4 << 20, MaxUncommittedChunks: 65_536, MaxUncommittedFiles: 16_384, MaxCommitEntries: 4_096}}
	made.verdict = func(_ []byte, is kerfv1.Verdict) kerfv1.Verdict { return is }
	made.change = func(chunk *kerfv1.Chunk) *kerfv1.Chunk { return chunk }
	made.changeDone = func(done *kerfv1.FileDone) *kerfv1.FileDone { return done }
	made.toldEpoch = func() uint64 { return made.index.epoch }
	made.isDurable = func([]byte) bool { return true }
	made.server = grpc.NewServer(grpc.MaxRecvMsgSize(4<<20+64<<10),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}))
	kerfv1.RegisterChunkingServiceServer(made.server, made)
	kerfv1.RegisterIndexServiceServer(made.server, made)
	kerfv1.RegisterRoutingServiceServer(made.server, made)
	go func() { _ = made.server.Serve(made.listener) }()
	network.Store(name, made)
	t.Cleanup(made.stop)
	return made
}

func (f *fake) stop() {
	network.CompareAndDelete(f.name, f)
	f.server.Stop()
}

func (f *fake) violation(format string, arguments ...any) {
	f.violations = append(f.violations, fmt.Sprintf(format, arguments...))
}

// event: with the mutex held.
func (f *fake) event(name string, s *fakeStream) error {
	f.counts[name]++
	if act := f.faults[moment{name, f.counts[name]}]; act != nil {
		return act(s)
	}
	return nil
}

func (f *fake) hear(ctx context.Context, isStream bool) string {
	sent, _ := metadata.FromIncomingContext(ctx)
	f.metadata = append(f.metadata, sent)
	id := ""
	if ids := sent.Get("kerf-request-id"); len(ids) == 1 && len(ids[0]) <= 64 {
		id = ids[0]
	}
	if id == "" {
		f.violation("PRO-67: a call without a request id")
	}
	if _, has := ctx.Deadline(); has == isStream {
		f.violation("CLI-18: a call without a deadline, or a stream with one")
	}
	return id
}

// call: one of no stream.
func call[A any](f *fake, ctx context.Context, name string, act func() (A, error)) (A, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	id := f.hear(ctx, false)
	err := f.event(name, nil)
	var answer A
	if err == nil {
		answer, err = act()
	}
	return answer, statusOf(err, id)
}

func statusOf(err error, id string) error {
	var aborted abort
	switch {
	case errors.Is(err, errBehind):
		return abort{code: codes.FailedPrecondition, reason: "EPOCH_BEHIND"}.status(id)
	case errors.As(err, &aborted):
		return aborted.status(id)
	}
	return err
}

// The Index service.

func (f *fake) GetIndexStats(ctx context.Context, _ *kerfv1.GetIndexStatsRequest) (*kerfv1.GetIndexStatsResponse, error) {
	return call(f, ctx, "GetIndexStats", func() (*kerfv1.GetIndexStatsResponse, error) {
		return &kerfv1.GetIndexStatsResponse{Epoch: f.index.epoch}, nil
	})
}

func (f *fake) CommitChunks(ctx context.Context, request *kerfv1.CommitChunksRequest) (*kerfv1.CommitChunksResponse, error) {
	return call(f, ctx, "CommitChunks", func() (*kerfv1.CommitChunksResponse, error) {
		f.log.add(fmt.Sprintf("commit_chunks %d", request.GetStoreEpoch()))
		for _, entry := range request.GetEntries() {
			f.judge(request.GetStoreEpoch(), entry.GetLocator())
			if length := entry.GetLengthBytes(); length < 1 || length > largestChunkBytes {
				f.violation("PRO-71: BAD_FIELD: length_bytes %d", length)
			}
			f.lateCommits = append(f.lateCommits, told{request.GetStoreEpoch(), string(entry.GetDigest()), string(entry.GetLocator())})
			if err := f.index.commit(request.GetStoreEpoch(), entry.GetDigest(), int(entry.GetLengthBytes()), entry.GetLocator(), true); err != nil {
				return nil, err
			}
		}
		return &kerfv1.CommitChunksResponse{EntryCount: uint64(len(request.GetEntries()))}, nil
	})
}

func (f *fake) ForgetChunks(ctx context.Context, request *kerfv1.ForgetChunksRequest) (*kerfv1.ForgetChunksResponse, error) {
	return call(f, ctx, "ForgetChunks", func() (*kerfv1.ForgetChunksResponse, error) {
		f.log.add("forget")
		var gone uint64
		for _, entry := range request.GetEntries() {
			if len(entry.GetLocator()) > 0 {
				f.violation("COL-52: a collector's locators are empty")
			}
			gone += f.index.remove(entry.GetDigest())
		}
		return &kerfv1.ForgetChunksResponse{ForgottenCount: gone, Epoch: f.index.epoch, RemovedCount: f.index.removed}, nil
	})
}

func (f *fake) ForgetOlderChunks(ctx context.Context, request *kerfv1.ForgetOlderChunksRequest) (*kerfv1.ForgetOlderChunksResponse, error) {
	return call(f, ctx, "ForgetOlderChunks", func() (*kerfv1.ForgetOlderChunksResponse, error) {
		f.log.add(fmt.Sprintf("forget_older %d", request.GetBeforeEpoch()))
		gone, last := f.index.forgetOlder(request.GetBeforeEpoch(), request.GetAfter(), min(2, int(request.GetLimit())))
		if f.neverWhole {
			f.index.removed++
		}
		return &kerfv1.ForgetOlderChunksResponse{ForgottenCount: gone, Epoch: f.index.epoch, RemovedCount: f.index.removed, Last: last}, nil
	})
}

func (f *fake) AdvanceEpoch(ctx context.Context, request *kerfv1.AdvanceEpochRequest) (*kerfv1.AdvanceEpochResponse, error) {
	return call(f, ctx, "AdvanceEpoch", func() (*kerfv1.AdvanceEpochResponse, error) {
		f.log.add(fmt.Sprintf("advance %d", request.GetStoreEpoch()))
		previous, err := f.index.advance(request.GetStoreEpoch(), request.GetMinPreviousEpoch())
		return &kerfv1.AdvanceEpochResponse{PreviousEpoch: previous}, err
	})
}

func (f *fake) Locate(ctx context.Context, request *kerfv1.LocateRequest) (*kerfv1.LocateResponse, error) {
	return call(f, ctx, "Locate", func() (*kerfv1.LocateResponse, error) {
		f.log.add("locate")
		if f.located == nil {
			return nil, abort{code: codes.Unimplemented}
		}
		return f.located, nil
	})
}

func (f *fake) judge(epoch uint64, locator []byte) {
	if len(locator) < 1 || len(locator) > 64 {
		f.violation("a locator of %d bytes", len(locator))
	}
	// What the fence refuses may be gone already.
	if epoch >= f.index.epoch && !f.isDurable(locator) {
		f.violation("COL-19: a commit of what is not durable")
	}
}

// The Upload service.

func (f *fake) Upload(call grpc.BidiStreamingServer[kerfv1.UploadRequest, kerfv1.UploadResponse]) error {
	f.mutex.Lock()
	id := f.hear(call.Context(), true)
	if keys := f.metadata[len(f.metadata)-1].Get("kerf-shard-key"); len(keys) != 1 || len(keys[0]) != 16 {
		f.violation("ROU-2: a stream without a shard key")
	}
	f.mutex.Unlock()
	s := &fakeStream{fake: f, pending: map[string]int{}, lengths: map[string]int{}, stale: map[string]bool{}}
	for {
		request, err := call.Recv()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		f.mutex.Lock()
		if err != nil {
			err = s.onHalfClose(call.Context())
		} else {
			err = s.onRequest(request)
			if err == nil {
				err = errMore
			}
		}
		answers := s.take()
		f.mutex.Unlock()
		// What was answered before the end is read first.
		if len(answers) > 0 {
			if err := call.Send(&kerfv1.UploadResponse{Answers: answers}); err != nil {
				return err
			}
		}
		for s.babble != nil {
			if err := call.Send(s.babble); err != nil {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
		if !errors.Is(err, errMore) {
			return statusOf(err, id)
		}
	}
}

var errMore = errors.New("more")

type fakeFile struct {
	number       uint64
	start        int
	offset       int
	durable      int
	end          int
	buffer       []byte
	content      *xxh3.Hasher
	isEnded      bool
	unresolved   []string
	unresolvedAt []int
}

// A fakeStream is the state of one Upload call.
type fakeStream struct {
	fake    *fake
	open    *kerfv1.Open
	file    *fakeFile
	files   uint64
	pending map[string]int
	// Of all of them together.
	pendingCount int
	lengths      map[string]int
	stale        map[string]bool
	isDraining   bool
	isSilent     bool
	babble       *kerfv1.UploadResponse
	answers      []*kerfv1.UploadAnswer
}

func (s *fakeStream) answer(answer *kerfv1.UploadAnswer) { s.answers = append(s.answers, answer) }

func (s *fakeStream) take() []*kerfv1.UploadAnswer {
	answers := s.answers
	s.answers = nil
	if s.isSilent {
		return nil
	}
	return answers
}

func (s *fakeStream) onHalfClose(ctx context.Context) error {
	if err := s.fake.event("half_close", s); err != nil {
		return err
	}
	if s.isDraining {
		return abort{code: codes.Unavailable, reason: "DRAINING"}
	}
	if s.file != nil && ctx.Err() == nil {
		s.fake.violation("UNFINISHED_FILE: a half-close in a file")
	}
	return nil
}

func (s *fakeStream) onRequest(request *kerfv1.UploadRequest) error {
	if size := proto.Size(request); s.open != nil && size > int(s.fake.limits.GetMaxMessageBytes()) {
		s.fake.violation("MESSAGE_TOO_LARGE: a message of %d bytes", size)
	}
	for _, frame := range request.GetFrames() {
		if _, isData := frame.GetFrame().(*kerfv1.UploadFrame_Data); !isData && proto.Size(frame) > maxFrameBytes {
			s.fake.violation("MESSAGE_TOO_LARGE: a frame of %d bytes", proto.Size(frame))
		}
		if (frame.GetOpen() != nil) == (s.open != nil) {
			s.fake.violation("FRAME_ORDER: %T in the wrong place", frame.GetFrame())
		}
		if err := s.onFrame(frame); err != nil {
			return err
		}
	}
	return nil
}

func (s *fakeStream) onFrame(frame *kerfv1.UploadFrame) error {
	switch frame := frame.GetFrame().(type) {
	case *kerfv1.UploadFrame_Open:
		return s.onOpen(frame.Open)
	case *kerfv1.UploadFrame_Commit:
		return s.onCommit(frame.Commit)
	case *kerfv1.UploadFrame_ReportStale:
		return s.onReport(frame.ReportStale)
	case *kerfv1.UploadFrame_FileBegin:
		if !s.isDraining {
			s.onBegin(frame.FileBegin)
		}
	case *kerfv1.UploadFrame_Data:
		if !s.isDraining {
			return s.onData(frame.Data)
		}
	case *kerfv1.UploadFrame_FileEnd:
		if !s.isDraining {
			return s.onEnd(frame.FileEnd)
		}
	}
	return nil
}

func (s *fakeStream) onOpen(frame *kerfv1.Open) error {
	s.fake.log.add(fmt.Sprintf("open %d", frame.GetStoreEpoch()))
	s.fake.opens = append(s.fake.opens, frame)
	s.open = frame
	if err := s.fake.event("open", s); err != nil {
		return err
	}
	s.answer(&kerfv1.UploadAnswer{Answer: &kerfv1.UploadAnswer_Opened{Opened: &kerfv1.Opened{SessionId: "1", Limits: s.fake.limits,
		Worker: s.fake.worker, Profile: fmt.Sprintf("fixed:size=%d", s.fake.chunkBytes)}}})
	return s.fake.event("opened", s)
}

func (s *fakeStream) onBegin(frame *kerfv1.FileBegin) {
	if s.file != nil && !s.file.isEnded {
		s.fake.violation("FRAME_ORDER: a file within a file")
	}
	s.fake.files = append(s.fake.files, frame)
	s.files++
	start := int(frame.GetStartOffset())
	s.file = &fakeFile{number: s.files, start: start, offset: start, durable: start, end: start, content: xxh3.New()}
}

func (s *fakeStream) onData(data []byte) error {
	s.file.buffer = append(s.file.buffer, data...)
	_, _ = s.file.content.Write(data)
	s.file.end += len(data)
	if err := s.fake.event("data", s); err != nil {
		return err
	}
	return s.cut(s.fake.lagBytes)
}

func (s *fakeStream) onEnd(frame *kerfv1.FileEnd) error {
	if int(frame.GetSizeBytes()) != s.file.end {
		s.fake.violation("SIZE_MISMATCH: %d, and %d came", frame.GetSizeBytes(), s.file.end)
	}
	if hash := s.file.content.Sum128().Bytes(); !bytes.Equal(hash[:], frame.GetContentHash()) {
		s.fake.violation("CONTENT_MISMATCH")
	}
	s.file.isEnded = true
	if err := s.fake.event("end", s); err != nil {
		return err
	}
	if err := s.cut(0); err != nil {
		return err
	}
	s.resolve()
	return nil
}

func (s *fakeStream) cut(lag int) error {
	file, size := s.file, s.fake.chunkBytes
	s.fake.mostUnanswered = max(s.fake.mostUnanswered, len(file.buffer))
	var chunks []*kerfv1.Chunk
	for len(file.buffer) >= max(size, lag) || file.isEnded && len(file.buffer) > 0 {
		data := file.buffer[:min(size, len(file.buffer))]
		file.buffer = file.buffer[len(data):]
		if chunk := s.fake.change(s.chunk(data)); chunk != nil {
			chunks = append(chunks, chunk)
		}
	}
	if len(chunks) == 0 {
		return nil
	}
	s.answer(&kerfv1.UploadAnswer{Answer: &kerfv1.UploadAnswer_Chunks{Chunks: &kerfv1.Chunks{FileNumber: file.number, Chunks: chunks}}})
	return s.fake.event("chunks", s)
}

func (s *fakeStream) chunk(data []byte) *kerfv1.Chunk {
	file := s.file
	file.offset += len(data)
	sum := sha256.Sum256(data)
	digest := sum[:]
	verdict, locator := s.fake.index.verdict(digest, len(data), s.open.GetStoreEpoch())
	if other := s.fake.verdict(digest, verdict); other != verdict {
		verdict = other
		if verdict == kerfv1.Verdict_VERDICT_NEW {
			locator = nil
		} else if locator == nil {
			locator = []byte("told")
		}
	}
	s.lengths[string(digest)] = len(data)
	if verdict != kerfv1.Verdict_VERDICT_DUPLICATE {
		s.pending[string(digest)]++
		s.pendingCount++
		file.unresolved = append(file.unresolved, string(digest))
		file.unresolvedAt = append(file.unresolvedAt, file.offset)
		if s.pendingCount > int(s.fake.limits.GetMaxUncommittedChunks()) {
			s.fake.violation("TOO_MANY_UNCOMMITTED_CHUNKS")
		}
	} else if len(file.unresolved) == 0 {
		file.durable = file.offset
	}
	return &kerfv1.Chunk{EndOffset: uint64(file.offset), Digest: digest, Verdict: verdict, Locator: locator, Check: xxh3.Hash(data)}
}

func (s *fakeStream) onCommit(frame *kerfv1.Commit) error {
	fake := s.fake
	fake.log.add("commit")
	if err := fake.event("commit", s); err != nil {
		return err
	}
	if len(frame.GetEntries()) > int(fake.limits.GetMaxCommitEntries()) {
		fake.violation("TOO_MANY_ENTRIES: a Commit of %d entries", len(frame.GetEntries()))
	}
	writes := false
	for _, entry := range frame.GetEntries() {
		digest := string(entry.GetDigest())
		_, isKnown := fake.index.entries[digest]
		if s.pending[digest] == 0 && !s.stale[digest] && !isKnown {
			fake.violation("UNKNOWN_DIGEST")
			return abort{code: codes.InvalidArgument, reason: "UNKNOWN_DIGEST"}
		}
		writes = writes || s.pending[digest] > 0 || s.stale[digest]
		fake.judge(s.open.GetStoreEpoch(), entry.GetLocator())
		fake.commits = append(fake.commits, told{s.open.GetStoreEpoch(), digest, string(entry.GetLocator())})
	}
	for _, entry := range frame.GetEntries() {
		if !writes {
			break
		}
		if err := fake.index.commit(s.open.GetStoreEpoch(), entry.GetDigest(), s.lengths[string(entry.GetDigest())], entry.GetLocator(), false); err != nil {
			return err
		}
		s.pendingCount -= s.pending[string(entry.GetDigest())]
		delete(s.pending, string(entry.GetDigest()))
		delete(s.stale, string(entry.GetDigest()))
	}
	s.answer(&kerfv1.UploadAnswer{Answer: &kerfv1.UploadAnswer_Committed{Committed: &kerfv1.Committed{
		EntryCount: uint32(len(frame.GetEntries())), IndexEpoch: s.fake.toldEpoch()}}})
	s.resolve()
	return nil
}

func (s *fakeStream) onReport(frame *kerfv1.ReportStale) error {
	s.fake.log.add("report")
	if err := s.fake.event("report", s); err != nil {
		return err
	}
	for _, entry := range frame.GetEntries() {
		s.fake.reports = append(s.fake.reports, told{s.open.GetStoreEpoch(), string(entry.GetDigest()), string(entry.GetLocator())})
		s.stale[string(entry.GetDigest())] = true
		if there, is := s.fake.index.entries[string(entry.GetDigest())]; is && there.locator == string(entry.GetLocator()) {
			s.fake.index.remove(entry.GetDigest())
		}
	}
	return nil
}

func (s *fakeStream) resolve() {
	file := s.file
	if file == nil {
		return
	}
	for len(file.unresolved) > 0 && s.pending[file.unresolved[0]] == 0 {
		file.durable = file.unresolvedAt[0]
		file.unresolved, file.unresolvedAt = file.unresolved[1:], file.unresolvedAt[1:]
	}
	if file.isEnded && len(file.buffer) == 0 && len(file.unresolved) == 0 {
		done := s.fake.changeDone(&kerfv1.FileDone{FileNumber: file.number, SizeBytes: uint64(file.end),
			IndexEpoch: s.fake.toldEpoch()})
		if done != nil {
			s.answer(&kerfv1.UploadAnswer{Answer: &kerfv1.UploadAnswer_FileDone{FileDone: done}})
		}
		s.file = nil
	}
}

// lastChunks: of the answers that are not sent yet.
func (s *fakeStream) lastChunks() *kerfv1.Chunks {
	for _, answer := range slices.Backward(s.answers) {
		if chunks := answer.GetChunks(); chunks != nil {
			return chunks
		}
	}
	return nil
}
