/* kerf for C: cut, fingerprint and deduplicate by a kerfd, from C and from whatever can call C.
 *
 * An upload sends files over one stream. A callback is told of each chunk: its bytes, its digest,
 * and whether the index has it. What is new the program stores; once that is durable it commits
 * where. At the end of each file another callback gets the recipe: the chunks in order.
 *
 *     kerf_client_open -> kerf_upload_open -> kerf_upload_send_file ... -> kerf_upload_finish
 *
 * The library goes on behind a lost stream, a server that stops or is killed, and a full one, by
 * itself; bytes are read once. What it cannot do for a program is to know its store:
 * docs/c_client.md says what that owes, and docs/spec/collection.md why.
 *
 * Rules for all of it:
 *
 * - Strings end with a zero byte and are UTF-8. A pointer and a size beside it are bytes. What is
 *   passed in is copied, or not needed any more, when the call returns. What a callback is given is
 *   valid until the callback returns.
 * - A function that can fail returns a kerf_code and takes a `kerf_error **` as its last argument:
 *   NULL, or where to put what went wrong. That is set to NULL by a call that went well; else it is
 *   the caller's, who ends it with kerf_error_free.
 * - NULL where something is needed, a size that cannot be, or a call that may not come now is
 *   KERF_BAD_ARGUMENT or KERF_WRONG_STATE, and changes nothing. A handle that was freed is not
 *   noticed.
 * - No C++ exception comes out. None may come in: a callback that is written in C++ catches its
 *   own, and none leaves by longjmp.
 * - Where the library finds no memory, also on a thread of its own, a call or an upload ends with
 *   KERF_NO_MEMORY, and the process goes on; gRPC, which is within it, ends the process where it
 *   finds none for itself.
 * - The library starts threads. It says below which thread a callback runs on. A process that has
 *   opened a client does not fork and go on without exec.
 * - Nothing is printed, and no signal handler is set. From the first client on the gRPC within logs
 *   nothing. Of the environment it reads its own variables (GRPC_...); a proxy is never used.
 * - libkerf.so has protobuf and OpenSSL in common with the program. A line in protobuf's log, which
 *   is the program's, may come of a server that sends bytes where there has to be text. OpenSSL is
 *   told, if it is not in use before, not to tidy up at exit(), when gRPC's threads may need it.
 *
 * Shared memory: with a kerfd at a unix socket that takes some, an upload shares memory, unless
 * no_shared_memory is set, a token is shown, or this process cuts. It is the buffers that kerf_read
 * fills and kerf_upload_write copies into, 16 MiB at most. That server can read all that is put
 * there, at once and for as long as it likes, also what is never sent: of a file that is abandoned,
 * or behind what kerf_read returns. So nothing is put there that it is not to see, as text that is
 * encrypted in place. It can write nothing there, and nobody else sees it.
 *
 * Growth: a struct that begins with `struct_size` is told so how much of it there is. The caller
 * writes its sizeof there, or uses the INIT macro; members are added behind, and 0 always means
 * what the library did before. A library that is older than the header takes a larger struct, if
 * what it does not know is 0. Structs without it never change, and nothing is removed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KERF_API __attribute__((visibility("default")))
#else
#define KERF_API
#endif

/* Of this header. It grows by one when something is added. */
#define KERF_ABI_VERSION 1

/* Of the library: what it has at least all of, if it is not below KERF_ABI_VERSION. */
KERF_API uint32_t kerf_abi_version(void);
/* "0.2.0"; for logs. Never freed. */
KERF_API const char* kerf_version(void);

/* ---- Enumerations ---------------------------------------------------------------------------- */

/* Each has the size of an int, and in C++, too, any value of one: a program may be older or newer
 * than the library. */
#ifdef __cplusplus
#define KERF_AS_INT : int
#else
#define KERF_AS_INT
#endif

/* ---- Errors ---------------------------------------------------------------------------------- */

