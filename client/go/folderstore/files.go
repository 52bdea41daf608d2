//go:build unix

package folderstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

func (s *Store) replace(name string, body []byte) error {
	written := s.temporary()
	if err := writeDurably(written, body); err != nil {
		return err
	}
	if err := os.Rename(written, s.file(name)); err != nil {
		return err
	}
	return syncPath(s.path)
}

// create leaves what is there.
func (s *Store) create(name string, body []byte) error {
	written := s.temporary()
	if err := writeDurably(written, body); err != nil {
		return err
	}
	err := os.Link(written, s.file(name))
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(written), syncPath(s.path))
}

func namesIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func write(path string, body []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(body)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(path) // Of a disk that is full.
	}
	return err
}

func writeDurably(path string, body []byte) error {
	if err := write(path, body); err != nil {
		return err
	}
	return syncPath(path)
}

// makeFolder makes those above it, too, each of them durably: a chunk in a folder that a power cut takes is lost (COL-19).
func makeFolder(path string) error {
	err := os.Mkdir(path, folderMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeFolder(filepath.Dir(path)); err != nil {
			return err
		}
		err = os.Mkdir(path, folderMode)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}

// syncAll: many at a time are one turn of the file system's journal.
func syncAll(paths []string) error {
	var group sync.WaitGroup
	failed := make([]error, len(paths))
	places := make(chan struct{}, syncsAtOnce)
	for number, path := range paths {
		places <- struct{}{}
		group.Go(func() {
			failed[number] = syncPath(path)
			<-places
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// syncPath: a file's bytes, or a folder's names.
func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
