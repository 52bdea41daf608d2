package kerf

import (
	"fmt"
	"net"
	"syscall"
)

// peerUser: of whoever listens at the other end (SO_PEERCRED).
func peerUser(socket net.Conn) (int, error) {
	unix, is := socket.(*net.UnixConn)
	if !is {
		return 0, fmt.Errorf("%T is no unix socket", socket)
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0, err
	}
	var found *syscall.Ucred
	var wrong error
	err = raw.Control(func(fd uintptr) {
		found, wrong = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || wrong != nil {
		return 0, fmt.Errorf("who listens there is not known: %v %v", err, wrong)
	}
	return int(found.Uid), nil
}
