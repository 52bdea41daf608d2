// One look at one worker, as `kerf top` takes it again and again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kerf/v1/status.pb.h"

namespace kerf::agent {

struct WorkerLook {
  // As a front knows it, or as the user named it.
  std::string address;
  // Its own, or that of the front's list; empty: not known.
  std::string name;
  // Nothing: it did not answer, and `error` says why.
  std::optional<v1::GetStatusResponse> status;
  std::string error;
};
using WorkerLooks = std::vector<WorkerLook>;

// Of the same address; nullptr: there is none.
const WorkerLook* FindLook(const WorkerLooks& looks, const std::string& address);

// "serving", "draining", "degraded" (a GPU is lost), "lost" (it does not answer).
std::string StateOf(const WorkerLook& look);

// The same of all: how many are lost.
std::size_t LostCountOf(const WorkerLooks& looks);

}  // namespace kerf::agent
