package kerf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"time"
)

const (
	// No store has counted so far: COL-43.
	largestEpoch = 1 << 41
	// COL-54, COL-61.
	tellings = 4
)

// Roots reads anew all that is published, pending snapshots before others, makes that durable, and gives the digests that
// they reference; what it cannot read is an error (COL-45 to COL-47). It is called twice.
type Roots func() iter.Seq2[[]byte, error]

// Collected is what a collection did.
type Collected struct {
	DeletedChunks int
	DeletedBytes  int64
	KeptChunks    int
	// IsIndexBelieved; else it is made whole by the next one, and until then what it says is looked up in the store.
	IsIndexBelieved bool
	Epoch           uint64
}

// errWentBack: the index has another epoch than it was told.
var errWentBack = errors.New("the index has gone back")

// A collector follows docs/spec/collection.md step by step. What goes or stays is a place (a locator): a store that keeps
// several chunks in one file deletes the places that it is told, and frees their room as it likes. Nothing is moved, so
// COL-53 has no part here.
type collector struct {
	store       CollectedStore
	keeper      *keeper
	index       *index
	digestBytes int
	retryFor    time.Duration
	plan        plan
	// As the store has it, and as the index was told last.
	epoch, told uint64
	fence       uint64
}

// Collect deletes the chunks that nobody references, beside any number of clients that upload.
func (c *Client) Collect(ctx context.Context, roots Roots) (result *Collected, err error) {
	if c.keeper.collected == nil {
		return nil, errors.New("kerf: collections need a CollectedStore")
	}
	if c.isClosed() {
		return nil, errClosed
	}
	unlock, err := c.keeper.collected.Lock() // COL-40: until behind COL-57.
	if err != nil {
		return nil, fmt.Errorf("kerf: the store's lock: %w", err)
	}
	defer func() {
		if failed := unlock(); err == nil && failed != nil {
			result, err = nil, fmt.Errorf("kerf: the store's lock: %w", failed)
		}
	}()
	run := &collector{store: c.keeper.collected, keeper: c.keeper, index: c.index,
		digestBytes: c.settings.digest.Size(), retryFor: c.settings.retryFor}
	result, err = run.run(ctx, roots)
	if errors.Is(err, errWentBack) {
		err = NewRetryable("kerf: the index has gone back while a collection ran; run it again")
	}
	return result, err
}

func (c *collector) run(ctx context.Context, roots Roots) (*Collected, error) {
	hasPlan, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	live, err := c.read(ctx, roots)
	if err != nil {
		return nil, err
	}
	places, err := c.places()
	if err != nil {
		return nil, err
	}
	doomed := unreferenced(places, live)
	if len(doomed) == 0 && !hasPlan && !c.plan.hasGoneBack { // CLI-26.
		return &Collected{0, 0, len(places), true, c.epoch}, nil
	}
	if err := c.publish(doomed); err != nil {
		return nil, err
	}
	if err := c.fenceIndex(ctx); err != nil {
		return nil, err
	}
	if live, err = c.read(ctx, roots); err != nil { // COL-51: who was published before he could see the plan.
		return nil, err
	}
	doomed = unreferenced(doomed, live)
	digests := digestsOfPlaces(doomed)
	if _, err := c.forget(ctx, digests); err != nil { // COL-52: if a call fails, nothing is deleted.
		return nil, err
	}
	var isBelieved bool
	if c.plan.hasGoneBack {
		isBelieved, err = c.makeWhole(ctx, places, doomed)
	} else {
		isBelieved, err = c.advance(ctx, digests, places, doomed)
	}
	if err != nil {
		return nil, err
	}
	result := &Collected{DeletedChunks: len(doomed), KeptChunks: len(places) - len(doomed), IsIndexBelieved: isBelieved, Epoch: c.epoch}
	for _, place := range doomed {
		result.DeletedBytes += int64(place.Length)
	}
	if err := c.delete(ctx, doomed); err != nil {
		return nil, err
	}
	return result, nil
}

