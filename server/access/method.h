// What a call needs its caller to be, by its method: the columns of docs/spec/access.md.
#pragma once

#include <cstdint>
#include <string_view>

namespace kerf::access {

enum class Need : std::uint8_t {
  // Whoever asks.
  kAnybody,
  // Whoever has proven who he is.
  kKnown,
  // A role in the repository that the call names.
  kRead,
  kWrite,
  kGc,
  kAdmin,
  // An administrator of all repositories, or a front.
  kOperate,
};

// As "write".
std::string_view NameOf(Need need);

// Whether a call says itself which repository it is about.
bool NamesRepository(Need need);

// Of a path as gRPC has it, "/kerf.v1.IndexService/ScanChunks". What nobody here knows is kOperate:
// a front may pass on what is newer than it is.
Need NeedOf(std::string_view path);

}  // namespace kerf::access
