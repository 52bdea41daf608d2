package kerf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"

	"kerf/client/go/kerfv1"
)

// Options of a client; what is zero has the value that stands there.
type Options struct {
	// Profile fixes the cuts, by name or parameters (docs/spec/chunking.md): "mincdc-8k".
	Profile string
	// Digest is the same for ever in one repository: BLAKE3.
	Digest Digest
	TLS    *TLS
	Token  TokenSource
	// ServerUser is, beside root and the client's own, who may listen at a unix socket and be shown a token (Linux): none.
	ServerUser int
	// Direct: past a front, straight to its workers, where they can be reached.
	Direct bool
	// Streams: so many uploads run at a time, others wait: 4.
	Streams int
	// RetryFor: so long without a chunk answered: 5 min.
	RetryFor time.Duration
	// Silence of a server that owes an answer, before its stream is given up: 2 min.
	Silence time.Duration
	// LateFor: so long an upload tries to tell the index what a lost stream has left: 15 s.
	LateFor time.Duration
	// WindowBytes are read ahead of answers, for each stream: 4 MiB, and three of the profile's longest chunks at least.
	WindowBytes int64
	// CommitBytes of new chunks between two Syncs of the store: 16 MiB.
	CommitBytes int64
	// Agent is for the servers' logs: kerf-go, its version, and the name of the machine.
	Agent string
	// Warn is told what is worth reading and no error, by any goroutine.
	Warn func(message string)
	// Dial are options of gRPC's, behind the client's own: a dialer, an interceptor.
	Dial []grpc.DialOption
}

const (
	maxKeyBytes   = 4096
	maxAgentBytes = 128
	// An upload that collections come in between of is begun again so often.
	rounds = 3
)

var repositoryName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// A Client of one store. Any number of goroutines may call.
type Client struct {
	settings *settings
	keeper   *keeper
	servers  *servers
	proof    *proof
	index    *index
	lanes    []*lane
	free     chan *lane
	closed   chan struct{}
	closing  sync.Once

	mutex sync.Mutex
	// Nil: it is read before the next upload.
	current *view
}

// Open makes a client of these kerfd (HOST:PORT or unix:PATH), of which each is as good as the others. It asks nothing yet.
func Open(servers []string, repository string, store Store, options *Options) (*Client, error) {
	return open(servers, repository, store, options, defaultPace())
}

func open(names []string, repository string, store Store, given *Options, pace *pace) (*Client, error) {
	options := withDefaults(given)
	made := &servers{}
	for _, name := range names {
		address, err := parseAddress(name)
		if err != nil {
			return nil, err
		}
		made.addresses = append(made.addresses, address)
	}
	switch {
	case len(made.addresses) == 0:
		return nil, errors.New("kerf: a client needs a server")
	case !repositoryName.MatchString(repository):
		return nil, fmt.Errorf("kerf: %q is no repository: 1 to 64 of [A-Za-z0-9._-]", repository)
	case options.Digest < BLAKE3 || options.Digest > XXH3:
		return nil, fmt.Errorf("kerf: %v is no digest", options.Digest)
	case !utf8.ValidString(options.Profile):
		return nil, fmt.Errorf("kerf: %q is no profile", options.Profile)
	case options.Streams < 1:
		return nil, errors.New("kerf: a client needs a stream")
	case options.TLS != nil && (options.TLS.CertFile == "") != (options.TLS.KeyFile == ""):
		return nil, errors.New("kerf: CertFile and KeyFile go together")
	case store == nil:
		return nil, errors.New("kerf: a client needs a store")
	}
	if named, is := store.(interface{ Digest() Digest }); is && named.Digest() != options.Digest {
		return nil, fmt.Errorf("kerf: the store has digests of %v, not of %v", named.Digest(), options.Digest)
	}
	keeper, err := newKeeper(store)
	if err != nil {
		return nil, err
	}
	client := &Client{settings: settingsOf(repository, options, pace), keeper: keeper, servers: made,
		proof: newProof(&options), free: make(chan *lane, options.Streams), closed: make(chan struct{})}
	for _, address := range made.addresses {
		if err := client.proof.mayShowToken(address); err != nil {
			return nil, err
		}
	}
	client.index = &index{made, client.proof, pace, shardKey(repository, 0),
		&kerfv1.RepositoryRef{Repository: repository, DigestAlgorithm: options.Digest.algorithm()}}
	for number := range options.Streams {
		lane := newLane(client, number)
		client.lanes = append(client.lanes, lane)
		client.free <- lane
	}
	return client, nil
}

