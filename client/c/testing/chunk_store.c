#include "client/c/testing/chunk_store.h"

#include <stdlib.h>
#include <string.h>

#include "client/c/testing/check.h"

/* Where the chunk is, or would be. */
static size_t place_of(const struct chunk_store* store, const uint8_t* digest) {
  size_t hash = 0;
  memcpy(&hash, digest, sizeof hash);
  size_t place = hash % store->capacity;
  while (store->chunks[place] != NULL &&
         memcmp(store->chunks[place]->digest, digest, sizeof store->chunks[place]->digest) != 0) {
    place = (place + 1) % store->capacity;
  }
  return place;
}

static void grow(struct chunk_store* store) {
  struct stored_chunk** const before = store->chunks;
  const size_t before_capacity = store->capacity;
  store->capacity = before_capacity == 0 ? 1024 : 4 * before_capacity;
  store->chunks = calloc(store->capacity, sizeof *store->chunks);
  CHECK(store->chunks != NULL);
  for (size_t place = 0; place < before_capacity; ++place) {
    if (before[place] != NULL)
      store->chunks[place_of(store, before[place]->digest)] = before[place];
  }
  free(before);
}

struct stored_chunk* chunk_store_find(const struct chunk_store* store, const uint8_t* digest,
                                      size_t digest_size) {
  uint8_t padded[32] = {0};
  memcpy(padded, digest, digest_size);
  return store->capacity == 0 ? NULL : store->chunks[place_of(store, padded)];
}

struct stored_chunk* chunk_store_put(struct chunk_store* store, const uint8_t* digest,
                                     size_t digest_size, const void* data, uint32_t length) {
  if (2 * (store->count + 1) > store->capacity) grow(store);
  struct stored_chunk* const chunk = calloc(1, sizeof *chunk);
  CHECK(chunk != NULL);
  memcpy(chunk->digest, digest, digest_size);
  const uint32_t index = (uint32_t)store->count;
  memcpy(chunk->locator, &store->number, sizeof store->number);
  memcpy(chunk->locator + sizeof index, &index, sizeof index);
  chunk->length = length;
  chunk->data = malloc(length);
  CHECK(chunk->data != NULL);
  memcpy(chunk->data, data, length);
  const size_t place = place_of(store, chunk->digest);
  CHECK(store->chunks[place] == NULL);
  store->chunks[place] = chunk;
  ++store->count;
  return chunk;
}

void chunk_store_clear(struct chunk_store* store) {
  for (size_t place = 0; place < store->capacity; ++place) {
    if (store->chunks[place] == NULL) continue;
    free(store->chunks[place]->data);
    free(store->chunks[place]);
  }
  free(store->chunks);
  store->chunks = NULL;
  store->count = store->capacity = 0;
}
