/* Chunks in memory, as a backup program's store has them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CHUNK_LOCATOR_SIZE 8

struct stored_chunk {
  uint8_t digest[32];
  uint8_t locator[CHUNK_LOCATOR_SIZE];
  uint32_t length;
  uint8_t* data;
};

struct chunk_store {
  /* In its locators, so that those of two stores differ. */
  uint32_t number;
  struct stored_chunk** chunks;
  size_t count;
  size_t capacity;
};

/* NULL: it is not there. */
struct stored_chunk* chunk_store_find(const struct chunk_store* store, const uint8_t* digest,
                                      size_t digest_size);
/* It is not there yet. */
struct stored_chunk* chunk_store_put(struct chunk_store* store, const uint8_t* digest,
                                     size_t digest_size, const void* data, uint32_t length);
void chunk_store_clear(struct chunk_store* store);
