//go:build unix

package folderstore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	kerf "kerf/client/go"
)

// Epoch is read anew.
func (s *Store) Epoch() (uint64, error) {
	body, err := os.ReadFile(s.file("epoch"))
	if err != nil {
		return 0, err
	}
	number, _, _ := strings.Cut(string(body), " ")
	epoch, err := strconv.ParseUint(number, 10, 63)
	// An epoch that an agent has seen before would hide a collection from it (COL-28).
	if err != nil || strings.TrimSpace(string(body)) != epochLine(epoch) {
		return 0, kerf.NewStoreError(fmt.Sprintf("%s is damaged: end all agents, write '%s' into it, and run a collection, which goes "+
			"on from the index's epoch", s.file("epoch"), epochLine(firstEpoch)), err)
	}
	return epoch, nil
}

// RaiseEpoch refuses one that does not rise (COL-1).
func (s *Store) RaiseEpoch(epoch uint64) error {
	there, err := s.Epoch()
	if err != nil {
		return err
	}
	if epoch <= there {
		return kerf.NewStoreError(fmt.Sprintf("%s: the store's epoch is %d, and only rises: not to %d", s.path, there, epoch), nil)
	}
	return s.replace("epoch", []byte(epochLine(epoch)))
}

// epochLine is the number, and its SHA-256 in hexadecimal.
func epochLine(epoch uint64) string {
	number := strconv.FormatUint(epoch, 10)
	return fmt.Sprintf("%s %x", number, sha256.Sum256([]byte(number)))
}

// Plan is read anew.
func (s *Store) Plan() ([]byte, error) {
	body, err := os.ReadFile(s.file("plan"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return body, err
}

// WritePlan replaces it.
func (s *Store) WritePlan(plan []byte) error { return s.replace("plan", plan) }

// RemovePlan removes it.
func (s *Store) RemovePlan() error {
	if err := removeIfThere(s.file("plan")); err != nil {
		return err
	}
	return syncPath(s.path)
}

// Lock waits for nobody.
func (s *Store) Lock() (func() error, error) {
	file, err := os.OpenFile(s.file("lock"), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file.Close, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, kerf.NewRetryable(s.path + ": another collection runs")
	}
	return nil, err
}
