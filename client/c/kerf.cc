// The C functions: each checks its handles, and calls what does it.
#include "client/c/kerf.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/version.h"
#include "client/c/client.h"
#include "client/c/error.h"
#include "client/c/upload.h"

namespace kerf::c {
namespace {

constexpr char kNoClient[] = "client is NULL";
constexpr char kNoUpload[] = "upload is NULL";

// Runs `body` with the upload of a handle, which what it throws ends.
template <typename Body>
kerf_code WithUpload(kerf_upload* upload, kerf_error** error, const Body& body) {
  return Guard(error, [&]() -> absl::Status {
    if (upload == nullptr) return ErrorOf(KERF_BAD_ARGUMENT, kNoUpload);
    return upload->inner->OrEnd([&] { return body(*upload->inner); });
  });
}

template <typename Body>
kerf_code WithClient(kerf_client* client, kerf_error** error, const Body& body) {
  return Guard(error, [&]() -> absl::Status {
    if (client == nullptr) return ErrorOf(KERF_BAD_ARGUMENT, kNoClient);
    return body(*client->inner);
  });
}

absl::Status OpenClient(const kerf_client_options* options, kerf_client** client) {
  if (client == nullptr) return ErrorOf(KERF_BAD_ARGUMENT, kNoClient);
  *client = nullptr;
  auto handle = std::make_unique<kerf_client>();
  KERF_ASSIGN_OR_RETURN(handle->inner, Client::Open(options));
  *client = handle.release();
  return absl::OkStatus();
}

absl::Status OpenUpload(const Client& client, const kerf_upload_options* options,
                        kerf_upload** upload) {
  auto handle = std::make_unique<kerf_upload>();
  KERF_ASSIGN_OR_RETURN(handle->inner, Upload::Open(client.reach(), options, handle.get()));
  *upload = handle.release();
  return absl::OkStatus();
}

absl::Status DigestOf(kerf_digest algorithm, const void* data, std::size_t size_bytes,
                      std::uint8_t* fingerprint) {
  if (fingerprint == nullptr) return ErrorOf(KERF_BAD_ARGUMENT, "fingerprint is NULL");
  if (data == nullptr && size_bytes > 0) return ErrorOf(KERF_BAD_ARGUMENT, "data is NULL");
  KERF_ASSIGN_OR_RETURN(const DigestAlgorithm known, AlgorithmOf(algorithm));
  const Digest digest =
      Fingerprint(known, std::span(static_cast<const std::uint8_t*>(data), size_bytes));
  std::copy(digest.bytes.begin(), digest.bytes.end(), fingerprint);
  return absl::OkStatus();
}

}  // namespace
}  // namespace kerf::c

using kerf::c::Client;
using kerf::c::Upload;

uint32_t kerf_abi_version(void) { return KERF_ABI_VERSION; }

const char* kerf_version(void) { return kerf::kVersion.data(); }

const char* kerf_code_name(kerf_code code) {
  switch (static_cast<int>(code)) {
    case KERF_OK:
      return "KERF_OK";
    case KERF_RETRYABLE:
      return "KERF_RETRYABLE";
    case KERF_REFUSED:
      return "KERF_REFUSED";
    case KERF_EPOCH_BEHIND:
      return "KERF_EPOCH_BEHIND";
    case KERF_CANCELLED:
      return "KERF_CANCELLED";
    case KERF_DISAGREEMENT:
      return "KERF_DISAGREEMENT";
    case KERF_CALLBACK_FAILED:
      return "KERF_CALLBACK_FAILED";
    case KERF_BAD_ARGUMENT:
      return "KERF_BAD_ARGUMENT";
    case KERF_WRONG_STATE:
      return "KERF_WRONG_STATE";
    case KERF_NO_MEMORY:
      return "KERF_NO_MEMORY";
    case KERF_UNEXPECTED:
      return "KERF_UNEXPECTED";
    default:
      return "?";
  }
}

kerf_code kerf_error_code(const kerf_error* error) {
  return error == nullptr ? KERF_OK : error->code;
}

const char* kerf_error_message(const kerf_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}

const char* kerf_error_reason(const kerf_error* error) {
  return error == nullptr ? "" : error->reason.c_str();
}

const char* kerf_error_request_id(const kerf_error* error) {
  return error == nullptr ? "" : error->request_id.c_str();
}

void kerf_error_free(kerf_error* error) {
  if (error != kerf::c::NoMemory()) delete error;
}

size_t kerf_digest_size(kerf_digest digest) {
  std::size_t size_bytes = 0;
  // What is wrong with it takes memory.
  static_cast<void>(kerf::c::Guard(nullptr, [&]() -> absl::Status {
    KERF_ASSIGN_OR_RETURN(const kerf::DigestAlgorithm known, kerf::c::AlgorithmOf(digest));
    size_bytes = kerf::DigestSizeBytes(known);
    return absl::OkStatus();
  }));
  return size_bytes;
}

