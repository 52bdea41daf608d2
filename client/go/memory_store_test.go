package kerf

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
)

// A memoryStore keeps all in memory, and knows what a power cut would take. `before` each callback something may happen, or
// fail. It is used by several clients at once, as a folder would be.
type memoryStore struct {
	mutex     sync.Mutex
	log       *eventLog
	before    func(event string) error
	content   map[string]memoryChunk
	volatile  map[string]memoryChunk
	atRisk    map[string]bool
	epoch     uint64
	plan      []byte
	isLocked  bool
	pending   map[string][]byte
	snapshots map[string][]byte
}

type memoryChunk struct {
	digest string
	data   []byte
}

// plainStore hides what makes a store one that is collected.
type plainStore struct{ Store }

func newMemoryStore(log *eventLog) *memoryStore {
	return &memoryStore{log: log, before: func(string) error { return nil }, content: map[string]memoryChunk{},
		volatile: map[string]memoryChunk{}, atRisk: map[string]bool{}, epoch: 1, pending: map[string][]byte{}, snapshots: map[string][]byte{}}
}

// happens: not with the mutex held, for others may act meanwhile.
func (m *memoryStore) happens(format string, arguments ...any) error {
	event := fmt.Sprintf(format, arguments...)
	m.mutex.Lock()
	before := m.before
	m.mutex.Unlock()
	if err := before(event); err != nil {
		return err
	}
	m.log.add(event)
	return nil
}

func (m *memoryStore) setBefore(before func(string) error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.before = before
}

func (m *memoryStore) Put(digest, data []byte) ([]byte, error) {
	if err := m.happens("put"); err != nil {
		return nil, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	locator := make([]byte, 8)
	_, _ = rand.Read(locator)
	m.volatile[string(locator)] = memoryChunk{string(digest), bytes.Clone(data)}
	return locator, nil
}

// addAs another writer would, who has not made the name durable.
func (m *memoryStore) addAs(digest, data []byte) []byte {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	locator := make([]byte, 8)
	_, _ = rand.Read(locator)
	m.content[string(locator)] = memoryChunk{string(digest), bytes.Clone(data)}
	m.atRisk[string(locator)] = true
	return locator
}

func (m *memoryStore) Has(digest []byte) ([][]byte, error) {
	if err := m.happens("has"); err != nil {
		return nil, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var found [][]byte
	for locator, chunk := range m.content {
		if chunk.digest == string(digest) {
			found = append(found, []byte(locator))
		}
	}
	slices.SortFunc(found, bytes.Compare)
	return found, nil
}

func (m *memoryStore) Sync() error {
	if err := m.happens("sync"); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	maps.Copy(m.content, m.volatile)
	clear(m.volatile)
	clear(m.atRisk)
	return nil
}

func (m *memoryStore) isDurable(locator []byte) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	_, is := m.content[string(locator)]
	return is && !m.atRisk[string(locator)]
}

func (m *memoryStore) Epoch() (uint64, error) {
	if err := m.happens("epoch"); err != nil {
		return 0, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.epoch, nil
}

func (m *memoryStore) RaiseEpoch(epoch uint64) error {
	if err := m.happens("raise %d", epoch); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if epoch <= m.epoch {
		return fmt.Errorf("from %d to %d", m.epoch, epoch)
	}
	m.epoch = epoch
	return nil
}

func (m *memoryStore) Plan() ([]byte, error) {
	if err := m.happens("plan"); err != nil {
		return nil, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.plan, nil
}

func (m *memoryStore) WritePlan(plan []byte) error {
	if err := m.happens("write_plan"); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.plan = bytes.Clone(plan)
	return nil
}

func (m *memoryStore) RemovePlan() error {
	if err := m.happens("remove_plan"); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.plan = nil
	return nil
}

func (m *memoryStore) Lock() (func() error, error) {
	if err := m.happens("lock"); err != nil {
		return nil, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.isLocked {
		return nil, NewRetryable("another collection runs")
	}
	m.isLocked = true
	return func() error {
		m.mutex.Lock()
		m.isLocked = false
		m.mutex.Unlock()
		return m.happens("unlock")
	}, nil
}

func (m *memoryStore) Chunks() iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		if err := m.happens("chunks"); err != nil {
			yield(Stored{}, err)
			return
		}
		m.mutex.Lock()
		content := maps.Clone(m.content)
		m.mutex.Unlock()
		for locator, chunk := range content {
			if !yield(Stored{[]byte(chunk.digest), len(chunk.data), []byte(locator)}, nil) {
				return
			}
		}
	}
}

func (m *memoryStore) Delete(place Stored) error {
	if err := m.happens("delete"); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.content, string(place.Locator))
	return nil
}

func (m *memoryStore) Publish(name string, body []byte) error {
	if err := m.happens("publish"); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.pending[name] = bytes.Clone(body)
	return nil
}

func (m *memoryStore) Withdraw(name string) error {
	if err := m.happens("withdraw"); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	delete(m.pending, name)
	return nil
}

func (m *memoryStore) Confirm(name string) error {
	if err := m.happens("confirm"); err != nil {
		return err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	body, is := m.pending[name]
	if !is {
		return errors.New("it is not pending")
	}
	m.snapshots[name] = body
	delete(m.pending, name)
	return nil
}

func (m *memoryStore) roots() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := m.happens("roots"); err != nil {
			yield(nil, err)
			return
		}
		m.mutex.Lock()
		bodies := slices.Concat(slices.Collect(maps.Values(m.pending)), slices.Collect(maps.Values(m.snapshots)))
		m.mutex.Unlock()
		for _, body := range bodies {
			recipes, err := DecodeRecipes(body)
			if err != nil {
				yield(nil, err)
				return
			}
			for digest := range lengthsOf(recipes) {
				if !yield([]byte(digest), nil) {
					return
				}
			}
		}
	}
}

// restore: what is durable alone.
func (m *memoryStore) restore(recipe *Recipe) ([]byte, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	byDigest := map[string][]byte{}
	for locator, chunk := range m.content {
		if !m.atRisk[locator] {
			byDigest[chunk.digest] = chunk.data
		}
	}
	var whole []byte
	for _, chunk := range recipe.Chunks {
		data, is := byDigest[string(chunk.Digest)]
		if !is || len(data) != chunk.Length {
			return nil, fmt.Errorf("chunk %x is not there", chunk.Digest[:4])
		}
		whole = append(whole, data...)
	}
	if int64(len(whole)) != recipe.Size {
		return nil, fmt.Errorf("%d bytes, not %d", len(whole), recipe.Size)
	}
	return whole, nil
}
