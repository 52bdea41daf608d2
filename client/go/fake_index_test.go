package kerf

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"kerf/client/go/kerfv1"
)

// fakeIndex is an index by the rules of docs/spec/collection.md, COL-70 to COL-79.
type fakeIndex struct {
	entries map[string]fakeEntry
	epoch   uint64
	// Since the epoch was raised.
	removed uint64
}

type fakeEntry struct {
	length  int
	locator string
	epoch   uint64
}

var errBehind = errors.New("behind")

func newFakeIndex() *fakeIndex { return &fakeIndex{entries: map[string]fakeEntry{}} }

func (f *fakeIndex) copy() *fakeIndex { return &fakeIndex{maps.Clone(f.entries), f.epoch, f.removed} }

func (f *fakeIndex) verdict(digest []byte, length int, epoch uint64) (kerfv1.Verdict, []byte) {
	entry, is := f.entries[string(digest)]
	switch {
	case !is || entry.length != length:
		return kerfv1.Verdict_VERDICT_NEW, nil
	case max(entry.epoch, f.epoch) >= epoch:
		return kerfv1.Verdict_VERDICT_DUPLICATE, []byte(entry.locator)
	}
	return kerfv1.Verdict_VERDICT_UNVERIFIED, []byte(entry.locator)
}

func (f *fakeIndex) commit(epoch uint64, digest []byte, length int, locator []byte, replaces bool) error {
	if epoch < f.epoch {
		return errBehind
	}
	entry, is := f.entries[string(digest)]
	if is && !replaces && max(entry.epoch, f.epoch) >= epoch {
		return nil
	}
	f.entries[string(digest)] = fakeEntry{length, string(locator), max(epoch, entry.epoch)}
	return nil
}

func (f *fakeIndex) remove(digests ...[]byte) (gone uint64) {
	for _, digest := range digests {
		if _, is := f.entries[string(digest)]; is {
			delete(f.entries, string(digest))
			gone++
		}
	}
	f.removed += gone
	return gone
}

func (f *fakeIndex) forgetOlder(before uint64, after []byte, limit int) (gone uint64, last []byte) {
	digests := slices.Sorted(maps.Keys(f.entries))
	for _, digest := range digests {
		if bytes.Compare([]byte(digest), after) <= 0 {
			continue
		}
		if limit == 0 {
			return gone, last
		}
		limit--
		last = []byte(digest)
		if f.entries[digest].epoch < before {
			gone += f.remove([]byte(digest))
		}
	}
	return gone, nil
}

func (f *fakeIndex) advance(epoch, minPrevious uint64) (uint64, error) {
	previous := f.epoch
	if previous < minPrevious {
		return previous, nil
	}
	if epoch < previous {
		return 0, errBehind
	}
	if epoch > previous {
		f.epoch, f.removed = epoch, 0
	}
	return previous, nil
}
