package kerf

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"kerf/client/go/kerfv1"
)

// COL-10, CLI-8: an answer that is not of the bytes that were sent is believed by nobody. Another stream is tried, once.
var wrongAnswers = map[string]func(*kerfv1.Chunk){
	"check":               func(chunk *kerfv1.Chunk) { chunk.Check ^= 1 },
	"digest":              func(chunk *kerfv1.Chunk) { chunk.Digest = sha(chunk.Digest) },
	"digest length":       func(chunk *kerfv1.Chunk) { chunk.Digest = chunk.Digest[:20] },
	"shorter":             func(chunk *kerfv1.Chunk) { chunk.EndOffset-- },
	"empty":               func(chunk *kerfv1.Chunk) { chunk.EndOffset -= fakeChunkBytes },
	"beyond what is sent": func(chunk *kerfv1.Chunk) { chunk.EndOffset += 1 << 30 },
	"negative":            func(chunk *kerfv1.Chunk) { chunk.EndOffset = 1<<64 - 1 },
}

// makeWrong: the n-th answer, or from 0 on each of them.
func makeWrong(fake *fake, only int, change func(*kerfv1.Chunk)) {
	count := 0
	fake.change = func(chunk *kerfv1.Chunk) *kerfv1.Chunk {
		if count++; only == 0 || only == count {
			chunk = proto.Clone(chunk).(*kerfv1.Chunk)
			change(chunk)
		}
		return chunk
	}
}

func TestWrongAnswersOnceIsAnotherStream(t *testing.T) {
	for name, change := range wrongAnswers {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			makeWrong(w.fake, 4, change)
			w.isTold(w.upload(w.open(), content(20*fakeChunkBytes)))
			equal(t, "streams", len(w.fake.opens), 2)
		})
	}
}

func TestWrongAnswersTwiceIsTheEnd(t *testing.T) {
	for name, change := range wrongAnswers {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			makeWrong(w.fake, 0, change)
			_, err := w.open().Upload(context.Background(), reader(content(20*fakeChunkBytes)), nil)
			failsWith[*Disagreement](t, err, "second time")
			failsWith[*Refused](t, err, "")
			for _, chunk := range w.store.content {
				equal(t, "what is stored", chunk.digest, string(sha(chunk.data)))
			}
		})
	}
}

func TestWrongAnswersAWrongDuplicateIsWrongAsWell(t *testing.T) {
	w := newWorld(t)
	w.fake.verdict = func([]byte, kerfv1.Verdict) kerfv1.Verdict { return kerfv1.Verdict_VERDICT_DUPLICATE }
	makeWrong(w.fake, 0, wrongAnswers["digest"])
	_, err := w.open().Upload(context.Background(), reader(content(5000)), nil)
	failsWith[*Disagreement](t, err, "")
}

func TestWrongAnswersOneIsLeftOutOrComesTwice(t *testing.T) {
	w := newWorld(t)
	count := 0
	w.fake.change = func(chunk *kerfv1.Chunk) *kerfv1.Chunk {
		if count++; count == 4 {
			return nil
		}
		return chunk
	}
	w.upload(w.open(), content(20*fakeChunkBytes))
	equal(t, "streams", len(w.fake.opens), 2)
	again := newWorld(t)
	again.fake.faults[moment{"chunks", 1}] = func(s *fakeStream) error {
		chunks := s.lastChunks()
		chunks.Chunks = append(chunks.Chunks, &kerfv1.Chunk{EndOffset: chunks.Chunks[len(chunks.Chunks)-1].EndOffset, Digest: sha(nil),
			Verdict: kerfv1.Verdict_VERDICT_NEW, Check: checkOf(nil)})
		return nil
	}
	recipe := again.upload(again.open(), content(20*fakeChunkBytes))
	for _, chunk := range recipe.Chunks {
		if chunk.Length == 0 {
			t.Fatal("a chunk of nothing")
		}
	}
}

