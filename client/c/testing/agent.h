/* A backup program in small: what it does about each chunk, and what it was told. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/c/kerf.h"
#include "client/c/testing/chunk_store.h"

struct agent {
  struct chunk_store store;
  kerf_client* client;
  /* Of kerf_client_options. */
  int32_t no_shared_memory;
  kerf_upload* upload;
  /* What it does about a DUPLICATE that its store has not. */
  enum { TRUST, REPORT } about_strange;
  /* Of on_chunk. */
  size_t new_count;
  size_t duplicate_count;
  size_t unverified_count;
  size_t commit_calls;
  size_t lost_count;
  size_t resumed_count;
  uint64_t index_epoch;
  /* Of the last recipe, and how many there were. */
  kerf_recipe recipe;
  kerf_recipe_chunk* recipe_chunks;
  size_t recipe_count;
  /* To be committed, and reported. */
  struct entry_list {
    kerf_entry* entries;
    uint8_t (*bytes)[32 + KERF_MAX_LOCATOR_SIZE];
    size_t count;
    size_t capacity;
  } pending, stale;
};

/* With a client of its own; the store is kept from one upload to the next. */
void agent_connect(struct agent* agent, const char* server, const char* repository,
                   kerf_digest digest);
/* The options of an upload, with the agent's callbacks. */
kerf_upload_options agent_options(struct agent* agent, uint64_t store_epoch);
void agent_open(struct agent* agent, const kerf_upload_options* options);
/* Finishes, and frees the upload. */
void agent_finish(struct agent* agent);
/* That the last recipe is that content, by what the store has. */
void agent_check_recipe(const struct agent* agent, const uint8_t* content, size_t size);
void agent_end(struct agent* agent);

/* Bytes that are the same for the same seed. */
uint8_t* random_content(uint64_t seed, size_t size);

/* A source for kerf_upload_send_file. */
struct source {
  const uint8_t* content;
  size_t size;
  size_t position;
  /* At most so many at a time; 0: as many as there is room for. */
  size_t piece;
};
int64_t read_source(void* source, void* buffer, size_t size);
