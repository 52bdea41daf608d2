package kerf

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"kerf/client/go/kerfv1"
)

const (
	indexService = "/kerf.v1.IndexService/"
	// 65,536 are allowed, and do not fit into a message with the longest locators (PRO-71).
	entriesOfCall = 16_384
)

// An index is the Index service for one repository. All calls may be made twice, and are (COL-59).
type index struct {
	servers  *servers
	proof    *proof
	pace     *pace
	shardKey string
	ref      *kerfv1.RepositoryRef
}

func (i *index) commit(ctx context.Context, epoch uint64, places []Stored, retryFor time.Duration) error {
	for batch := range slices.Chunk(places, entriesOfCall) {
		request := &kerfv1.CommitChunksRequest{Repository: i.ref, StoreEpoch: epoch}
		for _, place := range batch {
			request.Entries = append(request.Entries, &kerfv1.IndexEntry{
				Digest: place.Digest, LengthBytes: uint32(place.Length), Locator: place.Locator})
		}
		if err := i.call(ctx, "CommitChunks", request, &kerfv1.CommitChunksResponse{}, retryFor); err != nil {
			return err
		}
	}
	return nil
}

func (i *index) epoch(ctx context.Context, retryFor time.Duration) (uint64, error) {
	answer := &kerfv1.GetIndexStatsResponse{}
	err := i.call(ctx, "GetIndexStats", &kerfv1.GetIndexStatsRequest{Repository: i.ref}, answer, retryFor)
	return answer.GetEpoch(), err
}

// forget: whatever their locators are (COL-52); at most entriesOfCall.
func (i *index) forget(ctx context.Context, digests [][]byte, retryFor time.Duration) (*kerfv1.ForgetChunksResponse, error) {
	request := &kerfv1.ForgetChunksRequest{Repository: i.ref}
	for _, digest := range digests {
		request.Entries = append(request.Entries, &kerfv1.IndexEntry{Digest: digest})
	}
	answer := &kerfv1.ForgetChunksResponse{}
	return answer, i.call(ctx, "ForgetChunks", request, answer, retryFor)
}

func (i *index) forgetOlder(ctx context.Context, before uint64, after []byte, retryFor time.Duration) (*kerfv1.ForgetOlderChunksResponse, error) {
	request := &kerfv1.ForgetOlderChunksRequest{Repository: i.ref, BeforeEpoch: before, After: after, Limit: entriesOfCall}
	answer := &kerfv1.ForgetOlderChunksResponse{}
	return answer, i.call(ctx, "ForgetOlderChunks", request, answer, retryFor)
}

// advance: the epoch that it had; less than `minPrevious`: it has it still.
func (i *index) advance(ctx context.Context, epoch, minPrevious uint64, retryFor time.Duration) (uint64, error) {
	request := &kerfv1.AdvanceEpochRequest{Repository: i.ref, StoreEpoch: epoch, MinPreviousEpoch: minPrevious}
	answer := &kerfv1.AdvanceEpochResponse{}
	err := i.call(ctx, "AdvanceEpoch", request, answer, retryFor)
	return answer.GetPreviousEpoch(), err
}

func (i *index) call(ctx context.Context, method string, request, answer proto.Message, retryFor time.Duration) error {
	patience := newPatience(i.servers, retryFor, i.pace)
	for {
		failed, err := i.try(ctx, patience.server(), method, request, answer)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("kerf: %s was given up: %w", method, ctx.Err())
		case err != nil:
			return err
		case failed == nil:
			patience.met()
			return nil
		}
		if err := patience.next(ctx, failed); err != nil {
			return err
		}
	}
}

func (i *index) try(ctx context.Context, server address, method string, request, answer proto.Message) (*failure, error) {
	connection, err := i.proof.connect(server, "", false)
	if err != nil {
		return nil, err
	}
	sent, err := i.proof.metadata(server)
	if err != nil {
		return nil, err
	}
	sent.Set("kerf-shard-key", i.shardKey)
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, sent), i.pace.call) // CLI-18.
	defer cancel()
	err = connection.Invoke(ctx, indexService+method, request, answer)
	if err == nil {
		return nil, nil
	}
	failed := failureOf(err, server.text)
	if refusal := connection.refusal.Load(); refusal != nil && failed.Reason == "" {
		return nil, refusal
	}
	return failed, nil
}