func unreferenced(places []Stored, live map[string]bool) []Stored {
	var found []Stored
	for _, place := range places {
		if !live[string(place.Digest)] {
			found = append(found, place)
		}
	}
	return found
}

func digestsOfPlaces(places []Stored) [][]byte {
	var digests [][]byte
	for _, place := range places {
		digests = append(digests, place.Digest)
	}
	sort.Slice(digests, func(i, j int) bool { return bytes.Compare(digests[i], digests[j]) < 0 })
	return slices.CompactFunc(digests, bytes.Equal)
}

// Epochs, roots, plan.

// locked: one callback of the store at a time.
func (c *collector) locked(act func() error) error {
	c.keeper.mutex.Lock()
	defer c.keeper.mutex.Unlock()
	return act()
}

// begin: COL-43, COL-44, COL-80: the epoch from which this one counts, and whether the index is that of the store. Whether
// there is a plan of one that died.
func (c *collector) begin(ctx context.Context) (hasPlan bool, err error) {
	var epoch uint64
	var body []byte
	err = c.locked(func() (err error) {
		if epoch, err = c.store.Epoch(); err == nil {
			body, err = c.store.Plan()
		}
		return err
	})
	if err != nil {
		return false, NewStoreError("kerf: the store's epoch or plan cannot be read", err)
	}
	there, err := c.index.epoch(ctx, c.retryFor)
	if err != nil {
		return false, err
	}
	if there > largestEpoch {
		return false, newRefused(fmt.Sprintf("kerf: the index is at epoch %d, which no store has counted to: an operator has to set it", there))
	}
	// Without a plan the last collection came to its end, and left the index at the store's epoch; 1 nobody was told
	// (CLI-24).
	last, needed, hasGoneBack, isDamaged := epoch, epoch, false, false
	if epoch <= firstEpoch {
		needed = 0
	}
	if body != nil {
		read, err := decodePlan(body)
		var damaged errDamaged
		switch {
		case err == nil:
			last, needed, hasGoneBack = read.lastEpoch, read.neededEpoch, read.hasGoneBack
		case errors.As(err, &damaged):
			last, isDamaged = epoch+2, true
		default: // COL-45: of a newer version.
			return false, NewStoreError("kerf: the plan of a collection cannot be read", err)
		}
	}
	c.told = there
	if body != nil && !isDamaged && there < epoch && needed <= there {
		if err := c.tellWhatDied(ctx, epoch, hasGoneBack); err != nil {
			return false, err
		}
	}
	c.epoch = max(epoch, last, there)
	c.plan = plan{neededEpoch: needed, hasGoneBack: hasGoneBack || isDamaged || there < needed || there > epoch}
	return body != nil, nil
}

// tellWhatDied: COL-80.
func (c *collector) tellWhatDied(ctx context.Context, epoch uint64, hasGoneBack bool) error {
	if hasGoneBack {
		epoch--
	}
	if epoch <= c.told {
		return nil
	}
	return c.tell(ctx, epoch, c.told)
}

func (c *collector) read(ctx context.Context, roots Roots) (map[string]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	live := map[string]bool{}
	err := c.locked(func() error {
		for digest, err := range roots() {
			if err != nil {
				return fmt.Errorf("kerf: the roots cannot be read: %w", err)
			}
			// In hexadecimal, say: it would be a root of nothing, and all that it means garbage.
			if err := c.checkDigest("a root", digest); err != nil {
				return err
			}
			live[string(digest)] = true
		}
		return nil
	})
	return live, err
}

func (c *collector) checkDigest(of string, digest []byte) error {
	if len(digest) != c.digestBytes {
		return NewStoreError(fmt.Sprintf("kerf: the digest of %s has %d bytes; this repository's have %d", of, len(digest), c.digestBytes), nil)
	}
	return nil
}

