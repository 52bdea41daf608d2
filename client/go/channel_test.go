package kerf

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"kerf/client/go/kerfv1"
)

func TestAddressForms(t *testing.T) {
	for text, wanted := range map[string]address{
		"host:1":         {text: "host:1", host: "host"},
		"host":           {text: "host:7461", host: "host"},
		"127.0.0.1":      {text: "127.0.0.1:7461", host: "127.0.0.1"},
		"[::1]:80":       {text: "[::1]:80", host: "::1"},
		"[::1]":          {text: "[::1]:7461", host: "::1"},
		"unix:/tmp/s":    {text: "unix:/tmp/s", path: "/tmp/s"},
		"unix:///tmp/s":  {text: "unix:///tmp/s", path: "/tmp/s"},
		"unix:s":         {text: "unix:s", path: "s"},
		"unix://tmp/s":   {text: "unix://tmp/s", path: "//tmp/s"},
		"a-b.c.d_e:7461": {text: "a-b.c.d_e:7461", host: "a-b.c.d_e"},
	} {
		is, err := parseAddress(text)
		if err != nil || is != wanted {
			t.Errorf("%s: %+v, %v", text, is, err)
		}
	}
	for _, text := range []string{"", "unix:", ":1", "h:", "h:0", "h:65536", "h:-1", "h:x", "a b:1", "::1", "http://h", "h/p", "[::1", "dns:h:1", "a:b:1"} {
		if is, err := parseAddress(text); err == nil {
			t.Errorf("%q is taken for %+v", text, is)
		}
	}
}

func TestShardKeysAreThoseOfTheSpecification(t *testing.T) {
	equal(t, "lane 0 of home", shardKey("home", 0), "fc6e2038dd48d4c2")
}

func TestAddressesThatMeanAnotherMachineHereThanThere(t *testing.T) {
	for _, test := range []struct {
		worker, server string
		same           bool
	}{
		{"unix:/w", "unix:/f", true}, {"unix:/w", "127.0.0.1:1", false}, {"127.0.0.1:2", "unix:/f", true},
		{"127.0.0.1:2", "127.0.0.2:1", true}, {"127.0.0.1:2", "front:1", false}, {"localhost:2", "front:1", false},
		{"[::1]:2", "10.0.0.1:1", false}, {"10.0.0.2:2", "front:1", true},
		// Whoever connects to no address in particular meets his own machine.
		{"0.0.0.0:2", "front:1", false}, {"[::]:2", "front:1", false}, {"0:2", "front:1", false}, {"127.1:2", "front:1", false},
	} {
		worker, _ := parseAddress(test.worker)
		server, _ := parseAddress(test.server)
		equal(t, test.worker+" of "+test.server, meansTheSameHere(worker, server), test.same)
	}
}

// Tokens.

func TestTokenGoesNeverInTheClear(t *testing.T) {
	w := newWorld(t)
	if _, err := Open([]string{"host:1"}, "r", w.store, &Options{Token: Token("t")}); err == nil {
		t.Fatal("it would")
	}
	proof := newProof(&Options{Token: Token("t")})
	to, _ := parseAddress("host:1")
	if _, err := proof.connect(to, "", true); err == nil {
		t.Error("it would, to a worker")
	}
	if _, err := proof.metadata(to); err == nil {
		t.Error("it would, in a call")
	}
}

func TestTokenGoesToAUsersOwnSocketAndIsAskedForEachTime(t *testing.T) {
	w := newWorld(t)
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = w.fake.server.Serve(listener) }()
	asked := 0
	client, err := open([]string{"unix:" + socket}, "tests", w.store, &Options{Digest: SHA256, Streams: 1, Token: func() (string, error) {
		asked++
		return "kerf_one_" + string(rune('0'+asked)), nil
	}}, fast())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	w.fake.faults[moment{"data", 1}] = kill
	w.upload(client, fileData)
	for number, wanted := range []string{"Bearer kerf_one_1", "Bearer kerf_one_2"} {
		equal(t, "token", w.fake.metadata[number].Get("authorization")[0], wanted)
	}
}

func TestTokenThatCannotBeReadIsAnError(t *testing.T) {
	w := newWorld(t)
	client := w.openAt([]string{"unix:" + filepath.Join(t.TempDir(), "s")}, w.store, func(o *Options) {
		o.Token = TokenFile(filepath.Join(t.TempDir(), "none"))
	})
	if _, err := client.Upload(context.Background(), reader(fileData), nil); err == nil {
		t.Fatal("without a token")
	}
}

