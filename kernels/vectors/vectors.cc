#include "kernels/vectors/vectors.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/chunker.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/reference/blake3.h"
#include "kernels/reference/reference.h"
#include "kernels/stream_cutter.h"
#include "kernels/testing/inputs.h"

namespace kerf {
namespace {

using Json = nlohmann::ordered_json;
using Bytes = std::span<const std::uint8_t>;

constexpr const char* kAbout =
    "Golden vectors of docs/spec/chunking.md. ends_digest: SHA-256 over the ends of all chunks as "
    "little-endian 64-bit values; digests: SHA-256 over the fingerprints of all chunks, one after "
    "another; both cut to 32 hexadecimal digits. Made by tools/vectors --write, held by "
    "tools/vectors --check.";
constexpr std::size_t kFirstEnds = 4;
constexpr std::array<DigestAlgorithm, 3> kDigests = {
    DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256, DigestAlgorithm::kXxh3_128};

struct InputRow {
  const char* kind;
  std::uint64_t seed;
  std::size_t size_bytes;
};

// Odd sizes too: the parity rule of fastcdc2020 shows at the end of the input only.
constexpr std::array<InputRow, 9> kInputs = {{{"aes-ctr", 0, 1 << 20},
                                              {"random", 1, 500003},
                                              {"text", 1, 1 << 19},
                                              {"sparse", 1, 1 << 19},
                                              {"constant", 0, 300000},
                                              {"constant", 255, 300001},
                                              {"period", 4096, 600000},
                                              {"ramp", 4095, 600000},
                                              {"random", 2, 1}}};

// Beside the named ones: the edges of the parameters, and the profile of metadata streams.
constexpr std::array<const char*, 17> kOtherProfiles = {
    "fastcdc2020:min=512,avg=2048,max=16384,level=1",
    "fastcdc2020:min=64,avg=1024,max=2048,level=0",
    "fastcdc2020:min=256,avg=8192,max=65534,level=3",
    "fastcdc:min=64,avg=256,max=1024,level=3",
    "fastcdc:min=511,avg=1024,max=9999,level=1",
    "fastcdc:min=4096,avg=4096,max=4096,level=0",
    "rabin:min=64,avg=256,max=1000",
    "crc:min=256,bits=6,max=999",
    "tttd:min=64,avg=256,max=300",
    "ae-min:window=100,max=5000",
    "maxp:window=100,max=1000",
    "maxp-local:window=100,max=1000",
    "ram:window=64,max=65",
    "seqcdc:mode=decreasing,length=3,trigger=5,skip=100,min=64,max=3000",
    "gear:min=64,avg=256,max=256",
    "gear:min=65,avg=65536,max=99999",
    "maxcdc:min=64,max=333",
};

std::string ShortSha256(const std::vector<std::uint8_t>& bytes) {
  Digest digest;
  SHA256(bytes.data(), bytes.size(), digest.bytes.data());
  return DigestToHex(digest, 16);
}

// What one way of cutting and hashing makes of an input: the part of a case that is compared.
class Outcome {
 public:
  // Chunks come in order.
  void Add(Bytes chunk, const std::array<Digest, kDigests.size()>& digests) {
    end_ += chunk.size();
    ++count_;
    if (first_ends_.size() < kFirstEnds) first_ends_.push_back(end_);
    for (int shift = 0; shift < 64; shift += 8) {
      ends_.push_back(static_cast<std::uint8_t>(end_ >> shift));
    }
    for (std::size_t index = 0; index < kDigests.size(); ++index) {
      const auto begin = digests[index].bytes.begin();
      digests_[index].insert(digests_[index].end(), begin,
                             begin + static_cast<std::ptrdiff_t>(DigestSizeBytes(kDigests[index])));
    }
  }

  void Write(Json& to) const {
    to["chunk_count"] = count_;
    to["first_ends"] = first_ends_;
    to["ends_digest"] = ShortSha256(ends_);
    for (std::size_t index = 0; index < kDigests.size(); ++index) {
      to["digests"][std::string(DigestAlgorithmName(kDigests[index]))] =
          ShortSha256(digests_[index]);
    }
  }

