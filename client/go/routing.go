package kerf

import (
	"context"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"

	"kerf/client/go/kerfv1"
)

const (
	locateMethod = "/kerf.v1.RoutingService/Locate"
	// A front looks at so many (ROU-7).
	maxAvoided = 8
	// Of a certificate (routing.proto), and of a worker (ROU-7).
	maxNameBytes = 253
)

// Which worker to do without for a while (ROU-7).
var avoidedReasons = map[string]bool{"AUDIT_UNAVAILABLE": true, "INDEX_UNAVAILABLE": true, "WORKER_UNREACHABLE": true}

// shardKey: as kerf makes them (ROU-2).
func shardKey(repository string, lane int) string {
	return fmt.Sprintf("%016x", xxh3.HashString(fmt.Sprintf("%s\x00lane %d", repository, lane)))
}

// A place where a stream goes.
type place struct {
	address address
	// Of whom its certificate has to be, if a front has said so.
	name        string
	isPastFront bool
}

// A route is which worker the streams of one lane go to: the shard key, workers to avoid, and the way past a front.
type route struct {
	key      string
	proof    *proof
	pace     *pace
	isDirect bool
	avoided  []string
	// Streams past the front that came to nothing, without a reason of kerf's, one behind the other (ROU-8).
	lostWithoutWord int
	isDetour        bool
	// Where the worker is that has the stream. Its name says less: one that was started anew elsewhere has the same.
	worker address
}

func newRoute(settings *settings, proof *proof, lane int) *route {
	return &route{key: shardKey(settings.repository, lane), proof: proof, pace: settings.pace, isDirect: settings.isDirect}
}

func (r *route) metadata(to address) (metadata.MD, error) {
	found, err := r.proof.metadata(to)
	if err != nil {
		return nil, err
	}
	found.Set("kerf-shard-key", r.key)
	for _, worker := range r.avoided {
		found.Append("kerf-avoid-worker-bin", worker)
	}
	return found, nil
}

// choose: through the server, unless it is a front that names a worker which can be reached.
func (r *route) choose(ctx context.Context, server address) place {
	through := place{address: server}
	if !r.isDirect {
		return through
	}
	if r.isDetour {
		r.isDetour = false
		return through
	}
	located, found := r.locate(ctx, server)
	if !found || !meansTheSameHere(located.address, server) || !r.canBeReached(ctx, located) {
		return through
	}
	r.worker = located.address
	return located
}

// locate: what the front says. Nothing found: go through the server, which may be the worker itself.
func (r *route) locate(ctx context.Context, server address) (place, bool) {
	ctx, cancel := context.WithTimeout(ctx, r.pace.reach)
	defer cancel()
	connection, err := r.proof.connect(server, "", false)
	if err != nil {
		return place{}, false
	}
	sent, err := r.proof.metadata(server)
	if err != nil {
		return place{}, false
	}
	request := &kerfv1.LocateRequest{ShardKey: r.key}
	for _, worker := range r.avoided {
		request.Avoid = append(request.Avoid, []byte(worker))
	}
	answer := &kerfv1.LocateResponse{}
	if connection.Invoke(metadata.NewOutgoingContext(ctx, sent), locateMethod, request, answer) != nil {
		return place{}, false
	}
	located, err := parseAddress(answer.GetAddress())
	return place{located, answer.GetTlsName(), true}, err == nil && len(answer.GetTlsName()) <= maxNameBytes
}

// canBeReached: also whether its certificate is of whom the front says, or else of the host of its address.
func (r *route) canBeReached(ctx context.Context, to place) bool {
	ctx, cancel := context.WithTimeout(ctx, r.pace.reach)
	defer cancel()
	connection, err := r.proof.connect(to.address, to.name, true)
	if err != nil {
		// A token that may not be shown there is shown to the front.
		return false
	}
	connection.Connect()
	for state := connection.GetState(); state != connectivity.Ready; state = connection.GetState() {
		if !connection.WaitForStateChange(ctx, state) {
			r.proof.forget(connection)
			return false
		}
		if state == connectivity.Idle {
			connection.Connect()
		}
	}
	return true
}

// hasMoved: whether another worker has the key by now.
func (r *route) hasMoved(ctx context.Context, server address) bool {
	located, found := r.locate(ctx, server)
	return found && located.address != r.worker
}

// What became of streams.

func (r *route) answered() {
	r.avoided = nil
	r.lostWithoutWord = 0
}

func (r *route) lost(failed *failure, worker string, isPastFront, wasOpened, wasAnswered bool) {
	name := failed.Worker
	if name == "" {
		name = worker
	}
	// A longer one no worker has, and with it no server would take the call.
	isName := name != "" && len(name) <= maxNameBytes
	if isName && (avoidedReasons[failed.Reason] || failed.isSilence) && !slices.Contains(r.avoided, name) {
		r.avoided = append(r.avoided, name)
		r.avoided = r.avoided[max(0, len(r.avoided)-maxAvoided):]
	}
	if !isPastFront || failed.Reason != "" || wasAnswered {
		r.lostWithoutWord = 0
		return
	}
	r.lostWithoutWord++
	if !wasOpened || r.lostWithoutWord >= 2 {
		r.isDetour = true
		r.lostWithoutWord = 0
	}
}

// meansTheSameHere: a front may name addresses that mean another machine here than there (ROU-8).
func meansTheSameHere(worker, server address) bool {
	if worker.isUnix() {
		return server.isUnix()
	}
	return !worker.isLoopback() || server.isUnix() || server.isLoopback()
}
