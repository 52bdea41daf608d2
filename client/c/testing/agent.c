#include "client/c/testing/agent.h"

#include <stdlib.h>
#include <string.h>

#include "client/c/testing/check.h"

static void add(struct entry_list* list, const kerf_chunk* chunk, const uint8_t* locator,
                size_t locator_size) {
  if (list->count == list->capacity) {
    list->capacity = list->capacity == 0 ? 256 : 2 * list->capacity;
    list->entries = realloc(list->entries, list->capacity * sizeof *list->entries);
    list->bytes = realloc(list->bytes, list->capacity * sizeof *list->bytes);
    CHECK(list->entries != NULL && list->bytes != NULL);
  }
  memcpy(list->bytes[list->count], chunk->digest, chunk->digest_size);
  memcpy(list->bytes[list->count] + 32, locator, locator_size);
  list->entries[list->count].locator_size = locator_size;
  list->entries[list->count].length = chunk->length;
  ++list->count;
}

/* Once no more is added: until then the bytes may move. */
static const kerf_entry* entries_of(struct entry_list* list) {
  for (size_t index = 0; index < list->count; ++index) {
    list->entries[index].digest = list->bytes[index];
    list->entries[index].locator = list->bytes[index] + 32;
  }
  return list->entries;
}

static void clear(struct entry_list* list) {
  free(list->entries);
  free(list->bytes);
  *list = (struct entry_list){0};
}

static int on_chunk(void* user, const kerf_chunk* chunk) {
  struct agent* const agent = user;
  CHECK(chunk->struct_size >= sizeof *chunk);
  CHECK(chunk->length > 0 && chunk->data != NULL);
  CHECK((chunk->verdict == KERF_NEW) == (chunk->locator == NULL));
  struct stored_chunk* stored = chunk_store_find(&agent->store, chunk->digest, chunk->digest_size);
  if (chunk->verdict == KERF_DUPLICATE) {
    ++agent->duplicate_count;
    if (stored != NULL || agent->about_strange == TRUST) return 0;
    add(&agent->stale, chunk, chunk->locator, chunk->locator_size);
  } else {
    chunk->verdict == KERF_NEW ? ++agent->new_count : ++agent->unverified_count;
  }
  if (stored == NULL) {
    stored = chunk_store_put(&agent->store, chunk->digest, chunk->digest_size, chunk->data,
                             chunk->length);
  }
  add(&agent->pending, chunk, stored->locator, sizeof stored->locator);
  return 0;
}

static int on_commit(void* user, kerf_upload* upload) {
  struct agent* const agent = user;
  CHECK(upload == agent->upload);
  ++agent->commit_calls;
  CHECK_CODE(KERF_OK, kerf_upload_report_stale(upload, entries_of(&agent->stale),
                                               agent->stale.count, &error));
  CHECK_CODE(KERF_OK,
             kerf_upload_commit(upload, entries_of(&agent->pending), agent->pending.count, &error));
  agent->stale.count = agent->pending.count = 0;
  return 0;
}

static void on_recipe(void* user, const kerf_recipe* recipe) {
  struct agent* const agent = user;
  ++agent->recipe_count;
  free(agent->recipe_chunks);
  agent->recipe = *recipe;
  agent->recipe_chunks = calloc(recipe->chunk_count + 1, sizeof *recipe->chunks);
  CHECK(agent->recipe_chunks != NULL);
  if (recipe->chunk_count > 0) {
    memcpy(agent->recipe_chunks, recipe->chunks, recipe->chunk_count * sizeof *recipe->chunks);
  }
  agent->recipe.chunks = agent->recipe_chunks;
}

static void on_index_epoch(void* user, uint64_t epoch) {
  struct agent* const agent = user;
  agent->index_epoch = epoch;
}

static void on_notice(void* user, kerf_notice notice, const char* text) {
  struct agent* const agent = user;
  fprintf(stderr, "notice %d: %s\n", (int)notice, text);
  if (notice == KERF_NOTICE_LOST) ++agent->lost_count;
  if (notice == KERF_NOTICE_RESUMED) ++agent->resumed_count;
}