func TestTokenThatIsNoneIsSaidAndNotShown(t *testing.T) {
	to, _ := parseAddress("unix:/s")
	for _, bad := range []string{"", "a secret", "secret\nmore", "s\u00e9cret", strings.Repeat("secret", 1366)} {
		_, err := newProof(&Options{Token: Token(bad)}).metadata(to)
		if err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
	if _, err := newProof(&Options{Token: Token(strings.Repeat("t", 8<<10))}).metadata(to); err != nil {
		t.Error(err)
	}
}

func TestTokenFileGivesTheLastOneWhileItIsWrittenAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	source := TokenFile(path)
	if token, err := source(); err == nil {
		t.Errorf("%q", token)
	}
	for _, step := range []struct{ body, wanted string }{{"one\r\n", "one"}, {"", "one"}, {"two words", "one"}, {"two", "two"}} {
		if err := os.WriteFile(path, []byte(step.body), 0o600); err != nil {
			t.Fatal(err)
		}
		token, err := source()
		if err != nil || token != step.wanted {
			t.Errorf("%q: %q, %v", step.body, token, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if token, err := source(); err != nil || token != "two" {
		t.Errorf("%q, %v", token, err)
	}
}

// A proxy of the environment is never one of a loopback address: the server is one that nobody has (RFC 5737).
func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	asked := make(chan struct{}, 1)
	go func() {
		for {
			proxied, err := listener.Accept()
			if err != nil {
				return
			}
			select {
			case asked <- struct{}{}:
			default:
			}
			_ = proxied.Close()
		}
	}()
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		t.Setenv(name, "http://"+listener.Addr().String())
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	proof := newProof(&Options{})
	defer proof.close()
	to, _ := parseAddress("0.0.0.0:1")
	connection, err := proof.connect(to, "", false)
	if err != nil {
		t.Fatal(err)
	}
	connection.Connect()
	select {
	case <-asked:
		t.Error("a proxy was asked for the way")
	case <-time.After(500 * time.Millisecond):
	}
}

func TestPingsAreSentAndNotTooOften(t *testing.T) { // PRO-5, CLI-4.
	equal(t, "a ping", pingEvery, 40*time.Second)
	equal(t, "its answer", pingFor, 20*time.Second)
}

func TestARefusalOfASocketIsFinal(t *testing.T) {
	// As dialSocket leaves it, where another user listens.
	connection := &connection{}
	connection.refusal.Store(newRefused("user 7 listens there"))
	made := &stream{changed: make(chan struct{}, 1)}
	made.isOver, made.failed = true, failureOf(errors.New("unavailable"), "unix:s")
	made.refuse(connection)
	equal(t, "action", made.failed.action, actionFinal)
	failsWith[*Refused](t, made.failed.err(""), "user 7")
}

// Straight to a worker (ROU-8).

func direct(o *Options) { o.Direct = true }

func TestDirectPastTheFront(t *testing.T) {
	w := newWorld(t)
	worker := newFake(t, w.log)
	w.watch(worker)
	w.fake.located = &kerfv1.LocateResponse{Worker: "one", Address: worker.name}
	w.isWhole(w.upload(w.open(direct), fileData), fileData)
	equal(t, "streams of the front", len(w.fake.opens), 0)
	equal(t, "streams of the worker", len(worker.opens), 1)
}

func TestDirectAServerWithoutTheServiceIsTheWorker(t *testing.T) {
	w := newWorld(t)
	w.upload(w.open(direct), fileData)
	equal(t, "streams", len(w.fake.opens), 1)
}

func TestDirectWhereNobodyIs(t *testing.T) {
	w := newWorld(t)
	for _, located := range []string{"127.0.0.1:9", "nonsense of a front", "unix:/tmp/elsewhere"} {
		w.fake.located = &kerfv1.LocateResponse{Worker: "one", Address: located}
		began := time.Now()
		client := w.open(direct)
		w.upload(client, fileData)
		if time.Since(began) > 30*time.Second {
			t.Error(located, time.Since(began))
		}
		// Nobody tries on to reach it.
		equal(t, "connections", len(client.proof.connections), 1)
	}
	equal(t, "streams of the front", len(w.fake.opens), 3)
}

func TestDirectAWorkerThatOpensNothingCostsOneTry(t *testing.T) {
	w := newWorld(t)
	worker := newFake(t, w.log)
	w.watch(worker)
	worker.faults = manyFaults("open", kill, from1To(9)...)
	w.fake.located = &kerfv1.LocateResponse{Worker: "one", Address: worker.name}
	w.upload(w.open(direct), fileData)
	equal(t, "streams of the worker", len(worker.opens), 1)
	equal(t, "streams of the front", len(w.fake.opens), 1)
}

func TestDirectTwoStreamsThatCameToNothingAreADetour(t *testing.T) {
	w := newWorld(t)
	worker := newFake(t, w.log)
	w.watch(worker)
	worker.faults = manyFaults("data", kill, from1To(9)...)
	w.fake.located = &kerfv1.LocateResponse{Worker: "one", Address: worker.name}
	w.upload(w.open(direct), fileData)
	equal(t, "streams of the worker", len(worker.opens), 2)
	equal(t, "streams of the front", len(w.fake.opens), 1)
	// One that ended with a reason is none of them.
	again := newWorld(t)
	worker = newFake(t, again.log)
	again.watch(worker)
	worker.faults = manyFaults("data", fails(codes.Unavailable, "IDLE_EVICTED"), 1, 2, 3)
	again.fake.located = &kerfv1.LocateResponse{Worker: "one", Address: worker.name}
	again.upload(again.open(direct), fileData)
	equal(t, "streams of the worker", len(worker.opens), 4)
	equal(t, "streams of the front", len(again.fake.opens), 0)
}

func TestDirectASilentWorkerIsLeftForTheOneThatHasTheKey(t *testing.T) {
	w := newWorld(t)
	first, second := newFake(t, w.log), newFake(t, w.log)
	w.watch(second)
	first.isDurable = w.store.isDurable
	w.fake.located = &kerfv1.LocateResponse{Worker: "one", Address: first.name}
	first.faults[moment{"data", 1}] = func(s *fakeStream) error {
		// The name is that of before: it was started anew elsewhere.
		w.do(func(fake *fake) { fake.located = &kerfv1.LocateResponse{Worker: "one", Address: second.name} })
		return silence(s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	recipe, err := w.open(direct, func(o *Options) { o.Silence = time.Hour }).Upload(ctx, reader(fileData), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.isWhole(recipe, fileData)
	equal(t, "streams of the second", len(second.opens), 1)
}
