package kerf

import (
	"fmt"
	"io"

	"github.com/zeebo/xxh3"
)

const maxEmptyReads = 100

// A block as it was read: what its bytes are by now is compared with that before they are sent again.
type block struct {
	data  []byte
	check uint64
}

// A file under upload, over all its streams: what was read and not answered yet, which is all that is kept of it, and its
// recipe so far.
type file struct {
	reader   io.Reader
	key      []byte
	sizeHint int64
	chunks   []Chunk
	// Of the chunks, what was put.
	newChunks int
	newBytes  int64
	// The end of the last chunk that was answered: where another stream goes on (PRO-30, COL-33).
	answered int64
	// Read, the first of them from blocksBegin on.
	blocks      []block
	blocksBegin int64
	readEnd     int64
	isAtEnd     bool
	// What lies before that has waited, and may have been sent before.
	keptEnd int64
	// Of the stream that there is now.
	start     int64
	sent      int64
	isEndSent bool
	isDone    bool
	content   *xxh3.Hasher
}

func newFile(reader io.Reader, key []byte, sizeHint int64) *file {
	made := &file{reader: reader, key: key, sizeHint: sizeHint}
	made.restart()
	return made
}

// restart: another stream begins where this one's answers ended.
func (f *file) restart() {
	f.start, f.sent = f.answered, f.answered
	f.isEndSent, f.isDone = false, false
	f.content = xxh3.New()
	f.keptEnd = f.readEnd
}

// isComplete: all of it was read, answered and placed.
func (f *file) isComplete() bool { return f.isAtEnd && f.answered == f.readEnd }

func (f *file) isAllSent() bool { return f.isAtEnd && f.sent == f.readEnd }

func (f *file) unanswered() int64 { return f.sent - f.answered }

// nextBlock: the next bytes to send, at most `size`: what another stream has lost, or what is read. None: it has ended.
func (f *file) nextBlock(size int) ([]byte, error) {
	if f.sent == f.readEnd && !f.isAtEnd {
		if err := f.read(size); err != nil {
			return nil, err
		}
	}
	end := min(f.readEnd, f.sent+int64(size))
	if f.sent < f.keptEnd {
		if err := f.compareWithWhatWasRead(f.sent, end); err != nil {
			return nil, err
		}
	}
	block := f.slice(f.sent, end)
	f.sent += int64(len(block))
	if _, err := f.content.Write(block); err != nil {
		return nil, err
	}
	return block, nil
}

// compareWithWhatWasRead: the next stream is told the hash of what the bytes are by now, and would find nothing wrong (CLI-39).
func (f *file) compareWithWhatWasRead(begin, end int64) error {
	offset := f.blocksBegin
	for _, kept := range f.blocks {
		next := offset + int64(len(kept.data))
		if offset < end && next > begin && checkOf(kept.data) != kept.check {
			return newRefused("kerf: bytes that waited to be sent again are not those that were read: memory is faulty")
		}
		offset = next
	}
	return nil
}

// read fills a block, so that a small file is one message. Not io.ReadFull: a reader's own io.ErrUnexpectedEOF, as of a
// gzip file that is cut off, is no end.
func (f *file) read(size int) error {
	data := make([]byte, size)
	n, empty := 0, 0
	for n < size && !f.isAtEnd {
		m, err := f.reader.Read(data[n:])
		n += m
		switch {
		case err == io.EOF:
			f.isAtEnd = true
		case err != nil:
			return fmt.Errorf("kerf: the file cannot be read: %w", err)
		case m > 0:
			empty = 0
		default:
			if empty++; empty == maxEmptyReads {
				return fmt.Errorf("kerf: the file cannot be read: %w", io.ErrNoProgress)
			}
		}
	}
	if n > 0 {
		if n < size {
			data = append([]byte(nil), data[:n]...)
		}
		f.blocks = append(f.blocks, block{data, checkOf(data)})
		f.readEnd += int64(n)
	}
	return nil
}

// peek: from the last cut to there.
func (f *file) peek(end int64) []byte { return f.slice(f.answered, end) }

func (f *file) slice(begin, end int64) []byte {
	var joined []byte
	offset := f.blocksBegin
	for _, kept := range f.blocks {
		next := offset + int64(len(kept.data))
		if next > begin && offset < end {
			part := kept.data[max(begin-offset, 0):min(end-offset, int64(len(kept.data)))]
			if begin >= offset && end <= next {
				return part
			}
			joined = append(joined, part...)
		}
		offset = next
	}
	return joined
}

// add: it was answered, compared and placed: its bytes are the store's now.
func (f *file) add(chunk Chunk, isNew bool) {
	f.chunks = append(f.chunks, chunk)
	if isNew {
		f.newChunks++
		f.newBytes += int64(chunk.Length)
	}
	f.answered += int64(chunk.Length)
	for len(f.blocks) > 0 && f.blocksBegin+int64(len(f.blocks[0].data)) <= f.answered {
		f.blocksBegin += int64(len(f.blocks[0].data))
		f.blocks[0].data = nil
		f.blocks = f.blocks[1:]
	}
}