kerf_code kerf_digest_of(kerf_digest digest, const void* data, size_t size, uint8_t fingerprint[32],
                         kerf_error** error) {
  return kerf::c::Guard(error, [&] { return kerf::c::DigestOf(digest, data, size, fingerprint); });
}

kerf_code kerf_client_open(const kerf_client_options* options, kerf_client** client,
                           kerf_error** error) {
  return kerf::c::Guard(error, [&] { return kerf::c::OpenClient(options, client); });
}

void kerf_client_cancel(kerf_client* client) {
  if (client != nullptr) client->inner->Cancel();
}

void kerf_client_free(kerf_client* client) { delete client; }

kerf_code kerf_upload_open(kerf_client* client, const kerf_upload_options* options,
                           kerf_upload** upload, kerf_error** error) {
  return kerf::c::Guard(error, [&]() -> absl::Status {
    if (upload == nullptr) return kerf::c::ErrorOf(KERF_BAD_ARGUMENT, kerf::c::kNoUpload);
    *upload = nullptr;
    if (client == nullptr) return kerf::c::ErrorOf(KERF_BAD_ARGUMENT, kerf::c::kNoClient);
    return kerf::c::OpenUpload(*client->inner, options, upload);
  });
}

kerf_code kerf_upload_wait_opened(kerf_upload* upload, kerf_error** error) {
  return kerf::c::WithUpload(upload, error, [](Upload& inner) { return inner.WaitOpened(); });
}

kerf_code kerf_upload_send_file(kerf_upload* upload, const kerf_file_options* file, kerf_read read,
                                void* read_user, kerf_error** error) {
  return kerf::c::WithUpload(upload, error,
                             [&](Upload& inner) { return inner.SendFile(file, read, read_user); });
}

kerf_code kerf_upload_begin_file(kerf_upload* upload, const kerf_file_options* file,
                                 kerf_error** error) {
  return kerf::c::WithUpload(upload, error, [&](Upload& inner) { return inner.BeginFile(file); });
}

kerf_code kerf_upload_write(kerf_upload* upload, const void* data, size_t size,
                            kerf_error** error) {
  return kerf::c::WithUpload(upload, error, [&](Upload& inner) { return inner.Write(data, size); });
}

kerf_code kerf_upload_end_file(kerf_upload* upload, kerf_error** error) {
  return kerf::c::WithUpload(upload, error, [](Upload& inner) { return inner.EndFile(); });
}

kerf_code kerf_upload_abandon_file(kerf_upload* upload, kerf_error** error) {
  return kerf::c::WithUpload(upload, error, [](Upload& inner) { return inner.AbandonFile(); });
}

kerf_code kerf_upload_wait_answered(kerf_upload* upload, kerf_error** error) {
  return kerf::c::WithUpload(upload, error, [](Upload& inner) { return inner.WaitAnswered(); });
}

kerf_code kerf_upload_finish(kerf_upload* upload, kerf_error** error) {
  return kerf::c::WithUpload(upload, error, [](Upload& inner) { return inner.Finish(); });
}

kerf_code kerf_upload_commit(kerf_upload* upload, const kerf_entry* entries, size_t count,
                             kerf_error** error) {
  return kerf::c::WithUpload(upload, error,
                             [&](Upload& inner) { return inner.Commit(entries, count); });
}

kerf_code kerf_upload_report_stale(kerf_upload* upload, const kerf_entry* entries, size_t count,
                                   kerf_error** error) {
  return kerf::c::WithUpload(upload, error,
                             [&](Upload& inner) { return inner.ReportStale(entries, count); });
}

void kerf_upload_cancel(kerf_upload* upload) {
  if (upload != nullptr) upload->inner->Cancel();
}

kerf_code kerf_upload_totals_of(kerf_upload* upload, kerf_totals* totals, kerf_error** error) {
  return kerf::c::WithUpload(upload, error,
                             [&](Upload& inner) { return inner.ReadTotals(totals); });
}

kerf_code kerf_upload_free(kerf_upload* upload) {
  return kerf::c::Guard(nullptr, [&]() -> absl::Status {
    if (upload == nullptr) return absl::OkStatus();
    if (!upload->inner->BeginEnd()) {
      return kerf::c::ErrorOf(KERF_WRONG_STATE, "a callback calls this that it would wait for");
    }
    delete upload;
    return absl::OkStatus();
  });
}

kerf_code kerf_client_lookup(kerf_client* client, uint64_t store_epoch, const uint8_t* digests,
                             size_t count, kerf_lookup_answer* answers, uint64_t* index_epoch,
                             kerf_error** error) {
  return kerf::c::WithClient(client, error, [&](Client& inner) {
    return inner.Lookup(store_epoch, digests, count, answers, index_epoch);
  });
}

kerf_code kerf_client_commit(kerf_client* client, uint64_t store_epoch, const kerf_entry* entries,
                             size_t count, kerf_error** error) {
  return kerf::c::WithClient(
      client, error, [&](Client& inner) { return inner.Commit(store_epoch, entries, count); });
}
