package kerf

import (
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Details of what a server answered. All of it may be empty: not every error is a server's.
type Details struct {
	// Reason is one of docs/spec/protocol.md, Errors; empty: the error is gRPC's own.
	Reason string
	Code   codes.Code
	Server string
	Worker string
	// RequestID is what the servers' logs name.
	RequestID string
	// Delay is what the server asked for before the next try, 0 if it asked for none.
	Delay time.Duration
}

// Retryable may go well later, or elsewhere. The client has tried for Options.RetryFor already.
type Retryable struct {
	Details
	message string
	cause   error
}

// Refused will not go well by itself: a bug, a setting, a right that is missing, or something that an operator must mend.
type Refused struct {
	Details
	message string
	cause   error
}

// EpochBehind says that a collection has raised the store's epoch: upload the file again, from its start. With IsSetBack
// that helps nothing: the store's epoch is what it was, and a collection has to run first (COL-24).
type EpochBehind struct {
	Details
	IsSetBack bool
	message   string
}

// Disagreement is a Refused: a server was wrong about the bytes that it was sent, twice (COL-10, CLI-8).
type Disagreement struct{ refused *Refused }

// StoreError is a Refused: what the store says cannot be, so that nothing may go on (COL-5, CLI-20).
type StoreError struct {
	refused *Refused
	cause   error
}

// ChunksLost is a Retryable: a collection took chunks of a snapshot, which was withdrawn. Upload its files again.
type ChunksLost struct {
	Digests   [][]byte
	retryable *Retryable
}

func (e *Retryable) Error() string    { return e.message }
func (e *Retryable) Unwrap() error    { return e.cause }
func (e *Refused) Error() string      { return e.message }
func (e *Refused) Unwrap() error      { return e.cause }
func (e *EpochBehind) Error() string  { return e.message }
func (e *Disagreement) Error() string { return e.refused.message }
func (e *Disagreement) Unwrap() error { return e.refused }
func (e *StoreError) Error() string   { return e.refused.message }
func (e *ChunksLost) Error() string   { return e.retryable.message }
func (e *ChunksLost) Unwrap() error   { return e.retryable }

// Unwrap: of the class, and of what the store's callback has returned.
func (e *StoreError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.refused}
	}
	return []error{e.refused, e.cause}
}

// NewStoreError is for stores: what they hold is damaged, or none of theirs. `cause` may be nil.
func NewStoreError(message string, cause error) *StoreError {
	if cause != nil {
		message += ": " + cause.Error()
	}
	return &StoreError{refused: &Refused{message: message}, cause: cause}
}

// NewRetryable is for stores: somebody else has what is needed now.
func NewRetryable(message string) *Retryable { return &Retryable{message: message} }

func newRefused(message string) *Refused { return &Refused{message: message} }

// What a client does about a call that failed.
type action int

const (
	actionFinal action = iota
	actionRetry
	actionOnce
	actionBehind
)

// docs/spec/protocol.md, PRO-61 and the table of reasons. What does not stand here is final (PRO-62).
var actions = map[string]action{
	"EPOCH_BEHIND": actionBehind, reasonMismatch: actionOnce, "INTERNAL": actionOnce,
	"TOO_MANY_UNCOMMITTED_CHUNKS": actionRetry, "TOO_MANY_UNCOMMITTED_FILES": actionRetry, "TOO_MANY_STREAMS": actionRetry,
	"NO_WORKER": actionRetry, "WORKER_UNREACHABLE": actionRetry, "TOO_MANY_CALLS": actionRetry,
	"MEMORY_EXHAUSTED": actionRetry, "DRAINING": actionRetry, "OPEN_TIMEOUT": actionRetry, "IDLE_TIMEOUT": actionRetry,
	"IDLE_EVICTED": actionRetry, "READ_STALLED": actionRetry, "INDEX_UNAVAILABLE": actionRetry, "INDEX_FULL": actionRetry,
	"AUDIT_UNAVAILABLE": actionRetry,
}

// A status without details is gRPC's own, or a proxy's: by its code alone, for each implementation has words of its own
// (PRO-60, CLI-16).
var codeActions = map[codes.Code]action{
	codes.Unavailable: actionRetry, codes.Canceled: actionRetry, codes.Internal: actionRetry, codes.Unknown: actionRetry,
	codes.DeadlineExceeded: actionRetry, codes.Aborted: actionRetry,
}

const (
	errorDomain    = "kerf"
	reasonFull     = "QUOTA_EXCEEDED"
	reasonMismatch = "CONTENT_MISMATCH"
)

// A failure is a call or a stream that failed, and what follows.
type failure struct {
	Details
	action action
	text   string
	// The server owed an answer, and said nothing for too long.
	isSilence bool
	// A server's answers were not of the bytes that were sent.
	isWrong bool
	hasWait bool
}

// failureOf: of a call that gRPC says has failed.
func failureOf(err error, server string) *failure {
	is, _ := status.FromError(err)
	found := &failure{Details: Details{Code: is.Code(), Server: server}, text: is.Message()}
	var info *errdetails.ErrorInfo
	for _, detail := range is.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == errorDomain {
				info = detail
			}
		case *errdetails.RetryInfo:
			found.Delay, found.hasWait = detail.GetRetryDelay().AsDuration(), true
		}
	}
	if info == nil {
		found.action = codeActions[is.Code()]
		return found
	}
	found.Reason = info.GetReason()
	found.Worker = info.GetMetadata()["worker"]
	found.RequestID = info.GetMetadata()["request_id"]
	found.action = actions[found.Reason]
	if found.Reason == reasonFull && found.hasWait {
		found.action = actionRetry
	}
	return found
}

// err is what the caller is told of it, once nothing more is tried.
func (f *failure) err(note string) error {
	text := f.text
	if f.Server != "" {
		text = f.Server + ": " + text
	}
	if f.Reason != "" {
		text = fmt.Sprintf("%s (%s, request %s)", text, f.Reason, f.RequestID)
	} else if f.Code != codes.OK {
		text = fmt.Sprintf("%s (%s)", text, f.Code)
	}
	if note != "" {
		text += "; " + note
	}
	text = "kerf: " + text
	switch {
	case f.action == actionBehind:
		return &EpochBehind{Details: f.Details, message: text}
	case f.isWrong && f.action == actionFinal:
		return &Disagreement{&Refused{Details: f.Details, message: text}}
	case f.action == actionFinal:
		return &Refused{Details: f.Details, message: text}
	}
	return &Retryable{Details: f.Details, message: text}
}
