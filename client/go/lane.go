package kerf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kerf/client/go/kerfv1"
)

// features: what this client understands beyond release 0.1.0 (PRO-92).
var features = []string{"index-epoch"}

// settings of a client.
type settings struct {
	repository  string
	profile     string
	digest      Digest
	agent       string
	isDirect    bool
	retryFor    time.Duration
	silence     time.Duration
	lateFor     time.Duration
	windowBytes int64
	commitBytes int64
	warn        func(string)
	pace        *pace
}

// A lane is one upload at a time, over as many streams as it takes. Of one goroutine at a time.
type lane struct {
	settings *settings
	keeper   *keeper
	servers  *servers
	proof    *proof
	index    *index
	route    *route

	stream *stream
	view   *view
	bounds *bounds
	// Of all its streams in that view's epoch.
	indexEpoch  uint64
	filesBegun  uint64
	server      address
	isPastFront bool
	isOpened    bool
	wasAnswered bool
	// What lost streams have left (COL-34).
	late        map[string]Stored
	uncommitted *uncommitted
	// Frames that wait for room, each for a message of its own.
	outbox []*kerfv1.UploadFrame
	// The client itself was busy until then.
	busyUntil time.Time
	// When the front was asked for the worker last.
	askedAt time.Time
}

func newLane(client *Client, number int) *lane {
	return &lane{settings: client.settings, keeper: client.keeper, servers: client.servers, proof: client.proof, index: client.index,
		route: newRoute(client.settings, client.proof, number), late: map[string]Stored{}, uncommitted: newUncommitted()}
}

// upload: EpochBehind says that all of it has to be begun again, in another epoch. A stream is left open for the next file
// only if all went well.
func (l *lane) upload(ctx context.Context, file *file, view *view) (*Recipe, error) {
	patience := newPatience(l.servers, l.settings.retryFor, l.settings.pace)
	isWhole := false
	// Also where a reader or a callback panics, and somebody recovers.
	defer func() {
		if !isWhole {
			l.drop()
		}
		// Entries go under no other epoch than the one that they were made for (COL-22).
		clear(l.late)
	}()
	if l.stream != nil && (!l.view.equals(view) || !l.stream.isIdle()) {
		l.close(ctx)
	}
	for {
		err := l.tryUpload(ctx, file, view, patience)
		if err == nil {
			break
		}
		if err = l.lost(ctx, err, file, patience); err != nil {
			return nil, err
		}
	}
	isWhole = true
	recipe := &Recipe{Key: file.key, Size: file.answered, Chunks: file.chunks, Seen: view.seen(),
		NewChunks: file.newChunks, NewBytes: file.newBytes, UntoldChunks: len(l.late)}
	if l.view != nil && l.view.equals(view) {
		recipe.IndexEpoch = l.indexEpoch
	}
	return recipe, nil
}

// close half-closes. What the server says then is worth a warning at most: all was answered before.
func (l *lane) close(ctx context.Context) {
	if l.stream != nil && l.isOpened {
		if failed := l.stream.finish(ctx, l.settings.pace.finish); failed != nil && failed.Reason == reasonFull {
			l.settings.warn("the index has no room for all chunks: " + failed.text)
		}
	}
	l.drop()
}

func (l *lane) drop() {
	if l.stream != nil {
		l.stream.drop()
	}
	l.stream = nil
	l.isOpened = false
	l.uncommitted = newUncommitted()
	l.outbox = nil
}

// Streams, one after another.

// tryUpload: on one stream, or without any if that is not needed any more.
func (l *lane) tryUpload(ctx context.Context, file *file, view *view, patience *patience) error {
	if !file.isComplete() || len(file.chunks) == 0 {
		if l.stream == nil {
			if err := l.open(ctx, view, patience); err != nil {
				return err
			}
		}
		if err := l.tellLate(ctx, view); err != nil {
			return err
		}
		if err := l.send(ctx, file, patience); err != nil {
			return err
		}
	}
	// Else all of it is the store's already, and no stream is needed (CLI-9).
	if err := l.keeper.sync(); err != nil {
		return err
	}
	return l.tellLate(ctx, view)
}

