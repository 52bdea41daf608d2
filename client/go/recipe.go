package kerf

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// A Chunk of a recipe.
type Chunk struct {
	Digest []byte
	Length int
}

// Seen is what a client read in the store before a recipe's first verdict (COL-2): what a snapshot compares with (COL-28).
type Seen struct {
	Epoch   uint64
	HasPlan bool
}

// A Recipe is a file: its chunks in order. Everything that it names is durable in the store.
type Recipe struct {
	Key    []byte
	Size   int64
	Chunks []Chunk
	Seen   Seen
	// What this upload had to store.
	NewChunks int
	NewBytes  int64
	// UntoldChunks of its chunks the index does not know: the next backup sends them again. Nothing is lost.
	UntoldChunks int
	// IndexEpoch is the highest epoch that the index has told the streams of it; 0: none.
	IndexEpoch uint64
}

// IsOvertaken says that a collection has begun since Seen was read, whatever the store says: a snapshot looks at all chunks
// (COL-81).
func (r *Recipe) IsOvertaken() bool { return r.IndexEpoch > r.Seen.Epoch }

const snapshotVersion = 1

type recipeText struct {
	Key    string  `json:"key"`
	Size   int64   `json:"size"`
	Chunks [][]any `json:"chunks"`
}

type snapshotText struct {
	Version int          `json:"version"`
	Files   []recipeText `json:"files"`
}

// EncodeRecipes is the body of a snapshot: a SHA-256 and JSON (CLI-29).
func EncodeRecipes(recipes []*Recipe) []byte {
	text := snapshotText{Version: snapshotVersion, Files: make([]recipeText, 0, len(recipes))}
	for _, recipe := range recipes {
		chunks := make([][]any, 0, len(recipe.Chunks))
		for _, chunk := range recipe.Chunks {
			chunks = append(chunks, []any{hex.EncodeToString(chunk.Digest), chunk.Length})
		}
		text.Files = append(text.Files, recipeText{hex.EncodeToString(recipe.Key), recipe.Size, chunks})
	}
	body, err := json.Marshal(text)
	if err != nil {
		panic(err) // Strings and numbers alone.
	}
	sum := sha256.Sum256(body)
	return append(sum[:], body...)
}

// DecodeRecipes gives the recipes of a snapshot. They count as seen before any epoch, so that a snapshot that takes them
// over looks all of them up (COL-36). One that is damaged is a *StoreError: with one digit of it another, a collection would
// take the chunk that it means for garbage.
func DecodeRecipes(body []byte) ([]*Recipe, error) {
	var text struct {
		Version int
		Files   []struct {
			Key    string
			Size   int64
			Chunks [][]json.RawMessage
		}
	}
	if !isSealed(body) {
		return nil, NewStoreError("kerf: a snapshot that is damaged, or none: its SHA-256 is another. Put a sound copy of it in its "+
			"place; where there is none, remove it: its files are then lost, and collections run again", nil)
	}
	if err := json.Unmarshal(body[sha256.Size:], &text); err != nil {
		return nil, NewStoreError("kerf: a snapshot that is none", err)
	}
	if text.Version != snapshotVersion {
		return nil, NewStoreError(fmt.Sprintf("kerf: a snapshot of version %d: a newer kerf wrote it, and reads it", text.Version), nil)
	}
	recipes := make([]*Recipe, 0, len(text.Files))
	for _, file := range text.Files {
		key, err := hex.DecodeString(file.Key)
		recipe := &Recipe{Key: key, Size: file.Size, Chunks: make([]Chunk, 0, len(file.Chunks)), Seen: Seen{0, true}}
		var size int64
		for _, pair := range file.Chunks {
			var digest string
			var length int
			if err == nil && len(pair) != 2 {
				err = fmt.Errorf("%d parts", len(pair))
			}
			if err == nil {
				err = errors.Join(json.Unmarshal(pair[0], &digest), json.Unmarshal(pair[1], &length))
			}
			raw, wrong := hex.DecodeString(digest)
			if err != nil || wrong != nil || length < 1 {
				return nil, NewStoreError("kerf: a snapshot that is none: a chunk of it", err)
			}
			recipe.Chunks = append(recipe.Chunks, Chunk{raw, length})
			size += int64(length)
		}
		if err != nil || size != file.Size {
			return nil, NewStoreError("kerf: a snapshot that is none: a file of it", err)
		}
		recipes = append(recipes, recipe)
	}
	return recipes, nil
}

// isSealed: it begins with the SHA-256 of the rest (CLI-28, CLI-29).
func isSealed(body []byte) bool {
	if len(body) < sha256.Size {
		return false
	}
	sum := sha256.Sum256(body[sha256.Size:])
	return bytes.Equal(sum[:], body[:sha256.Size])
}

// lengthsOf: of each digest, as a string.
func lengthsOf(recipes []*Recipe) map[string]int {
	found := map[string]int{}
	for _, recipe := range recipes {
		for _, chunk := range recipe.Chunks {
			found[string(chunk.Digest)] = chunk.Length
		}
	}
	return found
}
