//go:build unix

// Command conformance is the Go client, driven by the conformance kit: docs/spec/conformance.md.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	kerf "kerf/client/go"
	"kerf/client/go/folderstore"
)

type object = map[string]any

// A driver speaks with the kit: one object a line.
type driver struct {
	in     *bufio.Reader
	client *kerf.Client
	// Where it is in a folder, nil otherwise.
	folder  *folderstore.Store
	roots   func() iter.Seq2[[]byte, error]
	recipes []*kerf.Recipe
}

// told is what the kit says, and what it answers to a question.
type told struct {
	Do    string
	Error *string

	// Commands.
	Servers     []string
	Repository  string
	Digest      string
	IsCollected bool    `json:"is_collected"`
	RetryForS   float64 `json:"retry_for_s"`
	SilenceS    float64 `json:"silence_s"`
	CommitBytes int64   `json:"commit_bytes"`
	WindowBytes int64   `json:"window_bytes"`
	Direct      bool
	Folder      string
	Key         string
	Seeks       bool
	Recipe      int
	Recipes     []int
	Name        string
	Body        []byte

	// Answers.
	Data     []byte
	Locator  string
	Locators []string
	Epoch    uint64
	Plan     []byte
	Places   [][3]any
	Bodies   [][]byte
}

func say(said object) {
	line, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func (d *driver) hear() (*told, error) {
	line, err := d.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	heard := &told{}
	return heard, json.Unmarshal(line, heard)
}

func (d *driver) ask(what string, arguments object) (*told, error) {
	said := object{"ask": what}
	for name, value := range arguments {
		said[name] = value
	}
	say(said)
	answer, err := d.hear()
	if err == nil && answer.Error != nil {
		err = errors.New(*answer.Error)
	}
	return answer, err
}

// A source is what is uploaded.
type source struct {
	driver *driver
	offset int64
}

func (s *source) Read(into []byte) (int, error) {
	answer, err := s.driver.ask("read", object{"size": len(into)})
	if err != nil {
		return 0, io.ErrUnexpectedEOF // As gzip says it of a file that is cut off (CLI-31).
	}
	if len(answer.Data) == 0 {
		return 0, io.EOF
	}
	s.offset += int64(len(answer.Data))
	return copy(into, answer.Data), nil
}

type seekingSource struct{ source }

func (s *seekingSource) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekCurrent && offset == 0 {
		return s.offset, nil
	}
	if whence != io.SeekStart {
		return 0, errors.New("from the start alone")
	}
	s.offset = offset
	_, err := s.driver.ask("seek", object{"offset": offset})
	return offset, err
}

func (d *driver) do(heard *told) (object, error) {
	switch heard.Do {
	case "open":
		return object{}, d.open(heard)
	case "upload":
		return d.upload(heard)
	case "reuse":
		taken, is, err := d.client.Reuse(d.recipes[heard.Recipe])
		if err != nil || !is {
			return object{"recipe": nil}, err
		}
		return object{"recipe": d.keep(taken)}, nil
	case "decode":
		found, err := kerf.DecodeRecipes(heard.Body)
		numbers := []int{}
		for _, recipe := range found {
			numbers = append(numbers, d.keep(recipe))
		}
		return object{"recipes": numbers}, err
	case "snapshot":
		whole := []*kerf.Recipe{}
		for _, number := range heard.Recipes {
			whole = append(whole, d.recipes[number])
		}
		return object{}, d.client.Snapshot(heard.Name, whole)
	case "restore":
		return d.restore(d.recipes[heard.Recipe])
	case "collect":
		done, err := d.client.Collect(context.Background(), d.roots)
		if err != nil {
			return nil, err
		}
		return object{"deleted": done.DeletedChunks, "is_index_believed": done.IsIndexBelieved}, nil
	case "close":
		d.close()
		return object{}, nil
	}
	return nil, fmt.Errorf("%q: no such action", heard.Do)
}

func (d *driver) close() {
	if d.client != nil {
		d.client.Close()
	}
	d.client = nil
}