func TestWrongAnswersOfAnotherFile(t *testing.T) {
	w := newWorld(t)
	for number := range 9 {
		w.fake.faults[moment{"chunks", number}] = func(s *fakeStream) error {
			s.lastChunks().FileNumber++
			return nil
		}
	}
	_, err := w.open().Upload(context.Background(), reader(content(20*fakeChunkBytes)), nil)
	failsWith[*Disagreement](t, err, "file 2")
}

func TestWrongAnswersFramesThatNobodyAsksFor(t *testing.T) {
	for _, answer := range []*kerfv1.UploadAnswer{
		{Answer: &kerfv1.UploadAnswer_Committed{Committed: &kerfv1.Committed{}}},
		{Answer: &kerfv1.UploadAnswer_Opened{Opened: &kerfv1.Opened{}}},
		{Answer: &kerfv1.UploadAnswer_FileDone{FileDone: &kerfv1.FileDone{FileNumber: 1}}},
	} {
		w := newWorld(t)
		w.fake.faults[moment{"data", 1}] = func(s *fakeStream) error {
			s.answer(answer)
			return nil
		}
		w.upload(w.open(), content(20*fakeChunkBytes))
		equal(t, "streams", len(w.fake.opens), 2)
	}
}

func TestWrongAnswersOfAFileWhoseChunksAreAllComparedNoOtherWordCounts(t *testing.T) {
	for _, change := range []func(*kerfv1.FileDone){
		func(done *kerfv1.FileDone) { done.SizeBytes-- },
		func(done *kerfv1.FileDone) { done.FileNumber++ },
	} {
		w := newWorld(t)
		w.fake.changeDone = func(done *kerfv1.FileDone) *kerfv1.FileDone {
			change(done)
			return done
		}
		recipe := w.upload(w.open(), content(20*fakeChunkBytes))
		w.isTold(recipe)
		equal(t, "streams", len(w.fake.opens), 1)
	}
}

// CLI-9: also a status that is final, and one that was tried for the second time.
func TestWrongAnswersBehindTheLastChunkNoStatusCounts(t *testing.T) {
	for reason, code := range map[string]codes.Code{"NOT_YOURS": codes.PermissionDenied, "INTERNAL": codes.Internal, "DRAINING": codes.Unavailable,
		"QUOTA_EXCEEDED": codes.ResourceExhausted} {
		w := newWorld(t)
		var warnings []string
		client := w.open(func(o *Options) { o.Warn = func(message string) { warnings = append(warnings, message) } })
		w.fake.faults[moment{"chunks", 1}] = fails(code, reason)
		w.isTold(w.upload(client, content(2*fakeChunkBytes)))
		equal(t, "streams", len(w.fake.opens), 1)
		if isFinal := reason == "NOT_YOURS" || reason == "QUOTA_EXCEEDED"; isFinal != (len(warnings) == 1) {
			t.Error(reason, warnings)
		}
	}
	// But not that a collection ran: verdicts of before count no more (COL-23).
	w := newWorld(t)
	w.fake.faults[moment{"chunks", 1}] = fails(codes.FailedPrecondition, "EPOCH_BEHIND")
	_, err := w.open().Upload(context.Background(), reader(content(2*fakeChunkBytes)), nil)
	failsWith[*EpochBehind](t, err, "")
}

func TestWrongAnswersTooFewBytes(t *testing.T) {
	// The last chunk is never answered, and the file is done all the same.
	w := newWorld(t)
	data := content(20 * fakeChunkBytes)
	w.upload(w.open(), data)
	w.do(func(fake *fake) {
		fake.change = func(chunk *kerfv1.Chunk) *kerfv1.Chunk {
			if chunk.GetEndOffset() == uint64(len(data)) {
				return nil
			}
			return chunk
		}
	})
	_, err := w.open().Upload(context.Background(), reader(data), nil)
	failsWith[*Disagreement](t, err, "FileDone behind")
}