void agent_connect(struct agent* agent, const char* server, const char* repository,
                   kerf_digest digest) {
  kerf_client_options options = KERF_CLIENT_OPTIONS_INIT;
  options.servers = server;
  options.repository = repository;
  options.digest = digest;
  options.retry_for_ms = 30000;
  options.no_shared_memory = agent->no_shared_memory;
  CHECK_CODE(KERF_OK, kerf_client_open(&options, &agent->client, &error));
}

kerf_upload_options agent_options(struct agent* agent, uint64_t store_epoch) {
  kerf_upload_options options = KERF_UPLOAD_OPTIONS_INIT;
  options.store_epoch = store_epoch;
  options.user = agent;
  options.on_chunk = on_chunk;
  options.on_commit = on_commit;
  options.on_recipe = on_recipe;
  options.on_index_epoch = on_index_epoch;
  options.on_notice = on_notice;
  return options;
}

void agent_open(struct agent* agent, const kerf_upload_options* options) {
  agent->new_count = agent->duplicate_count = agent->unverified_count = 0;
  agent->commit_calls = agent->lost_count = agent->resumed_count = agent->recipe_count = 0;
  agent->index_epoch = 0;
  CHECK_CODE(KERF_OK, kerf_upload_open(agent->client, options, &agent->upload, &error));
  CHECK_CODE(KERF_OK, kerf_upload_wait_opened(agent->upload, &error));
}

void agent_finish(struct agent* agent) {
  CHECK_CODE(KERF_OK, kerf_upload_finish(agent->upload, &error));
  kerf_totals totals = KERF_TOTALS_INIT;
  CHECK_CODE(KERF_OK, kerf_upload_totals_of(agent->upload, &totals, &error));
  CHECK(totals.pending_count == 0);
  CHECK(totals.untold_count == 0);
  CHECK(totals.chunk_count == agent->new_count + agent->duplicate_count + agent->unverified_count);
  CHECK(totals.resume_count == agent->resumed_count);
  CHECK(kerf_upload_free(agent->upload) == KERF_OK);
  agent->upload = NULL;
}

void agent_check_recipe(const struct agent* agent, const uint8_t* content, size_t size) {
  CHECK(agent->recipe.size == size);
  size_t position = 0;
  for (size_t index = 0; index < agent->recipe.chunk_count; ++index) {
    const kerf_recipe_chunk* const chunk = &agent->recipe.chunks[index];
    const struct stored_chunk* const stored = chunk_store_find(&agent->store, chunk->digest, 32);
    CHECK(stored != NULL && stored->length == chunk->length);
    CHECK(position + chunk->length <= size);
    CHECK(memcmp(stored->data, content + position, chunk->length) == 0);
    position += chunk->length;
  }
  CHECK(position == size);
}

void agent_end(struct agent* agent) {
  kerf_client_free(agent->client);
  chunk_store_clear(&agent->store);
  clear(&agent->pending);
  clear(&agent->stale);
  free(agent->recipe_chunks);
  *agent = (struct agent){0};
}

uint8_t* random_content(uint64_t seed, size_t size) {
  uint8_t* const content = malloc(size + 8);
  CHECK(content != NULL);
  /* xorshift64*, which is 0 for ever from 0. */
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (size_t position = 0; position < size; position += 8) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    const uint64_t value = state * 0x2545F4914F6CDD1Du;
    memcpy(content + position, &value, sizeof value);
  }
  return content;
}

int64_t read_source(void* user, void* buffer, size_t size) {
  struct source* const source = user;
  const size_t left = source->size - source->position;
  if (size > left) size = left;
  if (source->piece != 0 && size > source->piece) size = source->piece;
  if (size > 0) memcpy(buffer, source->content + source->position, size);
  source->position += size;
  return (int64_t)size;
}
