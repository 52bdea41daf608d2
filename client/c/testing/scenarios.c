/* What a program in C does with a real kerfd: scenarios SERVER NAME [ARGUMENT...]. It ends with 0
 * if all was as it has to be; e2e/c_client_test.cc starts it, and kills servers meanwhile. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/c/kerf.h"
#include "client/c/testing/agent.h"
#include "client/c/testing/check.h"

static const char* server;

static void pause_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* Says that it is so far, and waits until somebody else is. */
static void meet(const char* mine, const char* other) {
  FILE* const file = fopen(mine, "w");
  CHECK(file != NULL && fclose(file) == 0);
  for (int tries = 0; access(other, F_OK) != 0; ++tries) {
    CHECK(tries < 6000);
    pause_ms(10);
  }
}

static void send_whole(struct agent* agent, const uint8_t* content, size_t size) {
  kerf_file_options file = KERF_FILE_OPTIONS_INIT;
  file.key = "file";
  file.key_size = 4;
  file.size_hint = size;
  file.user = agent;
  struct source source = {content, size, 0, 0};
  CHECK_CODE(KERF_OK, kerf_upload_send_file(agent->upload, &file, read_source, &source, &error));
  CHECK_CODE(KERF_OK, kerf_upload_wait_answered(agent->upload, &error));
  CHECK(agent->recipe.file_user == agent);
}

static void push_whole(struct agent* agent, const uint8_t* content, size_t size) {
  CHECK_CODE(KERF_OK, kerf_upload_begin_file(agent->upload, NULL, &error));
  CHECK_CODE(KERF_WRONG_STATE, kerf_upload_begin_file(agent->upload, NULL, &error));
  CHECK_CODE(KERF_WRONG_STATE, kerf_upload_finish(agent->upload, &error));
  /* Pieces of all sizes, also without a byte. */
  for (size_t position = 0, piece = 0; position < size; position += piece) {
    piece = (piece * 7 + 1) % 700000;
    if (piece > size - position) piece = size - position;
    CHECK_CODE(KERF_OK, kerf_upload_write(agent->upload, content + position, piece, &error));
    CHECK_CODE(KERF_OK, kerf_upload_write(agent->upload, NULL, 0, &error));
  }
  CHECK_CODE(KERF_OK, kerf_upload_end_file(agent->upload, &error));
  CHECK_CODE(KERF_WRONG_STATE, kerf_upload_end_file(agent->upload, &error));
  CHECK_CODE(KERF_OK, kerf_upload_wait_answered(agent->upload, &error));
}

/* upload REPOSITORY DIGEST EPOCH FILE pull|push|here|apart: prints what became of its chunks, and
 * on how many streams memory was shared. */
static void upload(char** arguments) {
  struct agent agent = {.store.number = 1,
                        .no_shared_memory = strcmp(arguments[4], "apart") == 0};
  agent_connect(&agent, server, arguments[0], (kerf_digest)atoi(arguments[1]));
  FILE* const file = fopen(arguments[3], "rb");
  CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
  const size_t size = (size_t)ftell(file);
  uint8_t* const content = malloc(size + 1);
  CHECK(content != NULL && fseek(file, 0, SEEK_SET) == 0);
  CHECK(fread(content, 1, size, file) == size && fclose(file) == 0);

  kerf_upload_options options = agent_options(&agent, strtoull(arguments[2], NULL, 10));
  const int is_here = strcmp(arguments[4], "here") == 0;
  if (is_here) options.cut = KERF_CUT_HERE;
  agent_open(&agent, &options);
  if (strcmp(arguments[4], "push") == 0) {
    push_whole(&agent, content, size);
  } else {
    send_whole(&agent, content, size);
  }
  CHECK(agent.recipe_count == 1 && agent.recipe.file_number == 1);
  kerf_totals totals = KERF_TOTALS_INIT;
  CHECK_CODE(KERF_OK, kerf_upload_totals_of(agent.upload, &totals, &error));
  CHECK(totals.cut_here_count == (is_here ? 1 : 0) && totals.file_count == 1);
  agent_finish(&agent);
  if (agent.duplicate_count == 0) agent_check_recipe(&agent, content, size);
  printf("new %zu duplicate %zu unverified %zu shared %llu\n", agent.new_count,
         agent.duplicate_count, agent.unverified_count, (unsigned long long)totals.shared_count);
  free(content);
  agent_end(&agent);
}

static int64_t fail_behind_half(void* user, void* buffer, size_t size) {
  struct source* const source = user;
  return source->position >= source->size / 2 ? -1 : read_source(user, buffer, size);
}

