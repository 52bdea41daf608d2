package kerf

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"kerf/client/go/kerfv1"
)

const (
	// Messages that gRPC has not taken yet.
	waitingMessages = 2
	// Answers that the lane has not taken yet, encoded, and one message more: taken apart they may cost forty times as much.
	waitingAnswerBytes = 1 << 20
	// Of one message (PRO-71).
	maxUploadAnswerBytes = 2 << 20
	uploadMethod         = "/kerf.v1.ChunkingService/Upload"
)

// A stream is one Upload call, as a queue of messages each way: no rule of the protocol is here, but that it is read while
// it is written (PRO-10), and that no queue grows. Of one goroutine, its lane's; two more send and receive.
type stream struct {
	server string
	worker string
	cancel context.CancelFunc

	requests chan *kerfv1.UploadRequest
	// Something has come, or there is room. One that is not taken stands for more.
	changed chan struct{}

	mutex        sync.Mutex
	answers      []*kerfv1.UploadAnswer
	answerBytes  int
	room         *sync.Cond
	isOver       bool
	isDropped    bool
	failed       *failure
	heardAt      time.Time
	isHalfClosed bool
}

func openStream(connection *connection, sent metadata.MD, server string) *stream {
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(context.Background(), sent))
	made := &stream{server: server, cancel: cancel, requests: make(chan *kerfv1.UploadRequest, waitingMessages),
		changed: make(chan struct{}, 1), heardAt: time.Now()}
	made.room = sync.NewCond(&made.mutex)
	go made.run(ctx, connection)
	return made
}

func (s *stream) run(ctx context.Context, connection *connection) {
	call, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, uploadMethod,
		grpc.MaxCallRecvMsgSize(maxUploadAnswerBytes))
	if err == nil {
		go func() {
			for request := range s.requests {
				// Its status is what RecvMsg says.
				if call.SendMsg(request) != nil {
					break
				}
				s.signal()
			}
			// Also where the stream is over: nobody is held up by a full queue.
			for range s.requests {
				s.signal()
			}
			// gRPC might tell of the end of the requests before it tells that the call was cancelled: a half-close in a file.
			if ctx.Err() == nil {
				_ = call.CloseSend()
			}
		}()
		err = s.receive(call)
	} else {
		go func() {
			for range s.requests {
				s.signal()
			}
		}()
	}
	s.mutex.Lock()
	s.isOver = true
	if !errors.Is(err, io.EOF) {
		s.failed = failureOf(err, s.server)
		s.refuse(connection)
	}
	s.mutex.Unlock()
	s.signal()
}

// refuse: a connection that this client itself did not want is none that broke.
func (s *stream) refuse(connection *connection) {
	if refusal := connection.refusal.Load(); refusal != nil && s.failed.Reason == "" {
		s.failed.action, s.failed.text = actionFinal, refusal.message
	}
}

func (s *stream) receive(call grpc.ClientStream) error {
	for {
		response := &kerfv1.UploadResponse{}
		if err := call.RecvMsg(response); err != nil {
			return err
		}
		s.mutex.Lock()
		for s.answerBytes >= waitingAnswerBytes && !s.isDropped {
			s.room.Wait()
		}
		if slices.ContainsFunc(response.GetAnswers(), saysSomething) {
			s.heardAt = time.Now()
		}
		// What has none is never taken, and does not wait.
		if answers := response.GetAnswers(); len(answers) > 0 && !s.isDropped {
			s.answers = append(s.answers, answers...)
			s.answerBytes += proto.Size(response)
		}
		s.mutex.Unlock()
		s.signal()
	}
}

// saysSomething: CLI-42: an answer of a later version does not, nor one of no chunks. Whoever sends only such is silent.
func saysSomething(answer *kerfv1.UploadAnswer) bool {
	chunks := answer.GetChunks()
	return answer.GetAnswer() != nil && (chunks == nil || len(chunks.GetChunks()) > 0)
}

func (s *stream) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// What its lane calls.

func (s *stream) hasRoom() bool { return len(s.requests) < cap(s.requests) }

// isIdle: nothing has come, the end included.
func (s *stream) isIdle() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.answers) == 0 && !s.isOver
}

// send waits for room, which comes also once the stream has ended: take then says how.
func (s *stream) send(frames ...*kerfv1.UploadFrame) {
	s.requests <- &kerfv1.UploadRequest{Frames: frames}
}

// take: the next answer, nil if there is none yet. streamEnded behind the last one.
func (s *stream) take() (*kerfv1.UploadAnswer, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.answers) > 0 {
		answer := s.answers[0]
		s.answers = s.answers[1:]
		if len(s.answers) == 0 {
			s.answerBytes = 0
			s.room.Signal()
		}
		return answer, nil
	}
	if s.isOver {
		return nil, s.endedLocked()
	}
	return nil, nil
}

func (s *stream) endedLocked() error {
	if s.failed == nil {
		return &streamEnded{&failure{Details: Details{Server: s.server}, action: actionOnce,
			text: "the server has ended the stream before its client did"}}
	}
	return &streamEnded{s.failed}
}

func (s *stream) heard() time.Time {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.heardAt
}

// wait: until something has come, there is room, or so long.
func (s *stream) wait(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.changed:
	case <-timer.C:
	}
	return nil
}

// finish half-closes, and waits for the status: nil is OK. Answers that still come are dropped.
func (s *stream) finish(ctx context.Context, most time.Duration) *failure {
	s.mutex.Lock()
	s.isDropped = true
	s.room.Signal()
	s.mutex.Unlock()
	s.halfClose()
	defer s.cancel()
	deadline := time.Now().Add(most)
	for {
		s.mutex.Lock()
		isOver, failed := s.isOver, s.failed
		s.mutex.Unlock()
		left := time.Until(deadline)
		if isOver {
			return failed
		}
		if left <= 0 || ctx.Err() != nil {
			return &failure{Details: Details{Server: s.server}, action: actionRetry, text: "no status within " + most.String()}
		}
		_ = s.wait(ctx, left)
	}
}

func (s *stream) halfClose() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.isHalfClosed {
		s.isHalfClosed = true
		close(s.requests)
	}
}

// drop cancels. First: an end of the requests would half-close, perhaps within a file.
func (s *stream) drop() {
	s.cancel()
	s.mutex.Lock()
	s.isDropped = true
	s.room.Signal()
	s.mutex.Unlock()
	s.halfClose()
}

// streamEnded, however that was.
type streamEnded struct{ failure *failure }

func (e *streamEnded) Error() string { return e.failure.text }
