//go:build unix

package folderstore

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kerf "kerf/client/go"
)

// A Store has all that a collection needs.
var _ kerf.CollectedStore = (*Store)(nil)
var _ kerf.SizedStore = (*Store)(nil)

func open(t *testing.T) *Store {
	t.Helper()
	made, err := Open(filepath.Join(t.TempDir(), "store"), kerf.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func must[A any](t *testing.T) func(A, error) A {
	return func(value A, err error) A {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func fine(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, store *Store, data string) (digest, locator []byte) {
	t.Helper()
	digest = kerf.SHA256.Of([]byte(data))
	return digest, must[[]byte](t)(store.Put(digest, []byte(data)))
}

func TestChunks(t *testing.T) {
	store := open(t)
	digest, locator := put(t, store, "some bytes")
	if there := must[[][]byte](t)(store.Has(digest)); len(there) != 0 {
		t.Error("it has its name before it is durable")
	}
	fine(t, store.Sync())
	_, second := put(t, store, "some bytes")
	fine(t, store.Sync())
	there := must[[][]byte](t)(store.Has(digest))
	if len(there) != 2 || bytes.Equal(locator, second) {
		t.Fatal("not two places:", there)
	}
	var listed []kerf.Stored
	for place, err := range store.Chunks() {
		fine(t, err)
		listed = append(listed, place)
	}
	if len(listed) != 2 || listed[0].Length != 10 || !bytes.Equal(listed[0].Digest, digest) {
		t.Fatal(listed)
	}
	// One that is damaged is passed over (COL-14).
	fine(t, os.WriteFile(must[string](t)(store.chunk(locator)), []byte("other bytes"), 0o600))
	if data := must[[]byte](t)(store.Read(digest)); string(data) != "some bytes" {
		t.Fatalf("%q", data)
	}
	// Nor is one that the disk does not give a reason not to look at the other one.
	for _, places := range [][2][]byte{{locator, second}, {second, locator}} {
		one, other := must[string](t)(store.chunk(places[0])), must[string](t)(store.chunk(places[1]))
		fine(t, os.Remove(one))
		fine(t, os.Mkdir(one, 0o700))
		fine(t, os.WriteFile(other, []byte("some bytes"), 0o600))
		if data := must[[]byte](t)(store.Read(digest)); string(data) != "some bytes" {
			t.Fatalf("%q", data)
		}
		fine(t, os.Remove(one))
		fine(t, os.WriteFile(one, []byte("other bytes"), 0o600))
	}
	fine(t, store.Delete(kerf.Stored{Locator: second}))
	fine(t, store.Delete(kerf.Stored{Locator: second}))
	fine(t, os.WriteFile(must[string](t)(store.chunk(locator)), []byte("other bytes"), 0o600))
	_, err := store.Read(digest)
	var wrong *kerf.StoreError
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	if left := must[[]fs.DirEntry](t)(os.ReadDir(store.file("tmp"))); len(left) != 0 {
		t.Error("tmp has", left)
	}
}

func TestWhatIsThereIsTaken(t *testing.T) {
	store := open(t)
	digest, _ := put(t, store, "some bytes")
	fine(t, store.Sync())
	fine(t, store.RaiseEpoch(7))
	again := must[*Store](t)(Open(store.path, kerf.SHA256))
	if len(must[[][]byte](t)(again.Has(digest))) != 1 || must[uint64](t)(again.Epoch()) != 7 {
		t.Error("it is another store")
	}
	if _, err := Open(store.path, kerf.BLAKE3); err == nil {
		t.Error("it is taken for one of another digest")
	}
	// As client/python writes it.
	fine(t, os.WriteFile(store.file("config"), []byte(`{"version": 1, "digest": "sha256"}`), 0o600))
	must[*Store](t)(Open(store.path, kerf.SHA256))
	fine(t, os.WriteFile(store.file("config"), []byte(`{"version": 2, "digest": "sha256"}`), 0o600))
	if _, err := Open(store.path, kerf.SHA256); err == nil {
		t.Error("it is taken for one of this version")
	}
	fine(t, os.Remove(store.file("config")))
	if _, err := Open(store.path, kerf.SHA256); err == nil {
		t.Error("a store that lost its config is a new one")
	}
}

func TestBegunByTwoAtATimeItsEpochStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folders", "above", "store")
	store := must[*Store](t)(Open(path, kerf.SHA256))
	fine(t, store.RaiseEpoch(7))
	// The other one has looked before this one was done.
	fine(t, store.begin(config{version, "sha256"}))
	if epoch := must[uint64](t)(store.Epoch()); epoch != 7 {
		t.Error("COL-1: from 7 to", epoch)
	}
	// And with another digest.
	fine(t, store.begin(config{version, "blake3"}))
	must[*Store](t)(Open(path, kerf.SHA256))
	if left := must[[]fs.DirEntry](t)(os.ReadDir(store.file("tmp"))); len(left) != 0 {
		t.Error("tmp has", left)
	}
}

func TestBehindASyncThatFailedNothingOfItIsNamed(t *testing.T) {
	store := open(t)
	digest, _ := put(t, store, "some bytes")
	for file := range store.written {
		fine(t, os.Remove(file))
		if store.Sync() == nil {
			t.Fatal("it has synced what is not there")
		}
		// A later sync goes well, with what is left of the bytes.
		fine(t, os.WriteFile(file, nil, 0o600))
	}
	var wrong *kerf.StoreError
	if err := store.Sync(); !errors.As(err, &wrong) {
		t.Error(err)
	}
	if _, err := store.Put(digest, nil); !errors.As(err, &wrong) {
		t.Error(err)
	}
	if there, err := store.Has(digest); !errors.As(err, &wrong) {
		t.Error(there, err)
	}
	if there := must[[][]byte](t)(must[*Store](t)(Open(store.path, kerf.SHA256)).Has(digest)); len(there) != 0 {
		t.Error("bytes that were lost have a name")
	}
}

func TestANameWhoseFolderCouldNotBeSyncedIsNotNamed(t *testing.T) {
	store := open(t)
	one, _ := put(t, store, "one")
	fine(t, store.Sync())
	put(t, store, "one")
	two, _ := put(t, store, "two")
	store.foundIn[store.file("chunks", "none")] = true
	if store.Sync() == nil {
		t.Fatal("it has synced a folder that is not there")
	}
	other := must[*Store](t)(Open(store.path, kerf.SHA256))
	for range 2 {
		if len(must[[][]byte](t)(other.Has(one))) != 1 || len(must[[][]byte](t)(other.Has(two))) != 0 {
			t.Fatal("CLI-20: a name that may not be durable counts")
		}
		fine(t, other.Sync())
	}
	// Whoever has found the name before, and synced it himself, finds his bytes; a collection finds the place.
	if data := must[[]byte](t)(other.Read(two)); string(data) != "two" {
		t.Fatalf("%q", data)
	}
	places := 0
	for place, err := range other.Chunks() {
		fine(t, err)
		fine(t, other.Delete(place))
		places++
	}
	left := must[[]string](t)(filepath.Glob(other.file("chunks", "*", "*")))
	if places != 3 || len(left) != 0 {
		t.Error(places, left)
	}
}

func TestAFileOfAnotherLengthIsNotThere(t *testing.T) {
	store := open(t)
	digest, first := put(t, store, "one")
	_, second := put(t, store, "one")
	_, third := put(t, store, "one")
	fine(t, store.Sync())
	fine(t, os.WriteFile(must[string](t)(store.chunk(first)), nil, 0o600))
	fine(t, os.WriteFile(must[string](t)(store.chunk(second)), []byte("on"), 0o600))
	if there := must[[][]byte](t)(store.Has(digest)); len(there) != 2 {
		t.Error("CLI-36: an empty one counts")
	}
	if there := must[[][]byte](t)(store.HasOfLength(digest, 3)); len(there) != 1 || !bytes.Equal(there[0], third) {
		t.Error("CLI-36: a short one counts")
	}
}

func TestSnapshots(t *testing.T) {
	store := open(t)
	digest, _ := put(t, store, "some bytes")
	fine(t, store.Sync())
	recipes := []*kerf.Recipe{{Key: []byte("k"), Size: 10, Chunks: []kerf.Chunk{{Digest: digest, Length: 10}}}}
	fine(t, store.Publish("one", kerf.EncodeRecipes(recipes)))
	if err := store.Publish("one", nil); !errors.Is(err, fs.ErrExist) {
		t.Fatal("COL-26: a pending one was changed:", err)
	}
	if names := must[[]string](t)(store.Snapshots()); len(names) != 0 {
		t.Fatal("a pending one is a snapshot")
	}
	if roots := readRoots(t, store); len(roots) != 1 {
		t.Fatal("COL-45: a pending one is no root")
	}
	fine(t, store.Confirm("one"))
	if err := store.Confirm("one"); err == nil {
		t.Fatal("COL-31: one that is not pending was confirmed")
	}
	if err := store.Publish("one", nil); !errors.Is(err, fs.ErrExist) {
		t.Fatal("a snapshot was published a second time:", err)
	}
	if !slices.Equal(must[[]string](t)(store.Snapshots()), []string{"one"}) || len(readRoots(t, store)) != 1 {
		t.Fatal("it is no snapshot, or no root")
	}
	read := must[[]*kerf.Recipe](t)(store.Snapshot("one"))
	var whole []byte
	for data, err := range store.Restore(read[0]) {
		fine(t, err)
		whole = append(whole, data...)
	}
	if string(whole) != "some bytes" {
		t.Fatalf("%q", whole)
	}
	fine(t, store.Forget("one"))
	if len(readRoots(t, store)) != 0 {
		t.Fatal("what was forgotten is a root")
	}
	fine(t, store.Withdraw("never-there"))
	for _, name := range []string{"", ".", "..", ".x", "a/b", "a\x00", string(make([]byte, 201))} {
		if store.Publish(name, nil) == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

func readRoots(t *testing.T, store *Store) (roots [][]byte) {
	t.Helper()
	for digest, err := range store.Roots() {
		fine(t, err)
		roots = append(roots, digest)
	}
	return roots
}

func TestRootsThatCannotBeReadAreAnError(t *testing.T) {
	for _, folder := range []string{"pending", "snapshots"} {
		store := open(t)
		fine(t, os.WriteFile(store.file(folder, "one"), []byte("no snapshot"), 0o600))
		var failed error
		for _, err := range store.Roots() {
			failed = err
		}
		var wrong *kerf.StoreError
		if !errors.As(failed, &wrong) {
			t.Fatal(folder, failed)
		}
	}
	store := open(t)
	fine(t, os.RemoveAll(store.file("pending")))
	var failed error
	for _, err := range store.Roots() {
		failed = err
	}
	if failed == nil {
		t.Fatal("a folder that is gone has no roots")
	}
}

func TestRootsOfADamagedSnapshotAreAnErrorThatNamesIt(t *testing.T) {
	store := open(t)
	digest, _ := put(t, store, "some bytes")
	fine(t, store.Sync())
	fine(t, store.Publish("one", kerf.EncodeRecipes([]*kerf.Recipe{{Size: 10, Chunks: []kerf.Chunk{{Digest: digest, Length: 10}}}})))
	fine(t, store.Confirm("one"))
	body := must[[]byte](t)(os.ReadFile(store.file("snapshots", "one")))
	check := func(bad []byte) {
		fine(t, os.WriteFile(store.file("snapshots", "one"), bad, 0o600))
		var failed error
		for _, err := range store.Roots() {
			failed = err
		}
		_, readError := store.Snapshot("one")
		var wrong *kerf.StoreError
		for _, err := range []error{failed, readError} {
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "snapshots/one: kerf: a snapshot that is damaged") {
				t.Fatalf("%q: %v", bad, err)
			}
		}
	}
	for at := range body {
		check(body[:at])
		flipped := bytes.Clone(body)
		flipped[at] ^= 1
		check(flipped)
	}
}

func TestAFolderThatIsGoneIsNotMadeAnew(t *testing.T) {
	store := open(t)
	for _, name := range folders {
		fine(t, os.Remove(store.file(name)))
		var wrong *kerf.StoreError
		if _, err := Open(store.path, kerf.SHA256); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "no folder "+name) {
			t.Error(name, err)
		}
		fine(t, os.Mkdir(store.file(name), 0o700))
	}
	must[*Store](t)(Open(store.path, kerf.SHA256))
}

func TestEpochAndPlan(t *testing.T) {
	store := open(t)
	if epoch := must[uint64](t)(store.Epoch()); epoch != 1 {
		t.Fatal(epoch)
	}
	fine(t, store.RaiseEpoch(4))
	for _, epoch := range []uint64{4, 3, 0} {
		if store.RaiseEpoch(epoch) == nil {
			t.Error("COL-1: from 4 to", epoch)
		}
	}
	if plan := must[[]byte](t)(store.Plan()); plan != nil {
		t.Fatal(plan)
	}
	fine(t, store.WritePlan([]byte("one")))
	fine(t, store.WritePlan([]byte("two")))
	if plan := must[[]byte](t)(store.Plan()); string(plan) != "two" {
		t.Fatal(plan)
	}
	fine(t, store.RemovePlan())
	fine(t, store.RemovePlan())
	fine(t, os.WriteFile(store.file("plan"), nil, 0o600))
	if plan := must[[]byte](t)(store.Plan()); plan == nil {
		t.Error("an empty plan is none")
	}
}

func TestCli35AnEpochThatIsDamagedIsNone(t *testing.T) {
	store := open(t)
	fine(t, store.RaiseEpoch(12))
	body := string(must[[]byte](t)(os.ReadFile(store.file("epoch"))))
	if body != "12 6b51d431df5d7f141cbececcf79edf3dd861c3b4069f0b11661a3eefacbba918" {
		t.Error(body)
	}
	damaged := []string{"12", "x", "-1", "1_0", "+5", "1 2", "1.0", "\xff", "99999999999999999999"}
	for at := range body {
		damaged = append(damaged, body[:at], body[:at]+string([]byte{body[at] ^ 1})+body[at+1:])
	}
	for _, bad := range damaged {
		fine(t, os.WriteFile(store.file("epoch"), []byte(bad), 0o600))
		_, err := store.Epoch()
		var wrong *kerf.StoreError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "epoch is damaged") || store.RaiseEpoch(99) == nil {
			t.Errorf("%q is an epoch: %v", bad, err)
		}
	}
	// As the message says.
	fine(t, os.WriteFile(store.file("epoch"), []byte("1 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b\n"), 0o600))
	if epoch := must[uint64](t)(store.Epoch()); epoch != 1 {
		t.Error(epoch)
	}
}

func TestLock(t *testing.T) {
	store := open(t)
	unlock := must[func() error](t)(store.Lock())
	other := must[*Store](t)(Open(store.path, kerf.SHA256))
	_, err := other.Lock()
	var later *kerf.Retryable
	if !errors.As(err, &later) {
		t.Fatal(err)
	}
	fine(t, unlock())
	fine(t, must[func() error](t)(other.Lock())())
}
