//go:build unix

// Command interop is the Go client on a folder that client/python has, too: client/python/tests/interop_test.py asks it for one
// thing at a time.
//
//	interop FOLDER SERVER snapshot NAME   the bytes of standard input
//	interop FOLDER SERVER publish NAME    the same, but it stays pending
//	interop FOLDER SERVER restore NAME    to standard output
//	interop FOLDER SERVER collect         says what it did; "collect broken" ends behind the first chunk that it deletes
//	interop FOLDER SERVER lock            holds it until standard input ends
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	kerf "kerf/client/go"
	"kerf/client/go/folderstore"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "interop FOLDER SERVER ACTION [ARGUMENT]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], append(os.Args[4:], "")[0]); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

func run(folder, server, action, argument string) error {
	folderStore, err := folderstore.Open(folder, kerf.BLAKE3)
	if err != nil {
		return err
	}
	store := &breakable{Store: folderStore, isBroken: argument == "broken"}
	switch action {
	case "restore":
		return restore(folderStore, argument)
	case "lock":
		return lock(folderStore)
	}
	client, err := kerf.Open([]string{server}, "tests", store, &kerf.Options{Streams: 1, RetryFor: 20 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	switch action {
	case "snapshot", "publish":
		return backUp(client, folderStore, action, argument)
	case "collect":
		done, err := client.Collect(context.Background(), folderStore.Roots)
		if err == nil {
			fmt.Println(done.DeletedBytes, done.IsIndexBelieved, done.Epoch)
		}
		return err
	}
	return fmt.Errorf("%s: no such action", action)
}

// A breakable store breaks a collection off half-way, as a process does that dies.
type breakable struct {
	*folderstore.Store
	isBroken   bool
	hasDeleted bool
}

func (b *breakable) Delete(place kerf.Stored) error {
	if b.isBroken && b.hasDeleted {
		return errors.New("broken off")
	}
	b.hasDeleted = true
	return b.Store.Delete(place)
}

func backUp(client *kerf.Client, store *folderstore.Store, action, name string) error {
	recipe, err := client.Upload(context.Background(), bufio.NewReader(os.Stdin), []byte("file"))
	if err != nil {
		return err
	}
	fmt.Println(recipe.NewBytes)
	if action == "publish" {
		return store.Publish(name, kerf.EncodeRecipes([]*kerf.Recipe{recipe}))
	}
	return client.Snapshot(name, []*kerf.Recipe{recipe})
}

func restore(store *folderstore.Store, name string) error {
	recipes, err := store.Snapshot(name)
	if err != nil {
		return err
	}
	for _, recipe := range recipes {
		for data, err := range store.Restore(recipe) {
			if err != nil {
				return err
			}
			if _, err := os.Stdout.Write(data); err != nil {
				return err
			}
		}
	}
	return nil
}

func lock(store *folderstore.Store) error {
	unlock, err := store.Lock()
	if err != nil {
		return err
	}
	fmt.Println("locked")
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, unlock())
}