/* By what is to be done about it. */
typedef enum kerf_code KERF_AS_INT {
  KERF_OK = 0,
  /* Later, or elsewhere: retry_for_ms have been tried already. Reason and request id are those of
   * the last try. */
  KERF_RETRYABLE = 1,
  /* Nothing, by a program: a setting, a right, or something that an operator has to mend; with the
   * reason CONTENT_MISMATCH a memory that is faulty (CLI-39). */
  KERF_REFUSED = 2,
  /* A collection has begun. Read the store's epoch and its plan, open a new upload in that epoch,
   * and begin again with the verdicts (COL-23); entries of before are not sent again (COL-22). If
   * the epoch is the same as before, a collection has to run first (COL-24). */
  KERF_EPOCH_BEHIND = 3,
  /* Somebody has called kerf_upload_cancel, kerf_upload_free or kerf_client_cancel. */
  KERF_CANCELLED = 4,
  /* A server has answered, twice for one file, what is not of the bytes that were sent: it, a
   * memory, or a network is faulty. Of that upload nothing that was not committed may be used. */
  KERF_DISAGREEMENT = 5,
  /* A callback has said so; of on_chunk and on_commit it ends the upload. */
  KERF_CALLBACK_FAILED = 6,
  KERF_BAD_ARGUMENT = 7,
  KERF_WRONG_STATE = 8,
  /* Or no thread could be started. An upload has ended by it, on whatever thread it was met. */
  KERF_NO_MEMORY = 9,
  /* A bug of this library; it ends an upload, too. */
  KERF_UNEXPECTED = 10
} kerf_code;

/* "KERF_RETRYABLE"; of a number that is none of them, "?". Never freed. */
KERF_API const char* kerf_code_name(kerf_code code);

typedef struct kerf_error kerf_error;

/* All of these take NULL: KERF_OK, and "". What they return lives as long as the error. */
KERF_API kerf_code kerf_error_code(const kerf_error* error);
/* What, where, and how to mend it; for people, and worded anew with each release. */
KERF_API const char* kerf_error_message(const kerf_error* error);
/* A reason of docs/spec/protocol.md, as "QUOTA_EXCEEDED"; "" if no kerfd has said one. */
KERF_API const char* kerf_error_reason(const kerf_error* error);
/* By which the servers' logs know the call; "" if it was none. */
KERF_API const char* kerf_error_request_id(const kerf_error* error);
KERF_API void kerf_error_free(kerf_error* error);

/* ---- Client ---------------------------------------------------------------------------------- */

/* How chunks are fingerprinted; the same for ever in one repository. */
typedef enum kerf_digest KERF_AS_INT {
  /* KERF_BLAKE3. */
  KERF_DIGEST_DEFAULT = 0,
  KERF_BLAKE3 = 1,
  KERF_SHA256 = 2,
  /* 16 bytes, and of use only for data that no adversary can write. */
  KERF_XXH3_128 = 3
} kerf_digest;

/* In bytes; 0 of what is none. */
KERF_API size_t kerf_digest_size(kerf_digest digest);
/* The fingerprint of some bytes, kerf_digest_size of them. */
KERF_API kerf_code kerf_digest_of(kerf_digest digest, const void* data, size_t size,
                                  uint8_t fingerprint[32], kerf_error** error);

/* A server, or several that are as good as each other, and one repository there. Thread-safe. */
typedef struct kerf_client kerf_client;

typedef struct kerf_client_options {
  size_t struct_size;
  /* "unix:PATH" or "HOST:PORT", several with commas between them; NULL: "127.0.0.1:7461". */
  const char* servers;
  /* 1 to 64 of [A-Za-z0-9._-]. Needed. */
  const char* repository;
  kerf_digest digest;
  /* Not 0: TLS to whatever is no unix socket. So it is where one of the files is named. */
  int32_t use_tls;
  /* PEM. CAs of servers, NULL: those of the system, or of the variable SSL_CERT_FILE; the client's
   * certificate and key, NULL: none. */
  const char* ca_file;
  const char* certificate_file;
  const char* key_file;
  /* What a server's certificate has to be of; NULL: the host of its address. */
  const char* tls_name;
  /* A file with a token (docs/spec/access.md), read for each call; NULL: none. It is shown over
   * TLS, or at a unix socket where root or the caller's own user listens. */
  const char* token_file;
  /* For how long a stream, or a call, is tried again without progress; 0: 300,000. */
  uint32_t retry_for_ms;
  /* A server that owes an answer and is silent for longer is lost; 0: 120,000. */
  uint32_t silence_ms;
  /* Not 0: past a front, straight to its workers (docs/spec/routing.md). */
  int32_t is_direct;
  /* Not 0: no memory is shared with a server; see "Shared memory". */
  int32_t no_shared_memory;
} kerf_client_options;
#define KERF_CLIENT_OPTIONS_INIT \
  {sizeof(kerf_client_options),  \
   NULL,                         \
   NULL,                         \
   KERF_DIGEST_DEFAULT,          \
   0,                            \
   NULL,                         \
   NULL,                         \
   NULL,                         \
   NULL,                         \
   NULL,                         \
   0,                            \
   0,                            \
   0,                            \
   0}

