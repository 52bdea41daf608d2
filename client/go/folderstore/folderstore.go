//go:build unix

// Package folderstore is a store in a folder, one file for each chunk: small and whole, and an example of the callbacks. A
// file is synced for each new chunk, which on a disk is slow.
//
//	chunks/abc/DIGEST.NONCE   never changed; deleted by collections
//	chunks/abc/.DIGEST.NONCE  a sync has failed that should have made that name durable: it is read, and counts for no more
//	epoch, plan, config       replaced as a whole; the epoch with its SHA-256
//	pending/NAME              published, and not yet looked at again
//	snapshots/NAME            the same file, by a link
//	tmp/                      of agents that run; to be emptied when none does
//
// client/python has the same (kerf.FolderStore): both may use one folder. All agents see it as it is: a local file system, or
// one that is mounted without caches (COL-42).
package folderstore

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	kerf "kerf/client/go"
)

const (
	nonceBytes  = 8
	syncsAtOnce = 16
	firstEpoch  = 1
	folderMode  = 0o700
	fileMode    = 0o600
	version     = 1
)

var folders = [...]string{"chunks", "pending", "snapshots", "tmp"}

type config struct {
	Version int    `json:"version"`
	Digest  string `json:"digest"`
}

// A Store of one process; others may have the same folder open. A kerf.CollectedStore.
type Store struct {
	path   string
	digest kerf.Digest
	// Put and not yet synced: where it lies, and where it will.
	written map[string]string
	// Folders with names that were found, and may be another writer's.
	foundIn map[string]bool
	// A Sync has failed.
	failed error
}

// Open opens a store, or makes one where there is none.
func Open(path string, digest kerf.Digest) (*Store, error) {
	made := &Store{path: path, digest: digest, written: map[string]string{}, foundIn: map[string]bool{}}
	return made, made.make()
}

func (s *Store) make() error {
	ours := config{version, s.digest.String()}
	body, err := os.ReadFile(s.file("config"))
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range folders {
			if err := makeFolder(s.file(name)); err != nil {
				return err
			}
		}
		if err := s.begin(ours); err != nil {
			return err
		}
		body, err = os.ReadFile(s.file("config"))
	}
	if err != nil {
		return err
	}
	for _, name := range folders {
		// One that is gone is not made anew: without its snapshots all chunks would be garbage.
		if there, err := os.Stat(s.file(name)); err != nil || !there.IsDir() {
			return kerf.NewStoreError(s.path+" has no folder "+name+": it is damaged. If it was empty, and a copy of the store has "+
				"left it out, make it", err)
		}
	}
	var theirs config
	if err := json.Unmarshal(body, &theirs); err != nil || theirs != ours {
		return kerf.NewStoreError(fmt.Sprintf("%s is a store of %s, not of version %d and %s", s.path, body, version, s.digest), err)
	}
	return nil
}

// begin makes a store of empty folders. Others may do so at the same time, and one of them be at work already: so nothing is
// replaced, an epoch least of all (COL-1). The config comes last: where it is, all else is durable.
func (s *Store) begin(ours config) error {
	for _, name := range []string{"chunks", "pending", "snapshots"} {
		there, err := os.ReadDir(s.file(name))
		if err == nil && len(there) > 0 {
			if _, err := os.Lstat(s.file("config")); err == nil {
				return nil // Another one has begun it meanwhile.
			}
		}
		if err != nil || len(there) > 0 {
			return kerf.NewStoreError(s.path+" has chunks or snapshots, and no config: it is damaged, or no store", err)
		}
	}
	if err := s.create("epoch", []byte(epochLine(firstEpoch))); err != nil {
		return err
	}
	if err := syncPath(filepath.Dir(filepath.Clean(s.path))); err != nil {
		return err
	}
	body, err := json.Marshal(ours)
	if err != nil {
		return err
	}
	return s.create("config", body)
}

// Digest of the store's chunks.
func (s *Store) Digest() kerf.Digest { return s.digest }

func (s *Store) file(parts ...string) string {
	return filepath.Join(append([]string{s.path}, parts...)...)
}

func (s *Store) temporary() string { return s.file("tmp", hex.EncodeToString(random(16))) }

func random(size int) []byte {
	made := make([]byte, size)
	_, _ = rand.Read(made) // It cannot fail.
	return made
}

// Chunks.

// Put writes a chunk; Sync gives it its name.
func (s *Store) Put(digest, data []byte) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	locator := append(bytes.Clone(digest), random(nonceBytes)...)
	place, err := s.chunk(locator)
	if err != nil {
		return nil, err
	}
	written := s.temporary()
	if err := write(written, data); err != nil {
		return nil, err
	}
	s.written[written] = place
	return locator, nil
}

// anyLength is that of no chunk.
const anyLength = 0

// Has lists the chunk's folder.
func (s *Store) Has(digest []byte) ([][]byte, error) { return s.HasOfLength(digest, anyLength) }

