// Package kerf uploads files to kerfd: kerfd cuts them where their content says so and says which chunks are new, the
// caller's store keeps those, and an upload returns once all of its file is durable there.
//
// Open makes a client, Client.Upload uploads a file, Client.Snapshot publishes files, Client.Collect deletes what no
// snapshot needs. What a client must do so that none of this loses a chunk is in kerf's docs/spec (protocol.md,
// collection.md, client.md); comments name the rules by their numbers: PRO-10, COL-2, CLI-1.
package kerf

// Version is kerf's.
const Version = "0.2.0-dev"
