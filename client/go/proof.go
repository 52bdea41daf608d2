package kerf

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
)

// TLS is how a server is believed, and how this client proves itself. Files (PEM) are read for each connection, so that
// new ones count.
type TLS struct {
	// CAFile: certificates of whoever signs for servers; empty: those of the system.
	CAFile string
	// CertFile and KeyFile are the client's own, if it has one.
	CertFile string
	KeyFile  string
	// Name in the server's certificate, if it is not its host.
	Name string
}

// A TokenSource gives the token of each call.
type TokenSource func() (string, error)

// TokenFile reads a token from a regular file, for each call. Where that cannot be read, or is being written, the last one
// counts.
func TokenFile(path string) TokenSource {
	var mutex sync.Mutex
	last := ""
	return func() (string, error) {
		token, err := readToken(path)
		mutex.Lock()
		defer mutex.Unlock()
		if err == nil {
			last = token
		}
		if last != "" {
			return last, nil
		}
		return "", err
	}
}

func readToken(path string) (string, error) {
	// Of a pipe whoever opens it would wait, and the token would be read once.
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	body, err := io.ReadAll(io.LimitReader(file, maxTokenBytes+3)) // And the end of a line.
	if err != nil {
		return "", err
	}
	token := strings.TrimRight(string(body), "\r\n")
	return token, checkToken(token)
}

// checkToken: what no header can carry is said, and not the token.
func checkToken(token string) error {
	isVisible := func(character rune) bool { return character > ' ' && character <= '~' }
	if token == "" || len(token) > maxTokenBytes || strings.ContainsFunc(token, func(c rune) bool { return !isVisible(c) }) {
		return errors.New("a token is one line of visible characters, 8 KiB at most, and this is none")
	}
	return nil
}

// Token is the same always.
func Token(token string) TokenSource { return func() (string, error) { return token, nil } }

const (
	// Of one answer: 2 MiB at most (PRO-71), and what LookupChunks answers to 16,384 entries.
	maxAnswerBytes = 4 << 20
	// PRO-5.
	pingEvery = 40 * time.Second
	pingFor   = 20 * time.Second
	// Of a connection that cannot be made: its next try. How long a client waits is its patience's affair.
	dialAgainAfter = 50 * time.Millisecond
	dialFor        = 20 * time.Second
	// access.md.
	maxTokenBytes = 8 << 10
)

// A proof is how a client connects, and says who it is. One connection for all streams to one address (PRO-6).
type proof struct {
	tls        *TLS
	token      TokenSource
	serverUser int
	options    []grpc.DialOption
	// mayBeAnybody of the system, unless a test says otherwise.
	mayBeAnybody func(user int) bool

	mutex       sync.Mutex
	connections map[string]*connection
	isClosed    bool
}

// A connection of one address and name.
type connection struct {
	*grpc.ClientConn
	// Why it was not made though there is somebody: not to be tried again.
	refusal atomic.Pointer[Refused]
}

func newProof(options *Options) *proof {
	return &proof{tls: options.TLS, token: options.Token, serverUser: options.ServerUser, options: options.Dial,
		mayBeAnybody: mayBeAnybody, connections: map[string]*connection{}}
}

func (p *proof) close() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.isClosed = true
	for _, connection := range p.connections {
		_ = connection.Close()
	}
	clear(p.connections)
}

// mayShowToken: never in the clear (access.md); who listens at a socket is looked at as it is connected to.
func (p *proof) mayShowToken(to address) error {
	if p.token != nil && p.tls == nil && !to.isUnix() {
		return newRefused("kerf: " + to.text + ": a token is shown over TLS or a unix socket alone")
	}
	return nil
}

