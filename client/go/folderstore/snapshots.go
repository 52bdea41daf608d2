//go:build unix

package folderstore

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"regexp"

	kerf "kerf/client/go"
)

var nameRule = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$`)

// Publish makes a pending snapshot.
func (s *Store) Publish(name string, body []byte) error {
	pending, checked, err := s.snapshotFiles(name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(checked); err == nil {
		return fmt.Errorf("%s: %w", checked, fs.ErrExist)
	}
	written := s.temporary()
	if err := writeDurably(written, body); err != nil {
		return err
	}
	if err := errors.Join(os.Link(written, pending), os.Remove(written)); err != nil {
		return err
	}
	return syncPath(s.file("pending"))
}

// Withdraw removes a pending snapshot.
func (s *Store) Withdraw(name string) error {
	pending, _, err := s.snapshotFiles(name)
	if err != nil {
		return err
	}
	if err := removeIfThere(pending); err != nil {
		return err
	}
	return syncPath(s.file("pending"))
}

// Confirm: it is both for a moment: whoever lists pending ones first sees it in one of them.
func (s *Store) Confirm(name string) error {
	pending, checked, err := s.snapshotFiles(name)
	if err != nil {
		return err
	}
	if err := os.Link(pending, checked); err != nil {
		return err
	}
	if err := syncPath(s.file("snapshots")); err != nil {
		return err
	}
	return s.Withdraw(name)
}

// Snapshots are the names of those that were confirmed, sorted.
func (s *Store) Snapshots() ([]string, error) { return namesIn(s.file("snapshots")) }

// Snapshot gives the files of one.
func (s *Store) Snapshot(name string) ([]*kerf.Recipe, error) {
	_, checked, err := s.snapshotFiles(name)
	if err != nil {
		return nil, err
	}
	return recipesIn(checked)
}

func recipesIn(file string) ([]*kerf.Recipe, error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	recipes, err := kerf.DecodeRecipes(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return recipes, nil
}

// Forget removes one: the next collection frees what it alone needs.
func (s *Store) Forget(name string) error {
	_, checked, err := s.snapshotFiles(name)
	if err != nil {
		return err
	}
	if err := os.Remove(checked); err != nil {
		return err
	}
	return syncPath(s.file("snapshots"))
}

// Restore gives the bytes of a file.
func (s *Store) Restore(recipe *kerf.Recipe) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, chunk := range recipe.Chunks {
			data, err := s.Read(chunk.Digest)
			if err == nil && len(data) != chunk.Length {
				err = kerf.NewStoreError(fmt.Sprintf("%s: a chunk of %d bytes in the place of %d", s.path, len(data), chunk.Length), nil)
			}
			if !yield(data, err) || err != nil {
				return
			}
		}
	}
}

// Roots are for Client.Collect: pending ones before others, made durable as they were read (COL-45, COL-47).
func (s *Store) Roots() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, folder := range []string{"pending", "snapshots"} {
			if !s.rootsIn(folder, yield) {
				return
			}
		}
	}
}

func (s *Store) rootsIn(folder string, yield func([]byte, error) bool) bool {
	names, err := namesIn(s.file(folder))
	if err != nil {
		return yield(nil, err) && false
	}
	for _, name := range names {
		recipes, err := recipesIn(s.file(folder, name))
		if errors.Is(err, fs.ErrNotExist) && folder == "pending" {
			continue // It was confirmed, or withdrawn.
		}
		if err != nil {
			return yield(nil, err) && false
		}
		for _, recipe := range recipes {
			for _, chunk := range recipe.Chunks {
				if !yield(chunk.Digest, nil) {
					return false
				}
			}
		}
	}
	if err := syncPath(s.file(folder)); err != nil {
		return yield(nil, err) && false
	}
	return true
}

func (s *Store) snapshotFiles(name string) (pending, checked string, err error) {
	if !nameRule.MatchString(name) {
		return "", "", fmt.Errorf("folderstore: %q is no name for a snapshot: 1 to 200 of [A-Za-z0-9._-], no . first", name)
	}
	return s.file("pending", name), s.file("snapshots", name), nil
}