/* Connects to nobody yet. Reads the files. `*client` is the caller's; NULL behind an error. */
KERF_API kerf_code kerf_client_open(const kerf_client_options* options, kerf_client** client,
                                    kerf_error** error);
/* Ends all lookups and commits of this client that run, and each later one, with KERF_CANCELLED;
 * its uploads go on. From any thread. */
KERF_API void kerf_client_cancel(kerf_client* client);
/* NULL is nothing. Uploads may outlive their client. Not while a call of it runs. */
KERF_API void kerf_client_free(kerf_client* client);

/* ---- Chunks ---------------------------------------------------------------------------------- */

typedef enum kerf_verdict KERF_AS_INT {
  /* Store it, and commit where (COL-11). A verdict that the library does not know is given as this.
   */
  KERF_NEW = 1,
  /* The index has it at `locator`, which is a hint (COL-14). It stays no longer than the next
   * collection lets it (COL-13): look for it in the store. If it is not there, store it, report it
   * stale, and commit where it is now (COL-16); nobody else notices, and the file is lost. */
  KERF_DUPLICATE = 2,
  /* It was there before a collection: look for it in the store (COL-12), and commit where it was
   * found, or where it was stored anew. */
  KERF_UNVERIFIED = 3
} kerf_verdict;

#define KERF_MAX_LOCATOR_SIZE 64

typedef struct kerf_chunk {
  size_t struct_size;
  kerf_verdict verdict;
  uint32_t length;
  /* Its bytes: those that were sent. The library has compared their fingerprint with `digest`. */
  const void* data;
  const uint8_t* digest;
  size_t digest_size;
  /* What was committed for it; NULL and 0 unless the verdict is one of the other two. */
  const uint8_t* locator;
  size_t locator_size;
} kerf_chunk;

/* A chunk that the index is told of: never grows. */
typedef struct kerf_entry {
  /* As long as the repository's are. */
  const uint8_t* digest;
  /* Where the store has it: 1 to KERF_MAX_LOCATOR_SIZE bytes of the program's own. */
  const uint8_t* locator;
  size_t locator_size;
  /* Of the chunk. */
  uint32_t length;
} kerf_entry;

/* A part of a recipe: never grows. */
typedef struct kerf_recipe_chunk {
  /* Of 16 bytes the rest is 0. */
  uint8_t digest[32];
  uint32_t length;
} kerf_recipe_chunk;

typedef struct kerf_recipe {
  size_t struct_size;
  /* From 1 on, in the order in which files were begun; one that was abandoned counts, and has no
   * recipe. */
  uint64_t file_number;
  /* What kerf_file_options had. */
  void* file_user;
  uint64_t size;
  /* One behind the other they are the file. None for an empty one. */
  const kerf_recipe_chunk* chunks;
  size_t chunk_count;
} kerf_recipe;

/* ---- Upload ---------------------------------------------------------------------------------- */

/* Who cuts the files and fingerprints their chunks. The cuts are the same. */
typedef enum kerf_cut KERF_AS_INT {
  KERF_CUT_SERVER = 0,
  /* This process, if the server lets it: bytes of what is known stay here. */
  KERF_CUT_HERE = 1,
  /* The same, unless the server has a GPU for it. */
  KERF_CUT_HERE_UNLESS_GPU = 2
} kerf_cut;

typedef enum kerf_notice KERF_AS_INT {
  /* A stream was lost and will be opened again; nothing need be done. */
  KERF_NOTICE_LOST = 1,
  KERF_NOTICE_RESUMED = 2,
  /* is_direct was asked for, and the stream goes through the front. */
  KERF_NOTICE_DETOUR = 3,
  /* The index was not told of some chunks: later uploads store them once more. Nothing is lost. */
  KERF_NOTICE_UNTOLD = 4
} kerf_notice;

typedef struct kerf_upload kerf_upload;

/* Callbacks of one upload never run at the same time, but they run on threads of the library's.
 * They may take their time: the server waits. Of the functions of their upload they may call
 * kerf_upload_commit, kerf_upload_report_stale, kerf_upload_cancel and kerf_upload_totals_of; all
 * others are KERF_WRONG_STATE there. They may send through another upload: as long as such a call
 * runs, the callbacks of that one count as callbacks of this one, too, on whatever thread. A
 * callback that returns an int says with 0 that all is well. */
