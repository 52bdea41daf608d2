package kerf

import (
	"slices"

	"kerf/client/go/kerfv1"
)

const (
	// Of one frame that is not data (PRO-71).
	maxFrameBytes = 448 << 10
	// Tags and lengths of one entry, and some more.
	entryOverheadBytes = 16
)

// uncommitted: chunks of one stream that the index does not know yet, and the frames that tell it.
type uncommitted struct {
	pending      map[string]Stored
	pendingBytes int64
	// Commit frames that were sent, in their order: Committed comes in the same (CLI-3).
	sent      [][]Stored
	sentCount int
	stale     []*kerfv1.CommitEntry
	// Reported, and not committed yet: they have a limit of their own (CLI-7).
	isStale map[string]bool
}

func newUncommitted() *uncommitted {
	return &uncommitted{pending: map[string]Stored{}, isStale: map[string]bool{}}
}

// count: as the server may count them, or more.
func (u *uncommitted) count() int { return len(u.pending) + u.sentCount }

func (u *uncommitted) isEmpty() bool { return u.count() == 0 }

func (u *uncommitted) add(place Stored) {
	if _, is := u.pending[string(place.Digest)]; !is {
		u.pendingBytes += int64(place.Length)
	}
	u.pending[string(place.Digest)] = place
}

// addStale: with the locator of the answer, and once (COL-16, PRO-25).
func (u *uncommitted) addStale(digest, locator []byte) {
	if !u.isStale[string(digest)] {
		u.isStale[string(digest)] = true
		u.stale = append(u.stale, &kerfv1.CommitEntry{Digest: digest, Locator: locator})
	}
}

// frames are to be sent once all is durable (COL-19). What is stale comes before its Commit (COL-16).
func (u *uncommitted) frames(limits *kerfv1.Limits, digestBytes int) (made []*kerfv1.UploadFrame) {
	room := min(maxFrameBytes, int(limits.GetMaxMessageBytes())/2)
	size := max(1, min(int(limits.GetMaxCommitEntries()), room/(maxLocatorBytes+digestBytes+entryOverheadBytes)))
	var frames []*kerfv1.UploadFrame
	for stale := range slices.Chunk(u.stale, size) {
		frames = append(frames, &kerfv1.UploadFrame{Frame: &kerfv1.UploadFrame_ReportStale{
			ReportStale: &kerfv1.ReportStale{Entries: stale}}})
	}
	u.stale = nil
	for batch := range slices.Chunk(u.sorted(), size) {
		entries := make([]*kerfv1.CommitEntry, 0, len(batch))
		for _, place := range batch {
			entries = append(entries, &kerfv1.CommitEntry{Digest: place.Digest, Locator: place.Locator})
			delete(u.isStale, string(place.Digest))
		}
		u.sent = append(u.sent, batch)
		u.sentCount += len(batch)
		frames = append(frames, &kerfv1.UploadFrame{Frame: &kerfv1.UploadFrame_Commit{Commit: &kerfv1.Commit{Entries: entries}}})
	}
	clear(u.pending)
	u.pendingBytes = 0
	return frames
}

// sorted: in an order that is the same each time.
func (u *uncommitted) sorted() []Stored {
	places := make([]Stored, 0, len(u.pending))
	for _, place := range u.pending {
		places = append(places, place)
	}
	slices.SortFunc(places, func(a, b Stored) int { return slices.Compare(a.Digest, b.Digest) })
	return places
}

// committed: one Commit was answered; whether there was one.
func (u *uncommitted) committed() bool {
	if len(u.sent) == 0 {
		return false
	}
	u.sentCount -= len(u.sent[0])
	u.sent = u.sent[1:]
	return true
}

// leave: what a lost stream leaves. A Commit that was not answered counts as not written (COL-25).
func (u *uncommitted) leave(late map[string]Stored) {
	for _, batch := range u.sent {
		for _, place := range batch {
			late[string(place.Digest)] = place
		}
	}
	for digest, place := range u.pending {
		late[digest] = place
	}
}