func (d *driver) open(heard *told) error {
	d.close()
	d.recipes = nil
	digest := map[string]kerf.Digest{"blake3": kerf.BLAKE3, "sha256": kerf.SHA256}[heard.Digest]
	store, err := d.storeOf(heard, digest)
	if err != nil {
		return err
	}
	seconds := func(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }
	client, err := kerf.Open(heard.Servers, heard.Repository, store, &kerf.Options{Digest: digest, Streams: 1,
		RetryFor: seconds(heard.RetryForS), Silence: seconds(heard.SilenceS), CommitBytes: heard.CommitBytes,
		WindowBytes: heard.WindowBytes, Direct: heard.Direct})
	d.client = client
	return err
}

func (d *driver) storeOf(heard *told, digest kerf.Digest) (kerf.Store, error) {
	asked := &collectedStore{plainStore{d}}
	d.folder, d.roots = nil, asked.roots
	switch {
	case heard.Folder != "":
		folder, err := folderstore.Open(heard.Folder, digest)
		d.folder, d.roots = folder, folder.Roots
		return folder, err
	case heard.IsCollected:
		return asked, nil
	}
	return &asked.plainStore, nil
}

func (d *driver) restore(recipe *kerf.Recipe) (object, error) {
	if d.folder == nil {
		return nil, errors.New("the kit has the store")
	}
	sum := sha256.New()
	for data, err := range d.folder.Restore(recipe) {
		if err != nil {
			return nil, err
		}
		sum.Write(data)
	}
	return object{"sha256": hex.EncodeToString(sum.Sum(nil))}, nil
}

func (d *driver) keep(recipe *kerf.Recipe) int {
	d.recipes = append(d.recipes, recipe)
	return len(d.recipes) - 1
}

func (d *driver) upload(heard *told) (object, error) {
	key, err := hex.DecodeString(heard.Key)
	if err != nil {
		return nil, err
	}
	var reader io.Reader = &source{driver: d}
	if heard.Seeks {
		reader = &seekingSource{source{driver: d}}
	}
	recipe, err := d.client.Upload(context.Background(), reader, key)
	if err != nil {
		return nil, err
	}
	chunks := [][2]any{}
	for _, chunk := range recipe.Chunks {
		chunks = append(chunks, [2]any{hex.EncodeToString(chunk.Digest), chunk.Length})
	}
	return object{"recipe": d.keep(recipe), "size": recipe.Size, "chunks": chunks}, nil
}

func errorOf(err error) object {
	said := func(class, reason string) object {
		return object{"class": class, "reason": reason, "text": err.Error()}
	}
	var lost *kerf.ChunksLost
	var behind *kerf.EpochBehind
	var retryable *kerf.Retryable
	var store *kerf.StoreError
	var disagreement *kerf.Disagreement
	var refused *kerf.Refused
	switch {
	case errors.As(err, &lost):
		return said("chunks_lost", "")
	case errors.As(err, &behind):
		return said("epoch_behind", behind.Reason)
	case errors.As(err, &store):
		return said("store", "")
	case errors.As(err, &disagreement):
		return said("disagreement", "")
	case errors.As(err, &retryable):
		return said("retryable", retryable.Reason)
	case errors.As(err, &refused):
		return said("refused", refused.Reason)
	}
	return said("other", "")
}

func main() {
	say(object{"client": "kerf-go", "protocol": 1,
		"can": []string{"reader", "store", "lengths", "snapshot", "collect", "folder", "silence_s", "commit_bytes", "window_bytes",
			"direct"}})
	made := &driver{in: bufio.NewReader(os.Stdin)}
	for {
		heard, err := made.hear()
		if errors.Is(err, io.EOF) {
			made.close()
			return
		}
		var done object
		if err == nil {
			done, err = made.do(heard)
		}
		if err != nil {
			say(object{"error": errorOf(err)})
		} else {
			say(object{"ok": done})
		}
	}
}