func (l *lane) open(ctx context.Context, view *view, patience *patience) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.server = patience.server()
	where := l.route.choose(ctx, l.server)
	l.isPastFront = where.isPastFront
	if l.isPastFront {
		patience.met()
	}
	connection, err := l.proof.connect(where.address, where.name, where.isPastFront)
	if err != nil {
		return err
	}
	sent, err := l.route.metadata(where.address)
	if err != nil {
		return err
	}
	l.stream = openStream(connection, sent, where.address.text)
	if l.view != nil && !l.view.equals(view) {
		l.indexEpoch = 0
	}
	l.view = view
	l.isOpened, l.wasAnswered = false, false
	l.filesBegun = 0
	l.busyUntil = time.Now()
	l.stream.send(&kerfv1.UploadFrame{Frame: &kerfv1.UploadFrame_Open{Open: &kerfv1.Open{
		Repository: l.settings.repository, Profile: l.settings.profile, DigestAlgorithm: l.settings.digest.algorithm(),
		StoreEpoch: view.epoch, Agent: l.settings.agent, Features: features}}})
	// Nothing more before Opened: only then it is known how large a message may be (CLI-2).
	for {
		answer, err := l.stream.take()
		switch {
		case err != nil:
			return err
		case answer == nil:
			if err := l.wait(ctx); err != nil {
				return err
			}
		case answer.GetOpened() != nil:
			return l.opened(answer.GetOpened(), patience)
		case answer.GetGoAway() != nil:
			return l.stops()
		case answer.Answer != nil:
			return errWrong("the first answer of a stream is not Opened")
		default: // Of a later version (CLI-10).
			if _, err := l.checkSilence(); err != nil {
				return err
			}
		}
	}
}

func (l *lane) opened(opened *kerfv1.Opened, patience *patience) (err error) {
	if l.bounds, err = newBounds(opened, l.settings.windowBytes); err != nil {
		return err
	}
	l.stream.worker = opened.GetWorker()
	l.isOpened = true
	patience.met()
	return nil
}

// lost: nil if the bytes that were not answered may go through another stream, and the commits by a call of their own.
func (l *lane) lost(ctx context.Context, err error, file *file, patience *patience) error {
	var failed *failure
	var ended *streamEnded
	var wrong errWrong
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("kerf: the upload was given up: %w", ctx.Err())
	case errors.As(err, &ended):
		failed = ended.failure
	case errors.As(err, &wrong):
		failed = &failure{Details: Details{Server: l.stream.server}, action: actionOnce, text: string(wrong), isWrong: true}
	default:
		return err
	}
	worker := ""
	if l.stream != nil {
		worker = l.stream.worker
	}
	l.route.lost(failed, worker, l.isPastFront, l.isOpened, l.wasAnswered)
	l.uncommitted.leave(l.late)
	l.drop()
	// CLI-39: what was answered may be what is wrong, and is the store's by now.
	isSuspect := failed.Reason == reasonMismatch && file.answered > file.start
	file.restart()
	if isSuspect {
		failed.action = actionFinal
		return failed.err("what came is not what was read, and a part of it was answered: memory may be faulty")
	}
	if file.isComplete() && len(file.chunks) > 0 {
		return l.lostBehindTheLastChunk(failed)
	}
	if err := patience.next(ctx, failed); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("kerf: the upload was given up: %w", ctx.Err())
		}
		return err
	}
	return nil
}

// lostBehindTheLastChunk: CLI-9: the file is whole, whatever was said of it then. But what an earlier epoch was answered
// counts no more (COL-23).
func (l *lane) lostBehindTheLastChunk(failed *failure) error {
	switch failed.action {
	case actionBehind:
		return failed.err("")
	case actionFinal:
		l.settings.warn("a stream ended behind the last chunk of a file: " + failed.err("").Error())
	}
	return nil
}

