/* A scenario ends at the first thing that is not as it has to be. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

/* A call of kerf.h, whose last argument is &error. */
#define CHECK_CODE(expected, call)                                                              \
  do {                                                                                          \
    kerf_error* error = NULL;                                                                   \
    const kerf_code check_code = (call);                                                        \
    if (check_code != (expected)) {                                                             \
      fprintf(stderr, "%s:%d: %s: %s, and not %s: %s\n", __FILE__, __LINE__, #call,             \
              kerf_code_name(check_code), kerf_code_name(expected), kerf_error_message(error)); \
      exit(1);                                                                                  \
    }                                                                                           \
    CHECK(kerf_error_code(error) == (expected));                                                \
    CHECK(((expected) == KERF_OK) == (kerf_error_message(error)[0] == '\0'));                   \
    kerf_error_free(error);                                                                     \
  } while (0)