 private:
  std::uint64_t end_ = 0;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> first_ends_;
  std::vector<std::uint8_t> ends_;
  std::array<std::vector<std::uint8_t>, kDigests.size()> digests_;
};

Outcome RunReference(const Profile& profile, Bytes bytes) {
  Outcome outcome;
  while (!bytes.empty()) {
    const Bytes chunk = bytes.first(ReferenceNextCut(profile, bytes));
    outcome.Add(chunk,
                {Digest{Blake3Reference(chunk)}, Fingerprint(DigestAlgorithm::kSha256, chunk),
                 Fingerprint(DigestAlgorithm::kXxh3_128, chunk)});
    bytes = bytes.subspan(chunk.size());
  }
  return outcome;
}

// As kerfd does: through a StreamCutter, hashing all chunks of a fill at once.
Outcome RunKernels(const Profile& profile, Bytes bytes) {
  const std::unique_ptr<Chunker> chunker = MakeChunker(profile);
  StreamCutter cutter(*chunker);
  Outcome outcome;
  const auto drain = [&] {
    std::vector<Bytes> chunks;
    while (const std::optional<StreamChunk> chunk = cutter.Next()) chunks.push_back(chunk->bytes);
    std::array<std::vector<Digest>, kDigests.size()> digests;
    for (std::size_t index = 0; index < kDigests.size(); ++index) {
      digests[index].resize(chunks.size());
      FingerprintMany(kDigests[index], chunks, digests[index]);
    }
    for (std::size_t index = 0; index < chunks.size(); ++index) {
      outcome.Add(chunks[index], {digests[0][index], digests[1][index], digests[2][index]});
    }
  };
  while (!bytes.empty()) {
    bytes = bytes.subspan(cutter.Append(bytes));
    drain();
  }
  cutter.Finish();
  drain();
  return outcome;
}

// nullopt if the chunks are not as many bytes as there are.
std::optional<Outcome> OutcomeOf(const std::vector<ForeignChunk>& chunks, Bytes bytes) {
  Outcome outcome;
  for (const ForeignChunk& each : chunks) {
    if (each.size_bytes > bytes.size()) return std::nullopt;
    const Bytes chunk = bytes.first(each.size_bytes);
    outcome.Add(chunk, {each.blake3, each.sha256, Fingerprint(DigestAlgorithm::kXxh3_128, chunk)});
    bytes = bytes.subspan(chunk.size());
  }
  if (!bytes.empty()) return std::nullopt;
  return outcome;
}

struct Input {
  Profile profile;
  std::vector<std::uint8_t> bytes;
};

absl::StatusOr<Input> InputOf(const Json& golden) {
  const Json& input = golden.at("input");
  KERF_ASSIGN_OR_RETURN(const Profile profile,
                        ParseProfile(golden.at("profile").get<std::string>()));
  return Input{profile,
               MakeInput(input.at("kind").get<std::string>(), input.at("seed").get<std::uint64_t>(),
                         input.at("length").get<std::size_t>())};
}

// What differs, empty if nothing does.
std::string Difference(const Json& golden, const Outcome& outcome) {
  Json made = {{"input", golden.at("input")}, {"profile", golden.at("profile")}};
  outcome.Write(made);
  if (made == golden) return "";
  return Cat("expected ", golden.dump(), "\ngot      ", made.dump(), "\n");
}

// check(case) returns what differs.
absl::Status CheckCases(const std::string& vectors,
                        const std::function<absl::StatusOr<std::string>(const Json&)>& check) {
  try {
    const Json golden = Json::parse(vectors);
    std::string differences;
    for (const Json& entry : golden.at("cases")) {
      KERF_ASSIGN_OR_RETURN(const std::string difference, check(entry));
      differences += difference;
    }
    if (differences.empty()) return absl::OkStatus();
    return absl::DataLossError(differences);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(Cat("not golden vectors: ", error.what()));
  }
}

}  // namespace

std::string MakeVectors() {
  std::vector<std::string> profiles;
  for (const NamedProfile& named : NamedProfiles()) profiles.emplace_back(named.parameters);
  profiles.insert(profiles.end(), kOtherProfiles.begin(), kOtherProfiles.end());
  std::string text = Cat("{\n  \"about\": ", Json(kAbout).dump(), ",\n  \"cases\": [\n");
  for (const InputRow& row : kInputs) {
    const std::vector<std::uint8_t> bytes = MakeInput(row.kind, row.seed, row.size_bytes);
    for (const std::string& profile : profiles) {
      Json entry = {{"input", {{"kind", row.kind}, {"seed", row.seed}, {"length", row.size_bytes}}},
                    {"profile", profile}};
      RunReference(*ParseProfile(profile), bytes).Write(entry);
      text += Cat("    ", entry.dump(), ",\n");
    }
  }
  text.resize(text.size() - 2);
  return text + "\n  ]\n}\n";
}

absl::Status CheckKernelsAgainst(const std::string& vectors) {
  return CheckCases(vectors, [](const Json& golden) -> absl::StatusOr<std::string> {
    KERF_ASSIGN_OR_RETURN(const Input input, InputOf(golden));
    return Difference(golden, RunKernels(input.profile, input.bytes));
  });
}

absl::StatusOr<std::size_t> CheckForeignAgainst(const std::string& vectors,
                                                const ForeignCutter& cut) {
  std::size_t count = 0;
  KERF_RETURN_IF_ERROR(CheckCases(vectors, [&](const Json& golden) -> absl::StatusOr<std::string> {
    KERF_ASSIGN_OR_RETURN(const Input input, InputOf(golden));
    KERF_ASSIGN_OR_RETURN(const auto chunks, cut(input.profile, input.bytes));
    if (!chunks.has_value()) return "";
    ++count;
    const std::optional<Outcome> outcome = OutcomeOf(*chunks, input.bytes);
    if (!outcome.has_value()) {
      return Cat("expected ", golden.dump(), "\ngot      chunks of another number of bytes\n");
    }
    return Difference(golden, *outcome);
  }));
  return count;
}

}  // namespace kerf