// HasOfLength passes over a file of another length, which has rotted (CLI-36). So has one that is empty, whatever the length.
func (s *Store) HasOfLength(digest []byte, length int) ([][]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	places, err := s.placesOf(digest)
	if err != nil {
		return nil, err
	}
	var found [][]byte
	for _, place := range places {
		if place.isInDoubt {
			continue
		}
		info, err := os.Stat(place.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Size() > 0 && (length == anyLength || info.Size() == int64(length)) {
			found = append(found, place.locator)
			s.foundIn[filepath.Dir(place.path)] = true
		}
	}
	return found, nil
}

// check: behind a Sync that failed a later one may go well, and say nothing of the bytes that the first one has lost: so
// they never get their names, and the Store is of no more use, whichever client has it (CLI-20).
func (s *Store) check() error {
	if s.failed != nil {
		return kerf.NewStoreError(s.path+" could not sync; open it anew", s.failed)
	}
	return nil
}

type place struct {
	locator []byte
	path    string
	// Its name may not be durable, whatever a later sync says.
	isInDoubt bool
}

func (s *Store) placesOf(digest []byte) ([]place, error) {
	first, err := s.chunk(append(bytes.Clone(digest), make([]byte, nonceBytes)...))
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(first)
	names, err := namesIn(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []place
	for _, name := range names {
		if locator, is := locatorOf(name); is && bytes.Equal(locator[:len(locator)-nonceBytes], digest) {
			path := filepath.Join(folder, name)
			found = append(found, place{locator, path, slices.Contains(names, filepath.Base(doubtOf(path)))})
		}
	}
	return found, nil
}

// doubtOf: where it is said that a chunk's name may not be durable.
func doubtOf(path string) string {
	folder, name := filepath.Split(path)
	return folder + "." + name
}

// Sync makes bytes durable, then names, then folders.
func (s *Store) Sync() error {
	if err := s.check(); err != nil {
		return err
	}
	if s.failed = s.syncAndName(); s.failed == nil {
		return nil
	}
	for file := range s.written {
		_ = os.Remove(file)
	}
	return s.failed
}

func (s *Store) syncAndName() error {
	var written []string
	for file := range s.written {
		written = append(written, file)
	}
	if err := syncAll(written); err != nil {
		return err
	}
	var named []string
	err := s.name(&named)
	if err == nil {
		folders := []string{s.file("chunks")}
		for folder := range s.foundIn {
			folders = append(folders, folder)
		}
		err = syncAll(folders)
	}
	if err != nil {
		return errors.Join(err, doubt(named))
	}
	clear(s.foundIn)
	return nil
}

func (s *Store) name(named *[]string) error {
	for file, place := range s.written {
		if err := os.MkdirAll(filepath.Dir(place), folderMode); err != nil {
			return err
		}
		if err := os.Rename(file, place); err != nil {
			return err
		}
		*named = append(*named, place)
		delete(s.written, file)
		s.foundIn[filepath.Dir(place)] = true
	}
	return nil
}

// doubt: the names are there, and a later sync may go well and say nothing of them: so whoever looks takes none for stored
// (CLI-20). They are not removed, for another client may have found them, and be sure of them by a sync of its own.
func doubt(places []string) (err error) {
	for _, place := range places {
		file, failed := os.OpenFile(doubtOf(place), os.O_WRONLY|os.O_CREATE, fileMode)
		if failed == nil {
			failed = file.Close()
		}
		err = errors.Join(err, failed)
	}
	return err
}

// Chunks lists all of them.
func (s *Store) Chunks() iter.Seq2[kerf.Stored, error] {
	return func(yield func(kerf.Stored, error) bool) {
		folders, err := os.ReadDir(s.file("chunks"))
		if err != nil {
			yield(kerf.Stored{}, err)
			return
		}
		for _, folder := range folders {
			entries, err := os.ReadDir(s.file("chunks", folder.Name()))
			if err != nil {
				yield(kerf.Stored{}, err)
				return
			}
			for _, entry := range entries {
				if strings.HasPrefix(entry.Name(), ".") {
					continue
				}
				if place, err := s.stored(entry); !yield(place, err) || err != nil {
					return
				}
			}
		}
	}
}

func (s *Store) stored(entry fs.DirEntry) (kerf.Stored, error) {
	locator, is := locatorOf(entry.Name())
	if !is {
		return kerf.Stored{}, kerf.NewStoreError(s.path+": "+entry.Name()+" is no chunk", nil)
	}
	info, err := entry.Info()
	if err != nil {
		return kerf.Stored{}, err
	}
	return kerf.Stored{Digest: locator[:len(locator)-nonceBytes], Length: int(info.Size()), Locator: locator}, nil
}

// Delete removes a place of a chunk.
func (s *Store) Delete(place kerf.Stored) error {
	path, err := s.chunk(place.Locator)
	if err != nil {
		return err
	}
	return errors.Join(removeIfThere(path), removeIfThere(doubtOf(path)))
}

// Read gives a chunk, of any place whose bytes are those of the digest (COL-14): one that the disk does not give is no reason
// to leave the others out.
func (s *Store) Read(digest []byte) ([]byte, error) {
	places, err := s.placesOf(digest)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		data, failed := os.ReadFile(place.path)
		if failed == nil && bytes.Equal(s.digest.Of(data), digest) {
			return data, nil
		}
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return nil, kerf.NewStoreError(fmt.Sprintf("%s: the chunk %x is not there, or damaged", s.path, digest), err)
}

func (s *Store) chunk(locator []byte) (string, error) {
	if len(locator) != s.digest.Size()+nonceBytes {
		return "", fmt.Errorf("folderstore: a locator of %d bytes", len(locator))
	}
	name := hex.EncodeToString(locator[:s.digest.Size()])
	return s.file("chunks", name[:3], name+"."+hex.EncodeToString(locator[s.digest.Size():])), nil
}

func locatorOf(name string) ([]byte, bool) {
	digest, nonce, _ := strings.Cut(name, ".")
	locator, err := hex.DecodeString(digest + nonce)
	return locator, err == nil && len(nonce) == 2*nonceBytes
}
