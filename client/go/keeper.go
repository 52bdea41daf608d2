package kerf

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"sync"

	"kerf/client/go/kerfv1"
)

// A placement is where the store has a chunk, once it has been synced.
type placement struct {
	locator []byte
	// Its bytes were put; else they were there.
	isNew bool
	// The index is to be told.
	isToCommit bool
	// The index was wrong about it.
	isStale bool
}

// errWrong is an answer that is not of the bytes that were sent.
type errWrong string

func (e errWrong) Error() string { return string(e) }

// compare: COL-10, whatever the verdict.
func compare(chunk *kerfv1.Chunk, data []byte, digest Digest) error {
	if chunk.GetCheck() != checkOf(data) {
		return errWrong("the check of a chunk is not that of the bytes that were sent")
	}
	if !bytes.Equal(chunk.GetDigest(), digest.Of(data)) {
		return errWrong("the digest of a chunk is not that of the bytes that were sent")
	}
	return nil
}

type unsyncedKey struct {
	epoch  uint64
	digest string
}

// A keeper calls the store, of which it lets one callback run at a time, whichever lane asks.
type keeper struct {
	store     Store
	collected CollectedStore
	mutex     sync.Mutex
	// What was put since the last sync, by the epoch that was read before: Has need not name it yet.
	unsynced map[unsyncedKey][]byte
	isDirty  bool
	syncErr  error
}

func newKeeper(store Store) (*keeper, error) {
	collected, err := asCollected(store)
	if err != nil {
		return nil, err
	}
	return &keeper{store: store, collected: collected, unsynced: map[unsyncedKey][]byte{}}, nil
}

func (k *keeper) view() (*view, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return viewOf(k.collected)
}

// place: what the store has is believed, and of no verdict more than that the index has an entry (COL-11 to COL-16); a
// verdict that is not known is NEW (PRO-14).
func (k *keeper) place(view *view, digest, data []byte, verdict kerfv1.Verdict) (placement, error) {
	isDuplicate := verdict == kerfv1.Verdict_VERDICT_DUPLICATE
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.isDirty = true
	here, isAnywhere, err := k.findLocked(view, digest, len(data))
	if err != nil {
		return placement{}, err
	}
	if here != nil {
		return placement{locator: here, isToCommit: !isDuplicate}, nil
	}
	locator, err := k.putLocked(view, digest, data)
	isStale := isDuplicate && !isAnywhere
	return placement{locator, true, isStale || !isDuplicate, isStale}, err
}

// find: a place that stays, by that plan, durable behind the next sync (COL-20); nil if there is none.
func (k *keeper) find(view *view, digest []byte, length int) ([]byte, error) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.isDirty = true
	here, _, err := k.findLocked(view, digest, length)
	return here, err
}

// lost: those of which the store has no place that stays (COL-29). The rest is durable behind this (COL-20).
func (k *keeper) lost(view *view, wanted map[string]int) ([][]byte, error) {
	var gone [][]byte
	for digest, length := range wanted {
		here, err := k.find(view, []byte(digest), length)
		if err != nil {
			return nil, err
		}
		if here == nil {
			gone = append(gone, []byte(digest))
		}
	}
	sort.Slice(gone, func(i, j int) bool { return bytes.Compare(gone[i], gone[j]) < 0 })
	return gone, k.sync()
}

// sync: behind this all that was placed, or found, is durable (COL-19, COL-20).
func (k *keeper) sync() error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if err := k.checkLocked(); err != nil {
		return err
	}
	if !k.isDirty {
		return nil
	}
	if err := k.store.Sync(); err != nil {
		k.syncErr = err
		return fmt.Errorf("kerf: the store cannot sync: %w", err)
	}
	clear(k.unsynced)
	k.isDirty = false
	return nil
}

// checkLocked: where one sync has failed, a later one that goes well says nothing of what was put before: a file system may
// have dropped that. So nothing of it is ever committed, by no lane (CLI-20).
func (k *keeper) checkLocked() error {
	if k.syncErr != nil {
		return NewStoreError("kerf: the store could not sync; this client stores nothing more", k.syncErr)
	}
	return nil
}

// findLocked: a place that stays, and whether there is any at all.
func (k *keeper) findLocked(view *view, digest []byte, length int) ([]byte, bool, error) {
	if err := k.checkLocked(); err != nil {
		return nil, false, err
	}
	if mine := k.unsynced[unsyncedKey{view.epoch, string(digest)}]; mine != nil && view.isSafe(mine) {
		return mine, true, nil
	}
	places, err := k.has(digest, length)
	if err != nil {
		return nil, false, fmt.Errorf("kerf: the store cannot say what it has: %w", err)
	}
	for _, place := range places {
		if err := checkLocator(place); err != nil {
			return nil, false, err
		}
		if view.isSafe(place) {
			return place, true, nil
		}
	}
	return nil, len(places) > 0, nil
}

func (k *keeper) has(digest []byte, length int) ([][]byte, error) {
	if sized, is := k.store.(SizedStore); is {
		return sized.HasOfLength(digest, length)
	}
	return k.store.Has(digest)
}

func (k *keeper) putLocked(view *view, digest, data []byte) ([]byte, error) {
	locator, err := k.store.Put(digest, data)
	if err != nil {
		return nil, fmt.Errorf("kerf: the store cannot put: %w", err)
	}
	if err := checkLocator(locator); err != nil {
		return nil, err
	}
	if !view.isSafe(locator) {
		return nil, errors.New("kerf: Put has returned a place that a collection has condemned; it must be a new one")
	}
	locator = bytes.Clone(locator)
	k.unsynced[unsyncedKey{view.epoch, string(digest)}] = locator
	return locator, nil
}

func checkLocator(locator []byte) error {
	if len(locator) < 1 || len(locator) > maxLocatorBytes {
		return fmt.Errorf("kerf: the store has returned a locator of %d bytes; it may have 1 to %d", len(locator), maxLocatorBytes)
	}
	return nil
}