typedef struct kerf_upload_options {
  size_t struct_size;
  /* How files are cut (docs/profiles.md); NULL: "mincdc-8k". The same for each version of a file.
   */
  const char* profile;
  /* The store's, read before its plan and before its chunks are listed (COL-2, COL-3); 1, always,
   * of a store from which nothing is ever deleted (COL-7). Needed. */
  uint64_t store_epoch;
  kerf_cut cut;
  /* Names what this upload carries, the same in each backup, so that fronts find the worker that
   * knows it; NULL: "c". Uploads that run at the same time have different ones. */
  const char* name;
  /* For the server's log, at most 128 bytes; NULL: "libkerf". */
  const char* agent;
  /* Given to the callbacks. */
  void* user;
  /* Needed. Each chunk once for each time that it occurs, file by file, in order. */
  int (*on_chunk)(void* user, const kerf_chunk* chunk);
  /* Needed. Make durable what on_chunk has had to store, and commit all of it, and whatever else is
   * NEW or UNVERIFIED, before returning: the server takes no more until then. Called on the thread
   * that sends, and by kerf_upload_finish. A program may commit earlier as well. */
  int (*on_commit)(void* user, kerf_upload* upload);
  /* All chunks of a file have been given to on_chunk; NULL: nobody needs it. They are durable when
   * the program has made them so. If a later call fails with KERF_EPOCH_BEHIND, or with the reason
   * CONTENT_MISMATCH, the recipe counts no more (CLI-9, CLI-39). */
  void (*on_recipe)(void* user, const kerf_recipe* recipe);
  /* The highest epoch that the index has told, when it rises above store_epoch (COL-81): a
   * collection has begun, or the store was set back. Look up all chunks before the snapshot counts
   * (COL-29), and open the next upload in the epoch that the store then has; never in this one
   * (COL-4). NULL: kerf_upload_totals_of says it, too. */
  void (*on_index_epoch)(void* user, uint64_t epoch);
  /* For a log; NULL: nobody reads it. */
  void (*on_notice)(void* user, kerf_notice notice, const char* text);
} kerf_upload_options;
#define KERF_UPLOAD_OPTIONS_INIT \
  {sizeof(kerf_upload_options),  \
   NULL,                         \
   0,                            \
   KERF_CUT_SERVER,              \
   NULL,                         \
   NULL,                         \
   NULL,                         \
   NULL,                         \
   NULL,                         \
   NULL,                         \
   NULL,                         \
   NULL}

/* Begins to connect, and returns. `*upload` is the caller's; NULL behind an error. */
KERF_API kerf_code kerf_upload_open(kerf_client* client, const kerf_upload_options* options,
                                    kerf_upload** upload, kerf_error** error);

/* The functions from here to kerf_upload_finish send: one at a time, from any thread. A second one
 * meanwhile is KERF_WRONG_STATE. Once an upload has failed each of them says why; free it then, and
 * what is to be sent again goes through another one. */

/* Returns once a server has opened the stream. Need not be called. */
KERF_API kerf_code kerf_upload_wait_opened(kerf_upload* upload, kerf_error** error);

typedef struct kerf_file_options {
  size_t struct_size;
  /* The file's name, the same for all of its versions; at most 4,096 bytes, 0 if it has none. */
  const void* key;
  size_t key_size;
  /* If it is known; 0 else. It need not be true. */
  uint64_t size_hint;
  /* Comes back in kerf_recipe. */
  void* user;
} kerf_file_options;
#define KERF_FILE_OPTIONS_INIT {sizeof(kerf_file_options), NULL, 0, 0, NULL}

/* Puts at most `size` bytes into `buffer` and returns how many; 0 at the end of the file, less than
 * 0 if it cannot be read to its end. Runs on the caller's thread, beside the other callbacks. The
 * server may see the buffer: "Shared memory". */
typedef int64_t (*kerf_read)(void* user, void* buffer, size_t size);

/* Sends a file to its end. It returns when all of it is on its way, and the answers to some of it
 * may still come. Where `read` fails the code is KERF_CALLBACK_FAILED, the file has no recipe, and
 * the upload goes on with the next one; where another callback has failed, with the same code, each
 * further call says so. NULL `file`: one without a name. */
KERF_API kerf_code kerf_upload_send_file(kerf_upload* upload, const kerf_file_options* file,
                                         kerf_read read, void* read_user, kerf_error** error);

/* The same by turns: begin, write as often as there is something, and end or abandon. An abandoned
 * file has no recipe. Between begin and end nothing else may be sent. */
KERF_API kerf_code kerf_upload_begin_file(kerf_upload* upload, const kerf_file_options* file,
                                          kerf_error** error);
KERF_API kerf_code kerf_upload_write(kerf_upload* upload, const void* data, size_t size,
                                     kerf_error** error);
KERF_API kerf_code kerf_upload_end_file(kerf_upload* upload, kerf_error** error);
KERF_API kerf_code kerf_upload_abandon_file(kerf_upload* upload, kerf_error** error);

