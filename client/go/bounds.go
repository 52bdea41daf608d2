package kerf

import (
	"fmt"
	"strconv"
	"strings"

	"kerf/client/go/kerfv1"
)

const (
	// Of one message: what a front keeps for each upload is 512 KiB.
	blockBytes = maxFrameBytes
	// So that it need not commit, and sync, for every few chunks.
	leastUncommittedChunks = 4_096
	leastCommitEntries     = 16
	leastChunkBytes        = 64
	// Of all profiles (docs/spec/chunking.md): a window is three of them, and memory.
	largestChunkBytes = 4 << 20
)

// bounds are what one stream may have under way, by its limits and its profile (PRO-11, CLI-5, CLI-6).
type bounds struct {
	limits      *kerfv1.Limits
	leastChunk  int64
	commitCount int
	block       int
	leastWindow int64
	window      int64
}

func newBounds(opened *kerfv1.Opened, windowBytes int64) (*bounds, error) {
	limits := opened.GetLimits()
	if limits.GetMaxUncommittedChunks() < leastUncommittedChunks || limits.GetMaxCommitEntries() < leastCommitEntries {
		return nil, newRefused(fmt.Sprintf("kerf: the server allows %d uncommitted chunks and %d entries of a Commit; this client needs %d and %d",
			limits.GetMaxUncommittedChunks(), limits.GetMaxCommitEntries(), leastUncommittedChunks, leastCommitEntries))
	}
	shortest, longest := chunkBounds(opened.GetProfile())
	if longest > largestChunkBytes {
		return nil, newRefused(fmt.Sprintf("kerf: the server cuts chunks of up to %d bytes; this client takes %d", longest, largestChunkBytes))
	}
	made := &bounds{limits: limits, leastChunk: shortest, commitCount: int(limits.GetMaxUncommittedChunks() / 4)}
	made.block = min(blockBytes, int(limits.GetMaxMessageBytes()/2), made.commitCount*int(shortest))
	if made.block < 1 {
		return nil, newRefused(fmt.Sprintf("kerf: the server takes messages of %d bytes", limits.GetMaxMessageBytes()))
	}
	// A cut may be certain only two longest chunks behind it, and the server says nothing before there are more.
	made.leastWindow = 3*longest + int64(made.block)
	made.window = max(windowBytes, made.leastWindow)
	return made, nil
}

// chunkBounds: the shortest and the longest chunk of a profile in its canonical form, as docs/spec/chunking.md has it.
func chunkBounds(profile string) (shortest, longest int64) {
	shortest, longest = leastChunkBytes, largestChunkBytes
	profile, _, _ = strings.Cut(profile, "+")
	_, pairs, _ := strings.Cut(profile, ":")
	for pair := range strings.SplitSeq(pairs, ",") {
		key, text, _ := strings.Cut(pair, "=")
		value, err := strconv.ParseInt(text, 10, 32)
		if err != nil || value < 1 {
			continue
		}
		switch key {
		case "min":
			shortest = value
		case "max":
			longest = value
		case "size":
			shortest, longest = value, value
		}
	}
	return shortest, longest
}

// hasRoomForChunks: whether what is under way, and one more block, cannot become more chunks than the stream may have.
// With nothing to commit, what a cut needs is sent in any case: else it might never get on (CLI-6).
func (b *bounds) hasRoomForChunks(uncommitted *uncommitted, file *file) bool {
	under := file.unanswered() + int64(b.block)
	coming := under/b.leastChunk + 2
	return int64(uncommitted.count())+coming <= int64(b.limits.GetMaxUncommittedChunks()) ||
		uncommitted.isEmpty() && under <= b.leastWindow
}
