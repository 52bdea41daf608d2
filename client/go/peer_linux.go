package kerf

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
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

// mayBeAnybody: whether this is the number by which a user namespace names all users that have none in it
// (user_namespaces(7)); also where nobody can tell whether there are such users.
func mayBeAnybody(user int) bool {
	overflow, _ := os.ReadFile("/proc/sys/kernel/overflowuid")
	users, _ := os.ReadFile("/proc/self/uid_map")
	return isNumberOfMany(user, string(overflow), string(users))
}

func isNumberOfMany(user int, overflow, users string) bool {
	number, err := strconv.Atoi(strings.TrimSpace(overflow))
	if err != nil {
		number = 65534
	}
	return user == number && strings.Join(strings.Fields(users), " ") != "0 0 4294967295"
}