func (c *collector) places() ([]Stored, error) {
	var places []Stored
	err := c.locked(func() error {
		for place, err := range c.store.Chunks() {
			if err != nil {
				return fmt.Errorf("kerf: the store's chunks cannot be listed: %w", err)
			}
			if err := errors.Join(c.checkDigest("a chunk", place.Digest), checkLocator(place.Locator)); err != nil {
				return err
			}
			places = append(places, Stored{bytes.Clone(place.Digest), place.Length, bytes.Clone(place.Locator)})
		}
		return nil
	})
	return places, err
}

func (c *collector) writePlan() error {
	if err := c.locked(func() error { return c.store.WritePlan(c.plan.encode()) }); err != nil {
		return fmt.Errorf("kerf: the plan cannot be written: %w", err)
	}
	return nil
}

// publish: COL-48.
func (c *collector) publish(doomed []Stored) error {
	c.plan.lastEpoch = c.epoch + 2
	c.plan.condemned = make(map[string]bool, len(doomed))
	for _, place := range doomed {
		c.plan.condemned[string(place.Locator)] = true
	}
	return c.writePlan()
}

// writeGoneBack: COL-50, COL-60 (a).
func (c *collector) writeGoneBack() error {
	c.plan.hasGoneBack, c.plan.lastEpoch = true, c.epoch+2
	return c.writePlan()
}

// raise: COL-1: durable before anybody is told.
func (c *collector) raise() error {
	c.epoch++
	if err := c.locked(func() error { return c.store.RaiseEpoch(c.epoch) }); err != nil {
		return fmt.Errorf("kerf: the store's epoch cannot be raised: %w", err)
	}
	return nil
}

func (c *collector) tell(ctx context.Context, epoch, minPrevious uint64) error {
	previous, err := c.index.advance(ctx, epoch, minPrevious, c.retryFor)
	if err != nil {
		return err
	}
	if previous < minPrevious {
		return errWentBack
	}
	c.told = epoch
	return nil
}

// fenceIndex: COL-49: the store first, else no agent could commit if this one dies between.
func (c *collector) fenceIndex(ctx context.Context) error {
	if err := c.raise(); err != nil {
		return err
	}
	if !c.plan.hasGoneBack {
		err := c.tell(ctx, c.epoch, c.told)
		if !errors.Is(err, errWentBack) {
			c.fence = c.epoch
			return err
		}
		if err := c.writeGoneBack(); err != nil {
			return err
		}
		c.told = 0
	}
	c.fence = c.epoch
	if err := c.raise(); err != nil { // COL-60 (b).
		return err
	}
	return c.tell(ctx, c.fence, c.told)
}

// Forgetting, and whether the index is to be believed.

// forget: whether nothing was there, nothing was removed, and the epoch is what the index was told.
func (c *collector) forget(ctx context.Context, digests [][]byte) (isClean bool, err error) {
	isClean = true
	for batch := range slices.Chunk(digests, entriesOfCall) {
		answer, err := c.index.forget(ctx, batch, c.retryFor)
		if err != nil {
			return false, err
		}
		isClean = isClean && answer.GetForgottenCount() == 0 && answer.GetRemovedCount() == 0 && answer.GetEpoch() >= c.told
	}
	return isClean, nil
}

// advance: COL-54.
func (c *collector) advance(ctx context.Context, digests [][]byte, places, doomed []Stored) (bool, error) {
	for range tellings {
		if err := c.raise(); err != nil {
			return false, err
		}
		err := c.tell(ctx, c.epoch, c.told)
		if errors.Is(err, errWentBack) {
			break
		}
		if err != nil {
			return false, err
		}
		isClean, err := c.forget(ctx, digests)
		if err != nil || isClean {
			return isClean, err
		}
	}
	if err := c.writeGoneBack(); err != nil {
		return false, err
	}
	return c.makeWhole(ctx, places, doomed)
}