// tellLate: COL-34: in the epoch of the session that they were answered in. Not at all, if that does not go.
func (l *lane) tellLate(ctx context.Context, view *view) error {
	if len(l.late) == 0 {
		return nil
	}
	if err := l.keeper.sync(); err != nil { // COL-19.
		return err
	}
	places := make([]Stored, 0, len(l.late))
	for _, place := range l.late {
		places = append(places, place)
	}
	err := l.index.commit(ctx, view.epoch, places, l.settings.lateFor)
	var behind *EpochBehind
	switch {
	case err == nil:
		clear(l.late)
	case ctx.Err() != nil || errors.As(err, &behind):
		return err
	default:
		// The recipe is none the worse (CLI-9).
		l.settings.warn(fmt.Sprintf("the index was not told of %d chunks: %v", len(l.late), err))
	}
	return nil
}

// A file on a stream.

func (l *lane) send(ctx context.Context, file *file, patience *patience) error {
	l.filesBegun++
	opening := []*kerfv1.UploadFrame{{Frame: &kerfv1.UploadFrame_FileBegin{FileBegin: &kerfv1.FileBegin{
		FileKey: file.key, SizeHintBytes: uint64(file.sizeHint), StartOffset: uint64(file.start)}}}}
	for !(file.isDone && l.uncommitted.isEmpty()) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if l.isCommitDue(file) {
			if err := l.commit(); err != nil {
				return err
			}
			l.busyUntil = time.Now()
		}
		answer, err := l.stream.take()
		switch {
		case err != nil:
			return err
		case answer != nil:
			answered := file.answered
			if err := l.onAnswer(answer, file); err != nil {
				return err
			}
			if !saysSomething(answer) {
				if _, err := l.checkSilence(); err != nil {
					return err
				}
				continue
			}
			if file.answered > answered { // CLI-11.
				patience.progress()
				l.route.answered()
			}
		case len(l.outbox) > 0 && l.stream.hasRoom():
			l.stream.send(l.outbox[0])
			l.outbox = l.outbox[1:]
		case len(l.outbox) == 0 && !file.isEndSent && l.maySend(file):
			if err := l.sendBlock(file, opening); err != nil {
				return err
			}
			opening = nil
		default:
			if err := l.wait(ctx); err != nil {
				return err
			}
			continue
		}
		// What the store, or the reader, took meanwhile is no silence of the server (CLI-13).
		l.busyUntil = time.Now()
	}
	return nil
}

func (l *lane) maySend(file *file) bool {
	return l.stream.hasRoom() && file.unanswered()+int64(l.bounds.block) <= l.bounds.window &&
		l.bounds.hasRoomForChunks(l.uncommitted, file)
}

func (l *lane) sendBlock(file *file, frames []*kerfv1.UploadFrame) error {
	block, err := file.nextBlock(l.bounds.block)
	if err != nil {
		return err
	}
	if len(block) > 0 {
		frames = append(frames, &kerfv1.UploadFrame{Frame: &kerfv1.UploadFrame_Data{Data: block}})
	}
	if file.isAllSent() {
		hash := file.content.Sum128().Bytes()
		frames = append(frames, &kerfv1.UploadFrame{Frame: &kerfv1.UploadFrame_FileEnd{FileEnd: &kerfv1.FileEnd{
			SizeBytes: uint64(file.sent), ContentHash: hash[:]}}})
		file.isEndSent = true
	}
	l.stream.send(frames...)
	return nil
}

func (l *lane) isCommitDue(file *file) bool {
	if len(l.uncommitted.isStale) >= l.bounds.commitCount {
		return true
	}
	if len(l.uncommitted.pending) == 0 {
		return false
	}
	return file.isComplete() || l.uncommitted.pendingBytes >= l.settings.commitBytes ||
		l.uncommitted.count() >= l.bounds.commitCount || !l.bounds.hasRoomForChunks(l.uncommitted, file)
}

// commit: COL-19: durable before it is told.
func (l *lane) commit() error {
	if err := l.keeper.sync(); err != nil {
		return err
	}
	l.outbox = append(l.outbox, l.uncommitted.frames(l.bounds.limits, l.settings.digest.Size())...)
	return nil
}