// connect: `name`, if any, is what the certificate has to be of instead of TLS.Name or the host.
func (p *proof) connect(to address, name string, isWorker bool) (*connection, error) {
	if err := p.mayShowToken(to); err != nil {
		return nil, err
	}
	if name == "" && !isWorker && p.tls != nil {
		name = p.tls.Name
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.isClosed {
		return nil, errClosed
	}
	key := to.text + "\x00" + name
	if there := p.connections[key]; there != nil {
		return there, nil
	}
	made := &connection{}
	// PRO-70 needs no option: nothing is compressed unless it is asked for.
	options := []grpc.DialOption{
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		// A proxy of the environment is meant for web pages (CLI-32).
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingFor}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: dialAgainAfter, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: dialFor}),
		// So that a connection without calls ends where the server says so (PRO-6), and not before.
		grpc.WithIdleTimeout(0),
	}
	target := "dns:///" + to.text
	switch {
	case to.isUnix():
		target = "passthrough:///localhost"
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.dialSocket(ctx, to, made) }))
	case p.tls == nil:
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	default:
		options = append(options, grpc.WithTransportCredentials(&freshTLS{tls: p.tls, name: name}))
	}
	client, err := grpc.NewClient(target, append(options, p.options...)...)
	if err != nil {
		return nil, newRefused(fmt.Sprintf("kerf: %s: %v", to.text, err))
	}
	made.ClientConn = client
	p.connections[key] = made
	return made, nil
}

// forget: gRPC would try to reach it for ever, and a front names others each time.
func (p *proof) forget(gone *connection) {
	p.mutex.Lock()
	for key, there := range p.connections {
		if there == gone {
			delete(p.connections, key)
		}
	}
	p.mutex.Unlock()
	_ = gone.Close()
}

// dialSocket: a token is shown to root, to the client's own user, and to whom that has named (CLI-27), of the very
// connection that it goes over.
func (p *proof) dialSocket(ctx context.Context, to address, made *connection) (net.Conn, error) {
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, "unix", to.path)
	if err != nil || p.token == nil {
		return socket, err
	}
	user, err := peerUser(socket)
	if err == nil && p.mayBeAnybody(user) {
		err = fmt.Errorf("user %d listens there, by whom this user namespace names all users that have no number in it: "+
			"nobody can tell who that is, and the token is not shown", user)
	}
	if err == nil && user != 0 && user != os.Geteuid() && user != p.serverUser {
		err = fmt.Errorf("user %d listens there, and is not shown the token of user %d", user, os.Geteuid())
	}
	if err != nil {
		_ = socket.Close()
		made.refusal.Store(newRefused("kerf: " + to.text + ": " + err.Error()))
		return nil, err
	}
	made.refusal.Store(nil)
	return socket, nil
}

// metadata of one call: its id (PRO-67), and the token.
func (p *proof) metadata(to address) (metadata.MD, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	found := metadata.MD{"kerf-request-id": {hex.EncodeToString(id)}}
	if p.token == nil {
		return found, nil
	}
	if err := p.mayShowToken(to); err != nil {
		return nil, err
	}
	token, err := p.token()
	if err == nil {
		err = checkToken(token)
	}
	if err != nil {
		return nil, fmt.Errorf("kerf: no token: %w", err)
	}
	found.Set("authorization", "Bearer "+token)
	return found, nil
}

// freshTLS reads its files at each handshake.
type freshTLS struct {
	tls  *TLS
	name string
}

func (f *freshTLS) config() (*tls.Config, error) {
	// PRO-2.
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: f.name}
	if f.tls.CAFile != "" {
		body, err := os.ReadFile(f.tls.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(body) {
			return nil, fmt.Errorf("%s has no certificate", f.tls.CAFile)
		}
	}
	if f.tls.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(f.tls.CertFile, f.tls.KeyFile)
		if err != nil {
			return nil, err
		}
		// Always, not only where a server names the CA as one of its own: it then says what is wrong.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config, nil
}

func (f *freshTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := f.config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, raw)
}

func (f *freshTLS) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("kerf: no server")
}

func (f *freshTLS) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls", ServerName: f.name}
}

func (f *freshTLS) Clone() credentials.TransportCredentials { return &freshTLS{f.tls, f.name} }

func (f *freshTLS) OverrideServerName(name string) error {
	f.name = name
	return nil
}
