#include "server/access/method.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kerf::access {
namespace {

using Entry = std::pair<std::string_view, Need>;

constexpr std::array kMethods = {
    Entry{"/grpc.health.v1.Health/Check", Need::kAnybody},
    Entry{"/grpc.health.v1.Health/Watch", Need::kAnybody},
    Entry{"/kerf.v1.ChunkingService/GetCapabilities", Need::kKnown},
    Entry{"/kerf.v1.ChunkingService/Upload", Need::kWrite},
    Entry{"/kerf.v1.IndexService/GetIndexStats", Need::kRead},
    Entry{"/kerf.v1.IndexService/LookupChunks", Need::kRead},
    Entry{"/kerf.v1.IndexService/ScanChunks", Need::kRead},
    Entry{"/kerf.v1.IndexService/CommitChunks", Need::kWrite},
    Entry{"/kerf.v1.IndexService/ForgetChunks", Need::kGc},
    Entry{"/kerf.v1.IndexService/ForgetOlderChunks", Need::kGc},
    Entry{"/kerf.v1.IndexService/AdvanceEpoch", Need::kGc},
    Entry{"/kerf.v1.RepositoryService/CreateRepository", Need::kAdmin},
    Entry{"/kerf.v1.RepositoryService/DropRepository", Need::kAdmin},
    Entry{"/kerf.v1.RepositoryService/ListRepositories", Need::kOperate},
    Entry{"/kerf.v1.RepositoryService/ResetEpoch", Need::kAdmin},
    Entry{"/kerf.v1.RoutingService/Locate", Need::kKnown},
    Entry{"/kerf.v1.RoutingService/ListWorkers", Need::kOperate},
    Entry{"/kerf.v1.StatusService/GetStatus", Need::kOperate},
};

}  // namespace

std::string_view NameOf(Need need) {
  switch (need) {
    case Need::kAnybody:
      return "anybody";
    case Need::kKnown:
      return "known";
    case Need::kRead:
      return "read";
    case Need::kWrite:
      return "write";
    case Need::kGc:
      return "gc";
    case Need::kAdmin:
      return "admin";
    case Need::kOperate:
      break;
  }
  return "operate";
}

bool NamesRepository(Need need) {
  return need == Need::kRead || need == Need::kWrite || need == Need::kGc || need == Need::kAdmin;
}

Need NeedOf(std::string_view path) {
  const auto* const found = std::find_if(kMethods.begin(), kMethods.end(),
                                         [&](const Entry& entry) { return entry.first == path; });
  return found == kMethods.end() ? Need::kOperate : found->second;
}

}  // namespace kerf::access