/* Many small files, empty ones, and some that come to no end. */
static void small_files(char** arguments) {
  struct agent agent = {.store.number = 1};
  agent_connect(&agent, server, arguments[0], KERF_SHA256);
  const kerf_upload_options options = agent_options(&agent, 1);
  agent_open(&agent, &options);
  uint8_t* const content = random_content(5, 3000000);
  for (size_t number = 0; number < 300; ++number) {
    send_whole(&agent, content, number * 10);
    agent_check_recipe(&agent, content, number * 10);
    CHECK(agent.recipe_count == number + 1 && agent.recipe.file_number == number + 1);
  }
  struct source broken = {content, 3000000, 0, 100000};
  CHECK_CODE(KERF_CALLBACK_FAILED,
             kerf_upload_send_file(agent.upload, NULL, fail_behind_half, &broken, &error));
  CHECK_CODE(KERF_OK, kerf_upload_begin_file(agent.upload, NULL, &error));
  CHECK_CODE(KERF_OK, kerf_upload_write(agent.upload, content, 1000000, &error));
  CHECK_CODE(KERF_OK, kerf_upload_abandon_file(agent.upload, &error));
  CHECK_CODE(KERF_OK, kerf_upload_wait_answered(agent.upload, &error));
  CHECK(agent.recipe_count == 300);
  push_whole(&agent, content, 3000000);
  CHECK(agent.recipe_count == 301 && agent.recipe.file_number == 303);
  agent_check_recipe(&agent, content, 3000000);
  agent_finish(&agent);
  free(content);
  agent_end(&agent);
}

/* More chunks than a server lets be pending: the library asks for commits by itself. */
static void pressure(char** arguments) {
  enum { SIZE = 64 << 20 };
  struct agent agent = {.store.number = 1};
  agent_connect(&agent, server, arguments[0], KERF_XXH3_128);
  kerf_upload_options options = agent_options(&agent, 1);
  options.profile = "fixed:size=512";
  agent_open(&agent, &options);
  uint8_t* const content = random_content(6, SIZE);
  push_whole(&agent, content, SIZE);
  CHECK(agent.commit_calls > 0);
  CHECK(agent.new_count == SIZE / 512);
  agent_finish(&agent);
  agent_check_recipe(&agent, content, SIZE);
  free(content);
  agent_end(&agent);
}

struct slow_source {
  struct source source;
  const char* mine;
  const char* other;
};

static int64_t read_and_meet(void* user, void* buffer, size_t size) {
  struct slow_source* const slow = user;
  if (slow->mine != NULL && slow->source.position >= slow->source.size / 2) {
    meet(slow->mine, slow->other);
    slow->mine = NULL;
  }
  return read_source(&slow->source, buffer, size);
}

/* lost REPOSITORY SIZE FOLDER: in the middle of a file somebody else ends its server. */
static void lost(char** arguments) {
  char mine[4096];
  char other[4096];
  snprintf(mine, sizeof mine, "%s/half", arguments[2]);
  snprintf(other, sizeof other, "%s/go", arguments[2]);
  struct agent agent = {.store.number = 1};
  agent_connect(&agent, server, arguments[0], KERF_DIGEST_DEFAULT);
  const kerf_upload_options options = agent_options(&agent, 1);
  agent_open(&agent, &options);
  const size_t size = strtoull(arguments[1], NULL, 10);
  uint8_t* const content = random_content(7, size);
  struct slow_source slow = {{content, size, 0, 100000}, mine, other};
  CHECK_CODE(KERF_OK, kerf_upload_send_file(agent.upload, NULL, read_and_meet, &slow, &error));
  agent_finish(&agent);
  agent_check_recipe(&agent, content, size);
  CHECK(agent.resumed_count > 0 && agent.lost_count > 0);
  /* What the lost stream was not answered was told as well. */
  kerf_lookup_answer* const answers = calloc(agent.recipe.chunk_count, sizeof *answers);
  uint8_t* const digests = calloc(agent.recipe.chunk_count, 32);
  CHECK(answers != NULL && digests != NULL);
  for (size_t index = 0; index < agent.recipe.chunk_count; ++index) {
    memcpy(digests + 32 * index, agent.recipe.chunks[index].digest, 32);
  }
  CHECK_CODE(KERF_OK, kerf_client_lookup(agent.client, 1, digests, agent.recipe.chunk_count,
                                         answers, NULL, &error));
  for (size_t index = 0; index < agent.recipe.chunk_count; ++index) {
    CHECK(answers[index].verdict == KERF_DUPLICATE);
    CHECK(answers[index].length == agent.recipe.chunks[index].length);
  }
  free(answers);
  free(digests);
  free(content);
  agent_end(&agent);
}

