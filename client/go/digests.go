package kerf

import (
	"crypto/sha256"
	"fmt"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"

	"kerf/client/go/kerfv1"
)

// A Digest is how a repository names its chunks, the same for all its life (PRO-50).
type Digest int

const (
	// BLAKE3 is the default.
	BLAKE3 Digest = iota
	SHA256
	// XXH3 (128 bits) is for data that no adversary can write.
	XXH3
)

// String is its name in docs/spec/chunking.md.
func (d Digest) String() string {
	switch d {
	case BLAKE3:
		return "blake3"
	case SHA256:
		return "sha256"
	case XXH3:
		return "xxh3-128"
	}
	return fmt.Sprintf("Digest(%d)", int(d))
}

// Size in bytes.
func (d Digest) Size() int {
	if d == XXH3 {
		return 16
	}
	return 32
}

// Of is the digest of a chunk.
func (d Digest) Of(data []byte) []byte {
	switch d {
	case BLAKE3:
		sum := blake3.Sum256(data)
		return sum[:]
	case SHA256:
		sum := sha256.Sum256(data)
		return sum[:]
	}
	sum := xxh3.Hash128(data).Bytes()
	return sum[:]
}

func (d Digest) algorithm() kerfv1.DigestAlgorithm {
	switch d {
	case BLAKE3:
		return kerfv1.DigestAlgorithm_DIGEST_ALGORITHM_BLAKE3
	case SHA256:
		return kerfv1.DigestAlgorithm_DIGEST_ALGORITHM_SHA256
	}
	return kerfv1.DigestAlgorithm_DIGEST_ALGORITHM_XXH3_128
}

// checkOf is Chunk.check: XXH3-64, seed 0.
func checkOf(data []byte) uint64 { return xxh3.Hash(data) }
