package kerf

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// servers of a client: tried in their order, from the one that served last.
type servers struct {
	addresses []address
	mutex     sync.Mutex
	// Whether any has answered yet: who has met nobody waits for nobody, for an address may be mistyped (CLI-15).
	isMet bool
	first int
}

func (s *servers) met(index int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.isMet = true
	s.first = index
}

// patience says when a call that failed is made again, where, and for how long. Of one upload, or one call.
type patience struct {
	servers  *servers
	retryFor time.Duration
	pace     *pace
	index    int
	tries    int
	// Time counts from the first failure behind the last progress: what the reader or the store took is not the server's
	// (CLI-12).
	failingSince time.Time
	once         map[string]bool
}

// A pace is how long things are waited for. Tests have others than the documents.
type pace struct {
	firstWait, longestWait time.Duration
	call, reach, askAgain  time.Duration
	finish                 time.Duration
	jitter                 func() float64
}

func defaultPace() *pace {
	return &pace{
		firstWait: 500 * time.Millisecond, longestWait: 20 * time.Second,
		// CLI-18.
		call: 120 * time.Second, reach: 3 * time.Second,
		// ROU-8.
		askAgain: 5 * time.Second,
		finish:   120 * time.Second,
		jitter:   func() float64 { return 0.5 + rand.Float64()/2 },
	}
}

func newPatience(servers *servers, retryFor time.Duration, pace *pace) *patience {
	servers.mutex.Lock()
	defer servers.mutex.Unlock()
	return &patience{servers: servers, retryFor: retryFor, pace: pace, index: servers.first, once: map[string]bool{}}
}

func (p *patience) server() address { return p.servers.addresses[p.index%len(p.servers.addresses)] }

// progress: a chunk was answered, or a call was (CLI-11).
func (p *patience) progress() {
	p.tries = 0
	p.failingSince = time.Time{}
}

// met: the server has answered: what follows begins with it.
func (p *patience) met() { p.servers.met(p.index % len(p.servers.addresses)) }

// next waits, and goes on to the next server; an error where there is no more to try.
func (p *patience) next(ctx context.Context, failed *failure) error {
	p.servers.mutex.Lock()
	// Only a kerfd has a reason.
	p.servers.isMet = p.servers.isMet || failed.Reason != ""
	isMet := p.servers.isMet
	p.servers.mutex.Unlock()
	if err := p.allow(failed); err != nil {
		return err
	}
	now := time.Now()
	if p.failingSince.IsZero() {
		p.failingSince = now
	}
	p.tries++
	if !isMet && p.tries >= len(p.servers.addresses) {
		return failed.err("no server has answered yet")
	}
	wait := p.wait(failed)
	if !isMet {
		// Each address is tried once, and nobody is waited for.
		wait = 0
	}
	if now.Add(wait).Sub(p.failingSince) > p.retryFor {
		return failed.err("given up after " + now.Sub(p.failingSince).Round(time.Millisecond).String())
	}
	p.index++
	return sleep(ctx, wait)
}

// wait: between half and all of 0.5 s, 1 s, 2 s and so on up to 20 s, and what the server asks for at least (PRO-61).
func (p *patience) wait(failed *failure) time.Duration {
	wait := p.pace.longestWait
	if doublings := p.tries - 1; doublings < 16 {
		wait = min(wait, p.pace.firstWait<<doublings)
	}
	return max(time.Duration(float64(wait)*p.pace.jitter()), failed.Delay)
}

// allow: an error for what is not to be tried again. Once is once for each upload and each reason (CLI-14).
func (p *patience) allow(failed *failure) error {
	switch failed.action {
	case actionFinal, actionBehind:
		return failed.err("")
	case actionOnce:
		if p.once[failed.Reason] {
			failed.action = actionFinal
			return failed.err("for the second time")
		}
		p.once[failed.Reason] = true
	}
	return nil
}

func sleep(ctx context.Context, wait time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