/* epoch REPOSITORY FOLDER: somebody else raises the index's epoch from 1 to 2 meanwhile. */
static void epoch(char** arguments) {
  enum { SIZE = 300000 };
  char mine[4096];
  char other[4096];
  snprintf(mine, sizeof mine, "%s/open", arguments[1]);
  snprintf(other, sizeof other, "%s/raised", arguments[1]);
  struct agent agent = {.store.number = 1};
  agent_connect(&agent, server, arguments[0], KERF_DIGEST_DEFAULT);
  kerf_upload_options options = agent_options(&agent, 1);
  agent_open(&agent, &options);
  uint8_t* const content = random_content(8, SIZE);
  uint8_t* const later = random_content(9, SIZE);
  send_whole(&agent, content, SIZE);
  agent_finish(&agent);

  agent_open(&agent, &options);
  send_whole(&agent, content, SIZE / 3);
  meet(mine, other);
  /* All of it is known: nothing is written, and only FileDone says that the epoch has risen. */
  send_whole(&agent, content, SIZE);
  CHECK_CODE(KERF_OK, kerf_upload_wait_answered(agent.upload, &error));
  for (int tries = 0; agent.index_epoch == 0 && tries < 500; ++tries) pause_ms(10);
  CHECK(agent.index_epoch == 2);
  kerf_totals totals = KERF_TOTALS_INIT;
  CHECK_CODE(KERF_OK, kerf_upload_totals_of(agent.upload, &totals, &error));
  CHECK(totals.index_epoch == 2);
  /* What is new is refused, and all that comes behind. */
  send_whole(&agent, later, SIZE);
  kerf_error* refusal = NULL;
  CHECK(kerf_upload_finish(agent.upload, &refusal) == KERF_EPOCH_BEHIND);
  CHECK(strcmp(kerf_error_reason(refusal), "EPOCH_BEHIND") == 0);
  CHECK(kerf_error_request_id(refusal)[0] != '\0');
  kerf_error_free(refusal);
  CHECK_CODE(KERF_EPOCH_BEHIND, kerf_upload_begin_file(agent.upload, NULL, &error));
  CHECK(kerf_upload_free(agent.upload) == KERF_OK);
  CHECK_CODE(KERF_EPOCH_BEHIND, kerf_client_commit(agent.client, 1,
                                                   &(kerf_entry){agent.recipe.chunks[0].digest,
                                                                 (const uint8_t*)"x", 1, 1},
                                                   1, &error));

  options.store_epoch = 2;
  agent_open(&agent, &options);
  send_whole(&agent, later, SIZE);
  agent_finish(&agent);
  agent_check_recipe(&agent, later, SIZE);
  uint64_t told = 0;
  kerf_lookup_answer answer;
  CHECK_CODE(KERF_OK, kerf_client_lookup(agent.client, 2, agent.recipe.chunks[0].digest, 1, &answer,
                                         &told, &error));
  CHECK(answer.verdict == KERF_DUPLICATE && told == 2);
  free(content);
  free(later);
  agent_end(&agent);
}

/* The index knows chunks that the store has not. */
static void stale(char** arguments) {
  enum { SIZE = 2000000 };
  struct agent agent = {.store.number = 1};
  agent_connect(&agent, server, arguments[0], KERF_DIGEST_DEFAULT);
  const kerf_upload_options options = agent_options(&agent, 1);
  uint8_t* const content = random_content(10, SIZE);
  agent_open(&agent, &options);
  send_whole(&agent, content, SIZE);
  agent_finish(&agent);
  CHECK(agent.duplicate_count == 0);

  chunk_store_clear(&agent.store);
  agent.store.number = 2;
  agent.about_strange = REPORT;
  agent_open(&agent, &options);
  send_whole(&agent, content, SIZE);
  CHECK(agent.new_count == 0 && agent.duplicate_count > 100);
  agent_finish(&agent);
  agent_check_recipe(&agent, content, SIZE);

  /* The index has the new places. */
  for (size_t index = 0; index < agent.recipe.chunk_count; ++index) {
    const uint8_t* const digest = agent.recipe.chunks[index].digest;
    kerf_lookup_answer answer;
    CHECK_CODE(KERF_OK, kerf_client_lookup(agent.client, 1, digest, 1, &answer, NULL, &error));
    const struct stored_chunk* const stored = chunk_store_find(&agent.store, digest, 32);
    CHECK(answer.verdict == KERF_DUPLICATE && answer.locator_size == sizeof stored->locator);
    CHECK(memcmp(answer.locator, stored->locator, sizeof stored->locator) == 0);
  }
  /* Of what nobody has committed it has nothing, until somebody says so by the other way. */
  uint8_t strange[32];
  CHECK_CODE(KERF_OK, kerf_digest_of(KERF_BLAKE3, "strange", 7, strange, &error));
  kerf_lookup_answer answer;
  CHECK_CODE(KERF_OK, kerf_client_lookup(agent.client, 1, strange, 1, &answer, NULL, &error));
  CHECK(answer.verdict == KERF_NEW && answer.length == 0 && answer.locator_size == 0);
  const kerf_entry entry = {strange, (const uint8_t*)"there", 5, 7};
  CHECK_CODE(KERF_OK, kerf_client_commit(agent.client, 1, &entry, 1, &error));
  CHECK_CODE(KERF_OK, kerf_client_lookup(agent.client, 1, strange, 1, &answer, NULL, &error));
  CHECK(answer.verdict == KERF_DUPLICATE && answer.length == 7);
  CHECK(answer.locator_size == 5 && memcmp(answer.locator, "there", 5) == 0);
  free(content);
  agent_end(&agent);
}