/* Returns once all that was sent is answered, and on_chunk and on_recipe have returned. */
KERF_API kerf_code kerf_upload_wait_answered(kerf_upload* upload, kerf_error** error);

/* Waits for all answers, has on_commit called, tells the index what a lost stream has left, and
 * ends the stream. KERF_WRONG_STATE if on_commit has left chunks that are not committed: NEW and
 * UNVERIFIED ones, and those that were reported stale. Store what is not stored, commit them, and
 * finish again; if it has committed none of the former it has failed (KERF_CALLBACK_FAILED). Behind
 * KERF_OK nothing more can be sent. */
KERF_API kerf_code kerf_upload_finish(kerf_upload* upload, kerf_error** error);

/* The rest may be called from any thread at any time. */

/* Tells the index where chunks are. The program promises that they are durable: their bytes, the
 * names of their files, and the folders on the way (COL-19). Returns at once; what the server does
 * not take fails the upload. Each digest has been given to on_chunk as NEW or UNVERIFIED, or was
 * reported stale, and was not committed since; one that was is passed over. Nothing is committed
 * behind an error. */
KERF_API kerf_code kerf_upload_commit(kerf_upload* upload, const kerf_entry* entries, size_t count,
                                      kerf_error** error);
/* DUPLICATE chunks that the store has not (COL-16), with the locator that on_chunk was given;
 * before the Commit of what is stored in their place. At most 2,048 may be reported and not yet
 * committed. */
KERF_API kerf_code kerf_upload_report_stale(kerf_upload* upload, const kerf_entry* entries,
                                            size_t count, kerf_error** error);
/* Whoever waits in this upload returns soon, with KERF_CANCELLED. */
KERF_API void kerf_upload_cancel(kerf_upload* upload);

typedef struct kerf_totals {
  size_t struct_size;
  uint64_t file_count;
  /* Given to on_chunk, and of those: NEW or UNVERIFIED, and not committed yet. */
  uint64_t chunk_count;
  uint64_t pending_count;
  /* The index was not told, and will not be. */
  uint64_t untold_count;
  uint64_t reported_count;
  /* The highest that any answer had; 0: none. Above store_epoch: see on_index_epoch. */
  uint64_t index_epoch;
  /* Streams that were opened behind the first one. */
  uint64_t resume_count;
  /* Streams on which this process has cut. */
  uint64_t cut_here_count;
  /* Streams whose bytes a server has read in memory that it shares with this process. */
  uint64_t shared_count;
} kerf_totals;
#define KERF_TOTALS_INIT {sizeof(kerf_totals), 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Fills as much of `totals` as struct_size says. */
KERF_API kerf_code kerf_upload_totals_of(kerf_upload* upload, kerf_totals* totals,
                                         kerf_error** error);

/* Cancels what has not finished, and returns when no callback runs any more. NULL is KERF_OK. The
 * error is KERF_WRONG_STATE: it was called by a callback that it would wait for, and the upload is
 * not freed. Not while another thread is in this upload. */
KERF_API kerf_code kerf_upload_free(kerf_upload* upload);

/* ---- Lookups --------------------------------------------------------------------------------- */

/* Never grows. */
typedef struct kerf_lookup_answer {
  kerf_verdict verdict;
  /* Both are 0 if it is KERF_NEW. */
  uint32_t length;
  uint32_t locator_size;
  uint8_t locator[KERF_MAX_LOCATOR_SIZE];
} kerf_lookup_answer;

/* What the index has of `count` digests, which stand one behind the other, as a session of that
 * epoch is told: `answers` has as many places. The verdicts are worth no more than those of an
 * upload. `index_epoch` (NULL: nobody asks) becomes the highest that the answers had, 0 for none:
 * see on_index_epoch. */
KERF_API kerf_code kerf_client_lookup(kerf_client* client, uint64_t store_epoch,
                                      const uint8_t* digests, size_t count,
                                      kerf_lookup_answer* answers, uint64_t* index_epoch,
                                      kerf_error** error);

/* Tells the index where chunks are, without a stream, and in the place of what it had (PRO-23): for
 * what was found by other ways than an upload. What kerf_upload_commit says of durable holds here.
 * The epoch is the one that was read before the chunks were looked for (COL-21, COL-22). Behind an
 * error some of it may have been written. */
KERF_API kerf_code kerf_client_commit(kerf_client* client, uint64_t store_epoch,
                                      const kerf_entry* entries, size_t count, kerf_error** error);

#ifdef __cplusplus
}
#endif