func withDefaults(given *Options) Options {
	options := Options{}
	if given != nil {
		options = *given
	}
	host, _ := os.Hostname()
	orString := func(value *string, other string) {
		if *value == "" {
			*value = other
		}
	}
	orTime := func(value *time.Duration, other time.Duration) {
		if *value == 0 {
			*value = other
		}
	}
	orSize := func(value *int64, other int64) {
		if *value == 0 {
			*value = other
		}
	}
	orString(&options.Profile, "mincdc-8k")
	orString(&options.Agent, "kerf-go/"+Version+" "+host)
	options.Agent = strings.ToValidUTF8(options.Agent[:min(len(options.Agent), maxAgentBytes)], "")
	orTime(&options.RetryFor, 5*time.Minute)
	orTime(&options.Silence, 2*time.Minute)
	orTime(&options.LateFor, 15*time.Second)
	orSize(&options.WindowBytes, 4<<20)
	orSize(&options.CommitBytes, 16<<20)
	if options.Streams == 0 {
		options.Streams = 4
	}
	if options.Warn == nil {
		options.Warn = func(string) {}
	}
	return options
}

func settingsOf(repository string, options Options, pace *pace) *settings {
	return &settings{repository: repository, profile: options.Profile, digest: options.Digest, agent: options.Agent,
		isDirect: options.Direct, retryFor: options.RetryFor, silence: options.Silence, lateFor: options.LateFor,
		windowBytes: options.WindowBytes, commitBytes: options.CommitBytes, warn: options.Warn, pace: pace}
}

// Upload gives the recipe of what `reader` reads to its end. When it returns, all its chunks are durable in the store. `key`
// names the file, the same for each of its versions.
//
// If a collection comes in between, all of it is begun again, which needs an io.Seeker; else the error is EpochBehind.
// Whoever ends `ctx` gets its error; a reader that blocks is not interrupted.
func (c *Client) Upload(ctx context.Context, reader io.Reader, key []byte) (*Recipe, error) {
	if len(key) > maxKeyBytes {
		return nil, fmt.Errorf("kerf: a key has at most %d bytes", maxKeyBytes)
	}
	begin, seeker, size := rewind(reader)
	for round := 1; ; round++ {
		recipe, view, err := c.uploadOnce(ctx, newFile(reader, key, size))
		var behind *EpochBehind
		if !errors.As(err, &behind) {
			if err == nil && recipe.IsOvertaken() {
				c.leave(view)
			}
			return recipe, err
		}
		if err := c.renew(view, behind); err != nil {
			return nil, err
		}
		if seeker == nil || round == rounds {
			return nil, behind
		}
		if _, err := seeker.Seek(begin, io.SeekStart); err != nil {
			return nil, fmt.Errorf("kerf: the file cannot be read again: %w", err)
		}
	}
}

// rewind: where the reader is now, if it can go back there, and how much there is, 0 if that is not known.
func rewind(reader io.Reader) (begin int64, seeker io.Seeker, size int64) {
	seeker, is := reader.(io.Seeker)
	if !is {
		return 0, nil, 0
	}
	begin, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, nil, 0
	}
	if end, err := seeker.Seek(0, io.SeekEnd); err == nil {
		size = max(0, end-begin)
	}
	if _, err := seeker.Seek(begin, io.SeekStart); err != nil {
		return 0, nil, 0
	}
	return begin, seeker, size
}

