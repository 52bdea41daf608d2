#include "client/lab/bench/rapid/series.h"

#include <cstddef>

#include "base/random.h"

namespace kerf::bench {
namespace {

std::uint64_t BytesFrom(const Series& series, std::size_t first_version) {
  std::uint64_t bytes = 0;
  for (std::size_t version = first_version; version < series.versions.size(); ++version) {
    for (const Bytes file : series.versions[version]) bytes += file.size();
  }
  return bytes;
}

}  // namespace

std::uint64_t Series::TotalBytes() const { return BytesFrom(*this, 0); }

std::uint64_t Series::LaterBytes() const { return BytesFrom(*this, 1); }

std::vector<std::vector<std::uint8_t>> MakeVersions(const SeriesRule& rule) {
  Random random(rule.seed);
  std::vector<std::vector<std::uint8_t>> versions(1);
  versions[0].resize(rule.size_bytes);
  random.Fill(versions[0]);
  while (versions.size() < rule.version_count) {
    versions.push_back(MakeEdited(random, versions.back(), rule.edits));
  }
  return versions;
}

}  // namespace kerf::bench
