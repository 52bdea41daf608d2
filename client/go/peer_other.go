//go:build !linux

package kerf

import (
	"errors"
	"net"
)

func peerUser(net.Conn) (int, error) {
	return 0, errors.New("this system does not say who listens at a socket: a token goes over TLS")
}

func mayBeAnybody(int) bool { return true }
