#include "client/c/conformance/formats.h"

#include <cstddef>

#include "base/status.h"
#include "base/strings.h"
#include "client/c/conformance/kit.h"
#include "client/c/kerf.h"

namespace kerf::c::conformance {
namespace {

constexpr int kVersion = 1;
constexpr std::size_t kSumBytes = 32;

std::string SumOf(std::string_view text) {
  std::string sum(kSumBytes, '\0');
  kerf_digest_of(KERF_SHA256, text.data(), text.size(), reinterpret_cast<std::uint8_t*>(sum.data()),
                 nullptr);
  return sum;
}

// A SHA-256 of the rest, and JSON of a version that is known.
absl::StatusOr<Json> ReadSealed(std::string_view body, std::string_view what) {
  if (body.size() < kSumBytes || SumOf(body.substr(kSumBytes)) != body.substr(0, kSumBytes)) {
    return Failure("store", Cat("a ", what, " that is damaged: its SHA-256 is another"));
  }
  Json text = Json::parse(body.substr(kSumBytes), nullptr, false);
  if (!text.is_object() || text.value("version", 0) != kVersion) {
    return Failure("store", Cat("a ", what, " of another version"));
  }
  return text;
}

Recipe ReadRecipe(const Json& file) {
  Recipe recipe;
  recipe.key = FromHex(file["key"]);
  recipe.size_bytes = file["size"].get<std::uint64_t>();
  for (const Json& chunk : file["chunks"]) {
    recipe.chunks.push_back({FromHex(chunk[0]), chunk[1].get<std::uint32_t>()});
  }
  return recipe;
}

}  // namespace

absl::StatusOr<absl::flat_hash_set<std::string>> ReadPlan(std::string_view body) {
  KERF_ASSIGN_OR_RETURN(const Json text, ReadSealed(body, "plan"));
  absl::flat_hash_set<std::string> condemned;
  for (const Json& locator : text["condemned"]) condemned.insert(FromHex(locator));
  return condemned;
}

absl::StatusOr<std::vector<Recipe>> ReadSnapshot(std::string_view body) {
  KERF_ASSIGN_OR_RETURN(const Json text, ReadSealed(body, "snapshot"));
  std::vector<Recipe> recipes;
  for (const Json& file : text["files"]) recipes.push_back(ReadRecipe(file));
  return recipes;
}

std::string WriteSnapshot(const std::vector<Recipe>& recipes) {
  Json files = Json::array();
  for (const Recipe& recipe : recipes) {
    Json chunks = Json::array();
    for (const Chunk& chunk : recipe.chunks) {
      chunks.push_back(Json::array({HexText(chunk.digest), chunk.length_bytes}));
    }
    files.push_back(
        {{"key", HexText(recipe.key)}, {"size", recipe.size_bytes}, {"chunks", std::move(chunks)}});
  }
  const std::string text = Json{{"version", kVersion}, {"files", std::move(files)}}.dump();
  return SumOf(text) + text;
}

}  // namespace kerf::c::conformance
