package kerf

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// DefaultPort is kerfd's (PRO-1).
const DefaultPort = 7461

var bareHost = regexp.MustCompile(`^(\[[^\]\s]+\]|[^:/\[\]\s]+)$`)

// As old C libraries take them: 127.1, 0.
var shortLoopback = regexp.MustCompile(`^(127\.[0-9.]+|0[0-9.]*)$`)

// An address of a server: HOST:PORT or unix:PATH.
type address struct {
	text string
	// Of a socket.
	path string
	host string
}

// parseAddress takes HOST:PORT, HOST, [IPV6]:PORT, [IPV6] and unix:PATH (PRO-1, CLI-1).
func parseAddress(text string) (address, error) {
	if path, is := strings.CutPrefix(text, "unix:"); is {
		// unix:///tmp/s is the same as unix:/tmp/s.
		if strings.HasPrefix(path, "///") {
			path = path[2:]
		}
		if path == "" {
			return address{}, fmt.Errorf("kerf: a unix: address needs a path")
		}
		return address{text: text, path: path}, nil
	}
	if bareHost.MatchString(text) {
		text = fmt.Sprintf("%s:%d", text, DefaultPort)
	}
	host, port, err := net.SplitHostPort(text)
	number, wrong := strconv.ParseUint(port, 10, 16)
	if err != nil || wrong != nil || number == 0 || host == "" || strings.ContainsAny(host, "/[] \t\n") {
		return address{}, fmt.Errorf("kerf: %q is no address of a server: HOST:PORT or unix:PATH", text)
	}
	return address{text: text, host: host}, nil
}

func (a address) isUnix() bool { return a.path != "" }

func (a address) isLoopback() bool {
	ip := net.ParseIP(a.host)
	// Whoever connects to no address in particular meets his own machine.
	return a.host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) || shortLoopback.MatchString(a.host)
}
