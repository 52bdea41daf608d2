/* Loads a libkerf by its path, opens a client with it, and lets it go: loads LIBRARY. gRPC's
 * threads go on behind that, and the end of the process has to find them well. */
#include <dlfcn.h>
#include <kerf.h>
#include <stdio.h>

static void* found(void* library, const char* name) {
  void* const address = dlsym(library, name);
  if (address == NULL) fprintf(stderr, "%s\n", dlerror());
  return address;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
    return 2;
  }
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  /* C has no pointer that is both an object's and a function's. */
  union {
    void* address;
    const char* (*call)(void);
  } version = {found(library, "kerf_version")};
  union {
    void* address;
    kerf_code (*call)(const kerf_client_options*, kerf_client**, kerf_error**);
  } open = {found(library, "kerf_client_open")};
  union {
    void* address;
    kerf_code (*call)(kerf_client*, uint64_t, const uint8_t*, size_t, kerf_lookup_answer*,
                      uint64_t*, kerf_error**);
  } lookup = {found(library, "kerf_client_lookup")};
  union {
    void* address;
    void (*call)(kerf_client*);
  } end = {found(library, "kerf_client_free")};
  if (!version.address || !open.address || !lookup.address || !end.address) return 1;
  puts(version.call());
  kerf_client_options options = KERF_CLIENT_OPTIONS_INIT;
  /* Nobody listens there: what it tries to reach starts gRPC's threads. */
  options.servers = "unix:/nonexistent/kerfd.sock";
  options.repository = "example";
  options.retry_for_ms = 1;
  kerf_client* client = NULL;
  if (open.call(&options, &client, NULL) != KERF_OK) return 1;
  const uint8_t digest[32] = {0};
  kerf_lookup_answer answer;
  if (lookup.call(client, 1, digest, 1, &answer, NULL, NULL) != KERF_RETRYABLE) return 1;
  end.call(client);
  return dlclose(library) == 0 ? 0 : 1;
}
