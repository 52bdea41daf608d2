/* Uploads a file twice, and prints what was new: upload_twice SERVER FILE. The chunks are kept in
 * memory; a store of your own is the three places that say so. */
#include <kerf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
  kerf_entry* pending;
  size_t pending_count;
  unsigned long long new_bytes;
};

static int on_chunk(void* user, const kerf_chunk* chunk) {
  struct run* const run = user;
  if (chunk->verdict == KERF_DUPLICATE)
    return 0; /* Look whether the store has it; else report it stale. */
  kerf_entry* const grown = realloc(run->pending, (run->pending_count + 1) * sizeof *grown);
  if (grown == NULL) return 1;
  run->pending = grown;
  uint8_t* const kept = malloc(32 + sizeof(unsigned long long));
  if (kept == NULL) return 1;
  memcpy(kept, chunk->digest, chunk->digest_size);
  /* Store chunk->data here. The locator says where. */
  memcpy(kept + 32, &run->new_bytes, sizeof run->new_bytes);
  run->pending[run->pending_count++] =
      (kerf_entry){kept, kept + 32, sizeof run->new_bytes, chunk->length};
  run->new_bytes += chunk->length;
  return 0;
}

static void forget_pending(struct run* run) {
  for (size_t index = 0; index < run->pending_count; ++index)
    free((void*)run->pending[index].digest);
  run->pending_count = 0;
}

static int on_commit(void* user, kerf_upload* upload) {
  struct run* const run = user;
  /* Sync the store here: data, names, folders. Only then may it be committed. */
  kerf_error* error = NULL;
  const kerf_code code = kerf_upload_commit(upload, run->pending, run->pending_count, &error);
  if (code != KERF_OK) fprintf(stderr, "commit: %s\n", kerf_error_message(error));
  kerf_error_free(error);
  forget_pending(run);
  return code == KERF_OK ? 0 : 1;
}

static void on_recipe(void* user, const kerf_recipe* recipe) {
  (void)user; /* Keep the recipe: it is how the file is put together again. */
  printf("%llu bytes in %zu chunks", (unsigned long long)recipe->size, recipe->chunk_count);
}

static int64_t read_file(void* user, void* buffer, size_t size) {
  const size_t count = fread(buffer, 1, size, user);
  return count == 0 && ferror((FILE*)user) ? -1 : (int64_t)count;
}

static kerf_code upload(kerf_client* client, const char* path, kerf_error** error) {
  FILE* const file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    return KERF_CALLBACK_FAILED;
  }
  struct run run = {NULL, 0, 0};
  kerf_upload_options options = KERF_UPLOAD_OPTIONS_INIT;
  options.store_epoch = 1; /* Nothing is ever deleted from this store. */
  options.user = &run;
  options.on_chunk = on_chunk;
  options.on_commit = on_commit;
  options.on_recipe = on_recipe;
  kerf_file_options name = KERF_FILE_OPTIONS_INIT;
  name.key = path;
  name.key_size = strlen(path);
  kerf_upload* stream = NULL;
  kerf_code code = kerf_upload_open(client, &options, &stream, error);
  if (code == KERF_OK) code = kerf_upload_send_file(stream, &name, read_file, file, error);
  if (code == KERF_OK) code = kerf_upload_finish(stream, error);
  kerf_upload_free(stream);
  if (code == KERF_OK) printf(", %llu new\n", run.new_bytes);
  /* Of an upload that has failed: it was committed to nobody. */
  forget_pending(&run);
  free(run.pending);
  fclose(file);
  return code;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s SERVER FILE\n", argv[0]);
    return 2;
  }
  kerf_client_options options = KERF_CLIENT_OPTIONS_INIT;
  options.servers = argv[1];
  options.repository = "example";
  kerf_client* client = NULL;
  kerf_error* error = NULL;
  kerf_code code = kerf_client_open(&options, &client, &error);
  for (int round = 0; round < 2 && code == KERF_OK; ++round) code = upload(client, argv[2], &error);
  if (code != KERF_OK) fprintf(stderr, "%s: %s\n", kerf_code_name(code), kerf_error_message(error));
  kerf_error_free(error);
  kerf_client_free(client);
  return code == KERF_OK ? 0 : 1;
}