func (c *Client) uploadOnce(ctx context.Context, file *file) (*Recipe, *view, error) {
	lane, err := c.lane(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { c.free <- lane }()
	view, err := c.view()
	if err != nil {
		return nil, nil, err
	}
	recipe, err := lane.upload(ctx, file, view)
	return recipe, view, err
}

func (c *Client) lane(ctx context.Context) (*lane, error) {
	// A closed client first, and a context that has ended, whatever else there is.
	if c.isClosed() {
		return nil, errClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case lane := <-c.free:
		return lane, nil
	case <-c.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var errClosed = errors.New("kerf: the client is closed")

func (c *Client) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// view: COL-2: read before the first stream, and held for all of one snapshot (COL-6).
func (c *Client) view() (*view, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.current == nil {
		read, err := c.keeper.view()
		if err != nil {
			return nil, err
		}
		c.current = read
	}
	return c.current, nil
}

// leave: COL-81: the next upload begins with COL-2, in the epoch that it finds.
func (c *Client) leave(behind *view) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.current == behind {
		c.current = nil
	}
}

// renew: COL-23, COL-24: never by an epoch that anybody but the store names.
func (c *Client) renew(behind *view, err *EpochBehind) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	fresh, failed := c.keeper.view()
	if failed != nil {
		return failed
	}
	c.current = fresh
	if fresh.epoch == behind.epoch {
		err.IsSetBack = true
		err.message += fmt.Sprintf("; the store's epoch is %d as before: a collection has to run", fresh.epoch)
		return err
	}
	return nil
}

// Reuse takes over a file of a checked snapshot that has not changed, unread. False: not all of its chunks are in the store
// to stay, so upload it (COL-18).
func (c *Client) Reuse(recipe *Recipe) (*Recipe, bool, error) {
	view, err := c.view()
	if err != nil {
		return nil, false, err
	}
	for digest, length := range lengthsOf([]*Recipe{recipe}) {
		here, err := c.keeper.find(view, []byte(digest), length)
		if here == nil || err != nil {
			return nil, false, err
		}
	}
	return &Recipe{Key: recipe.Key, Size: recipe.Size, Chunks: recipe.Chunks, Seen: view.seen()}, true, nil
}

// Snapshot publishes these files, durably, unless a collection has taken a chunk of them (ChunksLost): then upload them
// again. COL-26 to COL-32.
func (c *Client) Snapshot(name string, recipes []*Recipe) error {
	if c.keeper.collected == nil {
		return errors.New("kerf: snapshots need a CollectedStore")
	}
	// The next snapshot begins with COL-2.
	defer func() {
		c.mutex.Lock()
		c.current = nil
		c.mutex.Unlock()
	}()
	if err := c.keeper.sync(); err != nil {
		return err
	}
	if err := c.locked(func(store CollectedStore) error { return store.Publish(name, EncodeRecipes(recipes)) }); err != nil {
		return fmt.Errorf("kerf: snapshot %s cannot be published: %w", name, err)
	}
	lost, err := c.lostOf(recipes)
	if err == nil && len(lost) > 0 {
		message := fmt.Sprintf("kerf: a collection has taken %d chunks of snapshot %s; it was withdrawn", len(lost), name)
		err = &ChunksLost{lost, NewRetryable(message)}
	}
	if err != nil {
		// Also where it could not be looked: its name is free then for the next try.
		if failed := c.locked(func(store CollectedStore) error { return store.Withdraw(name) }); failed != nil {
			err = errors.Join(err, fmt.Errorf("kerf: snapshot %s cannot be withdrawn: %w", name, failed))
		}
		return err
	}
	if err := c.locked(func(store CollectedStore) error { return store.Confirm(name) }); err != nil {
		return fmt.Errorf("kerf: snapshot %s cannot be confirmed: %w", name, err)
	}
	return nil
}

// lostOf: what has gone since, by epoch and plan of now (COL-27 to COL-29).
func (c *Client) lostOf(recipes []*Recipe) ([][]byte, error) {
	now, err := c.keeper.view()
	if err != nil {
		return nil, err
	}
	for _, recipe := range recipes {
		if recipe.Seen != now.seen() || recipe.Seen.HasPlan || recipe.IsOvertaken() {
			return c.keeper.lost(now, lengthsOf(recipes))
		}
	}
	return nil, nil
}

func (c *Client) locked(act func(CollectedStore) error) error {
	c.keeper.mutex.Lock()
	defer c.keeper.mutex.Unlock()
	return act(c.keeper.collected)
}

// Close ends the streams. Uploads that run are waited for.
func (c *Client) Close() {
	c.closing.Do(func() {
		close(c.closed)
		for range c.lanes {
			<-c.free
		}
		for _, lane := range c.lanes {
			lane.close(context.Background())
		}
		c.proof.close()
	})
}
