package kerf

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// listenAs another user: what SO_PEERCRED says is of whoever has called listen, here one thread alone.
func listenAs(t *testing.T, path string, user int) net.Listener {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrUnix{Name: path})
	}
	if err != nil {
		t.Fatal(err)
	}
	keep := ^uintptr(0)
	if _, _, no := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uintptr(user), keep); no != 0 {
		t.Skip("only root can be somebody else:", no)
	}
	err = syscall.Listen(fd, 8)
	if _, _, no := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, 0, keep); no != 0 {
		panic(no)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func TestTokenFileThatIsAPipeIsNotWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := TokenFile(path)(); err == nil {
		t.Errorf("%q", token)
	}
}

func TestTokenIsNotShownToAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "s")
	listener := listenAs(t, path, 4711)
	go func() { _ = w.fake.server.Serve(listener) }()
	client, err := open([]string{"unix:" + path}, "tests", w.store, &Options{Digest: SHA256, Token: Token("kerf_one_x")}, fast())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Upload(context.Background(), reader(fileData), nil)
	failsWith[*Refused](t, err, "user 4711 listens there")
	w.do(func(fake *fake) { equal(t, "calls", len(fake.metadata), 0) })
	_, err = client.Collect(context.Background(), w.store.roots)
	failsWith[*Refused](t, err, "user 4711 listens there")
	// Unless he is named.
	named := w.openAt([]string{"unix:" + path}, w.store, func(o *Options) { o.Dial, o.Token, o.ServerUser = nil, Token("kerf_one_x"), 4711 })
	w.upload(named, fileData)
	w.do(func(fake *fake) {
		same(t, "shown", fake.metadata[0].Get("authorization"), []string{"Bearer kerf_one_x"})
	})
	// Without a token whoever listens may be asked.
	w.upload(w.openAt([]string{"unix:" + path}, w.store, func(o *Options) { o.Dial = nil }), fileData)
}

func TestTokenIsNotShownToWhoMayBeAnybody(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = w.fake.server.Serve(listener) }()
	client, err := open([]string{"unix:" + path}, "tests", w.store, &Options{Digest: SHA256, Token: Token("kerf_one_x")}, fast())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	// The client's own user is one that is trusted otherwise.
	client.proof.mayBeAnybody = func(user int) bool { return user == os.Geteuid() }
	_, err = client.Upload(context.Background(), reader(fileData), nil)
	failsWith[*Refused](t, err, "the token is not shown")
	w.do(func(fake *fake) { equal(t, "calls", len(fake.metadata), 0) })
}

func TestWhoMayBeAnybody(t *testing.T) {
	for _, one := range []struct {
		user            int
		overflow, users string
		isMany          bool
	}{
		{65534, "65534\n", "         0          0 4294967295\n", false},
		{65534, "65534\n", "0 1000 1\n", true},
		{65534, "65534\n", "0 0 65536\n", true},
		{65534, "65534\n", "", true},
		{0, "65534\n", "0 1000 1\n", false},
		{99, "99\n", "0 1000 1\n", true},
		{65534, "99\n", "0 1000 1\n", false},
		{65534, "", "", true},
	} {
		equal(t, one.overflow+one.users, isNumberOfMany(one.user, one.overflow, one.users), one.isMany)
	}
}