static int64_t read_for_ever(void* user, void* buffer, size_t size) {
  static uint64_t count;
  (void)user;
  if (size > 4096) size = 4096;
  memset(buffer, 0, size);
  memcpy(buffer, &count, sizeof count);
  ++count;
  return (int64_t)size;
}

static void* cancel_soon(void* upload) {
  pause_ms(200);
  kerf_upload_cancel(upload);
  return NULL;
}

/* Another thread ends it. */
static void cancel(char** arguments) {
  struct agent agent = {.store.number = 1};
  agent_connect(&agent, server, arguments[0], KERF_DIGEST_DEFAULT);
  const kerf_upload_options options = agent_options(&agent, 1);
  agent_open(&agent, &options);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, cancel_soon, agent.upload) == 0);
  CHECK_CODE(KERF_CANCELLED,
             kerf_upload_send_file(agent.upload, NULL, read_for_ever, NULL, &error));
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK_CODE(KERF_CANCELLED, kerf_upload_finish(agent.upload, &error));
  CHECK(kerf_upload_free(agent.upload) == KERF_OK);

  kerf_client_cancel(agent.client);
  kerf_lookup_answer answer;
  const uint8_t digest[32] = {0};
  CHECK_CODE(KERF_CANCELLED, kerf_client_lookup(agent.client, 1, digest, 1, &answer, NULL, &error));
  agent_end(&agent);
}

/* What a server refuses, and one that is not there. */
static void errors(char** arguments) {
  struct agent agent = {.store.number = 1};
  agent_connect(&agent, server, arguments[0], KERF_BLAKE3);
  const kerf_upload_options options = agent_options(&agent, 1);
  uint8_t* const content = random_content(11, 100000);
  agent_open(&agent, &options);
  send_whole(&agent, content, 100000);
  agent_finish(&agent);
  agent_end(&agent);

  agent_connect(&agent, server, arguments[0], KERF_SHA256);
  CHECK_CODE(KERF_OK, kerf_upload_open(agent.client, &options, &agent.upload, &error));
  kerf_error* refusal = NULL;
  CHECK(kerf_upload_wait_opened(agent.upload, &refusal) == KERF_REFUSED);
  CHECK(strcmp(kerf_error_reason(refusal), "DIGEST_ALGORITHM_MISMATCH") == 0);
  CHECK(strstr(kerf_error_message(refusal), "blake3") != NULL);
  kerf_error_free(refusal);
  CHECK(kerf_upload_free(agent.upload) == KERF_OK);
  agent_end(&agent);

  agent_connect(&agent, "unix:nobody.sock", arguments[0], KERF_BLAKE3);
  CHECK_CODE(KERF_OK, kerf_upload_open(agent.client, &options, &agent.upload, &error));
  struct source source = {content, 100000, 0, 0};
  CHECK_CODE(KERF_RETRYABLE,
             kerf_upload_send_file(agent.upload, NULL, read_source, &source, &error));
  /* The client may go first. */
  kerf_upload* const failed = agent.upload;
  kerf_client_free(agent.client);
  CHECK(kerf_upload_free(failed) == KERF_OK);
  agent.client = NULL;
  agent_end(&agent);
  free(content);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    int argument_count;
    void (*run)(char** arguments);
  } scenarios[] = {{"upload", 5, upload},     {"small_files", 1, small_files},
                   {"pressure", 1, pressure}, {"lost", 3, lost},
                   {"epoch", 2, epoch},       {"stale", 1, stale},
                   {"cancel", 1, cancel},     {"errors", 1, errors}};
  CHECK(kerf_abi_version() == KERF_ABI_VERSION);
  CHECK(argc >= 3);
  server = argv[1];
  for (size_t index = 0; index < sizeof scenarios / sizeof *scenarios; ++index) {
    if (strcmp(argv[2], scenarios[index].name) != 0) continue;
    CHECK(argc == 3 + scenarios[index].argument_count);
    scenarios[index].run(argv + 3);
    return 0;
  }
  fprintf(stderr, "no scenario %s\n", argv[2]);
  return 2;
}
