#include "client/c/conformance/agent.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "client/c/conformance/file_upload.h"

namespace kerf::c::conformance {
namespace {

// As much as a pack has, about.
constexpr std::uint64_t kCommitBytes = std::uint64_t{16} << 20;

std::uint32_t MillisecondsOf(const Json& told, const char* name) {
  return static_cast<std::uint32_t>(std::lround(1000 * told.value(name, 0.0)));
}

}  // namespace

absl::StatusOr<Json> Agent::Do(const Json& told) {
  const std::string action = told["do"].get<std::string>();
  Json done = Json::object();
  if (action == "open") {
    KERF_RETURN_IF_ERROR(Open(told));
  } else if (action == "upload") {
    return Upload(FromHex(told["key"]), told["seeks"].get<bool>());
  } else if (action == "reuse") {
    return Reuse(told["recipe"].get<std::size_t>());
  } else if (action == "decode") {
    return Decode(FromBase64(told["body"]));
  } else if (action == "snapshot") {
    KERF_RETURN_IF_ERROR(Snapshot(told["name"].get<std::string>(), told["recipes"]));
  } else if (action == "close") {
    Close();
  } else {
    return Failure("other", Cat("'", action, "': no such action"));
  }
  return done;
}

absl::Status Agent::Open(const Json& told) {
  Close();
  recipes_.clear();
  store_ = std::make_unique<KitStore>(kit_, told["is_collected"].get<bool>());
  commit_bytes_ = told.value("commit_bytes", kCommitBytes);
  std::string servers;
  for (const Json& server : told["servers"]) {
    servers += (servers.empty() ? "" : ",") + server.get<std::string>();
  }
  const std::string repository = told["repository"].get<std::string>();
  kerf_client_options options = KERF_CLIENT_OPTIONS_INIT;
  options.servers = servers.c_str();
  options.repository = repository.c_str();
  options.digest = KERF_SHA256;
  options.retry_for_ms = MillisecondsOf(told, "retry_for_s");
  options.silence_ms = MillisecondsOf(told, "silence_s");
  options.is_direct = told.value("direct", false) ? 1 : 0;
  kerf_error* error = nullptr;
  kerf_client_open(&options, &client_, &error);
  return TakeError(error);
}

void Agent::Close() {
  kerf_client_free(client_);
  client_ = nullptr;
}

std::size_t Agent::Keep(Recipe recipe) {
  recipes_.push_back(std::move(recipe));
  return recipes_.size() - 1;
}

absl::StatusOr<Json> Agent::Upload(const std::string& key, bool seeks) {
  KERF_ASSIGN_OR_RETURN(View view, store_->ReadView());
  while (true) {
    FileUpload upload(kit_, *store_, view, commit_bytes_);
    const absl::Status status = upload.Run(client_, key);
    if (upload.has_recipe() && !upload.is_behind()) {
      Json chunks = Json::array();
      for (const Chunk& chunk : upload.recipe().chunks) {
        chunks.push_back(Json::array({HexText(chunk.digest), chunk.length_bytes}));
      }
      const std::uint64_t size_bytes = upload.recipe().size_bytes;
      return Json{
          {"recipe", Keep(upload.recipe())}, {"size", size_bytes}, {"chunks", std::move(chunks)}};
    }
    // CLI-23.
    if (!upload.is_behind() || !seeks) return status;
    KERF_ASSIGN_OR_RETURN(View fresh, store_->ReadView());
    // COL-24.
    if (fresh.epoch == view.epoch) return status;
    view = std::move(fresh);
    KERF_RETURN_IF_ERROR(kit_.Ask({{"ask", "seek"}, {"offset", 0}}).status());
  }
}

absl::StatusOr<bool> Agent::IsThere(const View& view, const Recipe& recipe) {
  for (const Chunk& chunk : recipe.chunks) {
    KERF_ASSIGN_OR_RETURN(const KitStore::Found found, store_->Find(view, chunk));
    if (found.safe_locator.empty()) return false;
  }
  return true;
}

// COL-18.
absl::StatusOr<Json> Agent::Reuse(std::size_t number) {
  KERF_ASSIGN_OR_RETURN(const View view, store_->ReadView());
  Recipe taken = recipes_[number];
  KERF_ASSIGN_OR_RETURN(const bool is_there, IsThere(view, taken));
  if (!is_there) return Json{{"recipe", nullptr}};
  taken.epoch = view.epoch;
  taken.has_plan = view.has_plan;
  taken.index_epoch = 0;
  return Json{{"recipe", Keep(std::move(taken))}};
}

absl::StatusOr<Json> Agent::Decode(const std::string& body) {
  KERF_ASSIGN_OR_RETURN(std::vector<Recipe> recipes, ReadSnapshot(body));
  Json numbers = Json::array();
  for (Recipe& recipe : recipes) numbers.push_back(Keep(std::move(recipe)));
  return Json{{"recipes", std::move(numbers)}};
}

absl::Status Agent::Snapshot(const std::string& name, const Json& numbers) {
  std::vector<Recipe> recipes;
  for (const Json& number : numbers) recipes.push_back(recipes_[number.get<std::size_t>()]);
  // COL-26.
  KERF_RETURN_IF_ERROR(store_->Sync());
  KERF_RETURN_IF_ERROR(store_->Publish(name, WriteSnapshot(recipes)));
  if (const absl::Status lost = Check(recipes); !lost.ok()) {
    KERF_RETURN_IF_ERROR(store_->Withdraw(name));
    return lost;
  }
  return store_->Confirm(name);
}

absl::Status Agent::Check(const std::vector<Recipe>& recipes) {
  KERF_ASSIGN_OR_RETURN(const View now, store_->ReadView());
  const bool is_short_way = std::none_of(recipes.begin(), recipes.end(), [&](const Recipe& recipe) {
    return recipe.epoch != now.epoch || recipe.has_plan || now.has_plan ||
           recipe.index_epoch > recipe.epoch;
  });
  if (is_short_way) return absl::OkStatus();
  for (const Recipe& recipe : recipes) {
    KERF_ASSIGN_OR_RETURN(const bool is_there, IsThere(now, recipe));
    if (!is_there) {
      return Failure("chunks_lost", "a collection has taken chunks of the snapshot: upload again");
    }
  }
  // Names of others that it counts on now (COL-20).
  return store_->Sync();
}

}  // namespace kerf::c::conformance
