package kerf

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
)

// A Store is what a client keeps chunks in: callbacks, of which one runs at a time. What they return as an error ends what
// was asked for, and comes to the caller, wrapped. This much is enough where nothing is ever deleted.
type Store interface {
	// Put stores a chunk in a new place, also where the store has it already, and says where: a locator of 1 to 64 bytes.
	// It need not be durable before Sync. `digest` and `data` are the caller's: to be copied if they are kept.
	Put(digest, data []byte) (locator []byte, err error)
	// Has says where the store has a chunk now, by any writer: it looks, each time. What was put and not yet synced may be
	// left out.
	Has(digest []byte) (locators [][]byte, err error)
	// Sync returns once all that was put, and all that Has has named, is durable: bytes, names, directories. After an
	// error what was put since the last Sync counts for nothing, by whatever client: Has must not name it behind a later Sync
	// that goes well, and this client is of no more use (CLI-20).
	Sync() error
}

// A SizedStore may be any store: what it holds in another length than the chunk's has rotted, and does not count (CLI-36).
type SizedStore interface {
	// HasOfLength is Has, of places with that many bytes.
	HasOfLength(digest []byte, length int) (locators [][]byte, err error)
}

// A CollectedStore is one of which Client.Collect deletes what no snapshot needs, and nobody else deletes anything.
type CollectedStore interface {
	Store
	// Epoch is 1 at first, else what was raised last; read anew.
	Epoch() (uint64, error)
	// RaiseEpoch is durable when it returns.
	RaiseEpoch(epoch uint64) error
	// Plan is what was written last, read anew; nil if there is none.
	Plan() ([]byte, error)
	// WritePlan replaces it, durably, as a whole or not at all.
	WritePlan(plan []byte) error
	// RemovePlan is durable when it returns. No error if there is none.
	RemovePlan() error
	// Lock is the collector's: held by one at a time, free once its process dies. An error if another one has it.
	Lock() (unlock func() error, err error)
	// Chunks are all places, read anew.
	Chunks() iter.Seq2[Stored, error]
	// Delete gives no error for what is gone.
	Delete(place Stored) error
	// Publish makes a pending snapshot, durably: a root for collections, invisible to restores.
	Publish(name string, body []byte) error
	// Withdraw removes a pending snapshot.
	Withdraw(name string) error
	// Confirm makes a pending snapshot one in one step, durably. An error if it is not pending any more.
	Confirm(name string) error
}

// Stored is a place in which a store holds a chunk.
type Stored struct {
	Digest  []byte
	Length  int
	Locator []byte
}

const (
	firstEpoch      = 1
	maxLocatorBytes = 64
)

// asCollected: nil if the store is never collected. One that has some of the methods is neither: it would be taken for one
// whose epoch is always 1.
func asCollected(store Store) (CollectedStore, error) {
	if collected, is := store.(CollectedStore); is {
		return collected, nil
	}
	wanted, here := reflect.TypeFor[CollectedStore](), reflect.TypeOf(store)
	for i := range wanted.NumMethod() {
		name := wanted.Method(i).Name
		if _, plain := reflect.TypeFor[Store]().MethodByName(name); plain {
			continue
		}
		if _, has := here.MethodByName(name); has {
			return nil, fmt.Errorf("kerf: %T has a method %s, and is no CollectedStore", store, name)
		}
	}
	return nil, nil
}

// A plan is what a collection says before it deletes. Stores keep it as bytes.
type plan struct {
	// Of the store once the collection is done.
	lastEpoch uint64
	// What the index must have at least to be believed.
	neededEpoch uint64
	hasGoneBack bool
	condemned   map[string]bool
}

const planVersion = 1

type planText struct {
	Version     int      `json:"version"`
	LastEpoch   uint64   `json:"last_epoch"`
	NeededEpoch uint64   `json:"needed_epoch"`
	HasGoneBack bool     `json:"has_gone_back"`
	Condemned   []string `json:"condemned"`
}

// encode: a SHA-256 and JSON (CLI-28).
func (p *plan) encode() []byte {
	text := planText{planVersion, p.lastEpoch, p.neededEpoch, p.hasGoneBack, make([]string, 0, len(p.condemned))}
	for locator := range p.condemned {
		text.Condemned = append(text.Condemned, hex.EncodeToString([]byte(locator)))
	}
	slices.Sort(text.Condemned)
	body, err := json.Marshal(text)
	if err != nil {
		panic(err) // Strings and numbers alone.
	}
	sum := sha256.Sum256(body)
	return append(sum[:], body...)
}

// errDamaged is of a plan that cannot be read: agents stop (COL-5), a collector takes it for the worst (COL-43, COL-44).
type errDamaged struct{ cause error }

func (e errDamaged) Error() string {
	return fmt.Sprintf("it is damaged (%v): run a collection", e.cause)
}

func decodePlan(body []byte) (*plan, error) {
	if !isSealed(body) {
		return nil, errDamaged{fmt.Errorf("its digest is another")}
	}
	var text planText
	if err := json.Unmarshal(body[sha256.Size:], &text); err != nil {
		return nil, fmt.Errorf("it is none of this version: %w", err)
	}
	if text.Version != planVersion {
		return nil, fmt.Errorf("it is of version %d: a newer kerf wrote it", text.Version)
	}
	found := &plan{text.LastEpoch, text.NeededEpoch, text.HasGoneBack, make(map[string]bool, len(text.Condemned))}
	for _, name := range text.Condemned {
		locator, err := hex.DecodeString(name)
		if err != nil {
			return nil, fmt.Errorf("it is none of this version: %w", err)
		}
		found.condemned[string(locator)] = true
	}
	return found, nil
}

// A view is epoch and plan, as they were read one after the other.
type view struct {
	epoch     uint64
	plan      []byte
	condemned map[string]bool
}

func (v *view) seen() Seen { return Seen{v.epoch, v.plan != nil} }

func (v *view) isSafe(locator []byte) bool { return !v.condemned[string(locator)] }

func (v *view) equals(other *view) bool {
	return v.epoch == other.epoch && (v.plan == nil) == (other.plan == nil) && bytes.Equal(v.plan, other.plan)
}

// viewOf: COL-2, COL-27: the epoch first, then the plan. COL-7: 1 where nobody collects.
func viewOf(store CollectedStore) (*view, error) {
	if store == nil {
		return &view{epoch: firstEpoch}, nil
	}
	epoch, err := store.Epoch()
	if err != nil {
		return nil, NewStoreError("kerf: the store's epoch cannot be read", err)
	}
	if epoch < firstEpoch {
		return nil, NewStoreError(fmt.Sprintf("kerf: the store's epoch is %d; the first one is %d", epoch, firstEpoch), nil)
	}
	body, err := store.Plan()
	if err != nil {
		return nil, NewStoreError("kerf: the store's plan cannot be read", err)
	}
	if body == nil {
		return &view{epoch: epoch}, nil
	}
	read, err := decodePlan(body)
	if err != nil {
		return nil, NewStoreError("kerf: the plan of a collection cannot be read", err)
	}
	return &view{epoch: epoch, plan: bytes.Clone(body), condemned: read.condemned}, nil
}