// wait is only called while an answer is owed: the window is full, or the file is through.
func (l *lane) wait(ctx context.Context) error {
	since := l.stream.heard()
	if l.busyUntil.After(since) {
		since = l.busyUntil
	}
	most := time.Until(since.Add(l.settings.silence))
	if l.isPastFront {
		most = min(most, l.settings.pace.askAgain)
	}
	if err := l.stream.wait(ctx, max(most, time.Millisecond)); err != nil {
		return err
	}
	if !l.stream.isIdle() {
		return nil
	}
	silent, err := l.checkSilence()
	if err != nil {
		return err
	}
	if l.isPastFront && silent >= l.settings.pace.askAgain && time.Since(l.askedAt) >= l.settings.pace.askAgain {
		l.askedAt = time.Now()
		if l.route.hasMoved(ctx, l.server) {
			return l.isSilent("silent, and the front knows another worker by now")
		}
	}
	return nil
}

// checkSilence: for how long the server has said nothing, and this side had nothing else to do.
func (l *lane) checkSilence() (time.Duration, error) {
	since := l.stream.heard()
	if l.busyUntil.After(since) {
		since = l.busyUntil
	}
	silent := time.Since(since)
	if silent >= l.settings.silence {
		return silent, l.isSilent("silent for " + silent.Round(time.Millisecond).String())
	}
	return silent, nil
}

func (l *lane) isSilent(text string) error {
	return &streamEnded{&failure{Details: Details{Server: l.stream.server}, action: actionRetry, text: text, isSilence: true}}
}

// Answers.

func (l *lane) onAnswer(answer *kerfv1.UploadAnswer, file *file) error {
	l.wasAnswered = true
	switch answer := answer.Answer.(type) {
	case *kerfv1.UploadAnswer_Chunks:
		if err := l.checkFile(answer.Chunks.GetFileNumber()); err != nil {
			return err
		}
		for _, chunk := range answer.Chunks.GetChunks() {
			if err := l.onChunk(chunk, file); err != nil {
				return err
			}
		}
	case *kerfv1.UploadAnswer_Committed:
		if !l.uncommitted.committed() {
			return errWrong("Committed, and no Commit was sent")
		}
		l.indexEpoch = max(l.indexEpoch, answer.Committed.GetIndexEpoch())
	case *kerfv1.UploadAnswer_FileDone:
		if err := l.checkFile(answer.FileDone.GetFileNumber()); err != nil {
			return err
		}
		if !file.isEndSent || !file.isComplete() || answer.FileDone.GetSizeBytes() != uint64(file.answered) {
			return errWrong(fmt.Sprintf("FileDone behind %d bytes of %d", file.answered, file.sent))
		}
		file.isDone = true
		l.indexEpoch = max(l.indexEpoch, answer.FileDone.GetIndexEpoch())
	case *kerfv1.UploadAnswer_GoAway:
		return l.stops()
	case *kerfv1.UploadAnswer_Opened:
		return errWrong("a second Opened")
	}
	// Else it is of a later version, which sends nothing that its client has to understand (PRO-14).
	return nil
}

// stops: PRO-40. What is pending goes by CommitChunks (COL-38, PRO-32).
func (l *lane) stops() error {
	return &streamEnded{&failure{Details: Details{Reason: "DRAINING", Server: l.stream.server}, action: actionRetry, text: "the server stops"}}
}

func (l *lane) checkFile(number uint64) error {
	if number != l.filesBegun {
		return errWrong(fmt.Sprintf("an answer for file %d; %d is under way", number, l.filesBegun))
	}
	return nil
}

func (l *lane) onChunk(chunk *kerfv1.Chunk, file *file) error {
	end := int64(chunk.GetEndOffset())
	if end <= file.answered || end > file.sent {
		return errWrong(fmt.Sprintf("a chunk from %d to %d, and %d bytes were sent", file.answered, end, file.sent))
	}
	data := file.peek(end)
	if err := compare(chunk, data, l.settings.digest); err != nil {
		return err
	}
	place, err := l.keeper.place(l.view, chunk.GetDigest(), data, chunk.GetVerdict())
	if err != nil {
		return err
	}
	if place.isStale {
		l.uncommitted.addStale(chunk.GetDigest(), chunk.GetLocator())
	}
	if place.isToCommit {
		l.uncommitted.add(Stored{chunk.GetDigest(), len(data), place.locator})
	}
	file.add(Chunk{chunk.GetDigest(), len(data)}, place.isNew)
	return nil
}