// makeWhole: COL-60 (c) to (g), COL-61. What agents have stored meanwhile they have committed themselves.
func (c *collector) makeWhole(ctx context.Context, places, doomed []Stored) (bool, error) {
	// What was removed is counted from the epoch that the index is told next: that has to be a new one, and the store has
	// to be ahead of it (CLI-25).
	for c.epoch-1 <= c.told {
		if err := c.raise(); err != nil {
			return false, err
		}
	}
	c.plan.lastEpoch = c.epoch + tellings
	if err := c.writePlan(); err != nil {
		return false, err
	}
	stay := toTell(places, doomed)
	if err := c.index.commit(ctx, c.epoch, stay, c.retryFor); err != nil {
		// Of a full repository the rest is not believed, and is stored or found again by who needs it.
		var refused *Refused
		if !errors.As(err, &refused) || refused.Reason != reasonFull {
			return false, err
		}
	}
	if _, err := c.forgetOlder(ctx); err != nil {
		return false, err
	}
	for range tellings {
		isWhole, err := c.tellWhole(ctx)
		if isWhole || err != nil && !errors.Is(err, errWentBack) {
			return isWhole, err
		}
		if err := c.raise(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// toTell: COL-60 (c): all that stays. Not what no chunk can be as long as, nor a chunk whose places differ in that: one of them
// has rotted, and told with a false length it would be NEW to everybody (CLI-41).
func toTell(places, doomed []Stored) []Stored {
	gone := make(map[string]bool, len(doomed))
	for _, place := range doomed {
		gone[string(place.Locator)] = true
	}
	stay := slices.DeleteFunc(slices.Clone(places), func(place Stored) bool { return gone[string(place.Locator)] })
	lengths := make(map[string]int, len(stay))
	for _, place := range stay {
		if length, is := lengths[string(place.Digest)]; is && length != place.Length {
			lengths[string(place.Digest)] = 0
		} else {
			lengths[string(place.Digest)] = place.Length
		}
	}
	return slices.DeleteFunc(stay, func(place Stored) bool {
		length := lengths[string(place.Digest)]
		return length < 1 || length > largestChunkBytes
	})
}

// tellWhole: COL-60 (e) to (g).
func (c *collector) tellWhole(ctx context.Context) (bool, error) {
	if err := c.tell(ctx, c.epoch-1, c.fence); err != nil {
		return false, err
	}
	isClean, err := c.forgetOlder(ctx)
	if err != nil || !isClean {
		return false, err
	}
	if err := c.tell(ctx, c.epoch, c.epoch-1); err != nil {
		return false, err
	}
	return true, nil
}

// forgetOlder: whether there was nothing left to forget, and the epoch is the one that was told.
func (c *collector) forgetOlder(ctx context.Context) (isClean bool, err error) {
	isClean = true
	for after := []byte(nil); ; {
		answer, err := c.index.forgetOlder(ctx, c.fence, after, c.retryFor)
		if err != nil {
			return false, err
		}
		isClean = isClean && answer.GetForgottenCount() == 0 && answer.GetRemovedCount() == 0 && answer.GetEpoch() == c.told
		if len(answer.GetLast()) == 0 {
			return isClean, nil
		}
		if bytes.Compare(answer.GetLast(), after) <= 0 {
			return false, newRefused("kerf: the index goes over its entries again and again: ForgetOlderChunks has not come further")
		}
		after = answer.GetLast()
	}
}

// delete: COL-55 to COL-57.
func (c *collector) delete(ctx context.Context, doomed []Stored) error {
	c.plan.neededEpoch = c.epoch
	if err := c.writePlan(); err != nil {
		return err
	}
	for _, place := range doomed {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.locked(func() error { return c.store.Delete(place) }); err != nil {
			return fmt.Errorf("kerf: a chunk cannot be deleted: %w", err)
		}
	}
	if err := c.locked(c.store.RemovePlan); err != nil {
		return fmt.Errorf("kerf: the plan cannot be removed: %w", err)
	}
	return nil
}
