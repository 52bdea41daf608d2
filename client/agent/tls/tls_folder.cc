#include "client/agent/tls/tls_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "base/tls/certificate_facts.h"
#include "base/tls/certificate_maker.h"
#include "client/store/format/durable_file.h"

namespace kerf::agent {
namespace {

constexpr int kCaDays = 3650;
constexpr int kHoursOfADay = 24;
constexpr std::size_t kMaxClientNameBytes = 64;
constexpr std::uint64_t kMaxFileBytes = 1 << 20;
constexpr ::mode_t kReadableByAll = 0644;

// As it is found, or about to be.
struct Pair {
  TlsPair told;
  CertifiedKey texts;
};

Pair PairOf(const std::string& directory, const std::string& name) {
  Pair pair;
  pair.told.name = name;
  pair.told.certificate_path = Cat(directory, "/", name, ".pem");
  pair.told.key_path = Cat(directory, "/", name, ".key");
  return pair;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  KERF_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> bytes, ReadWholeFile(path, kMaxFileBytes));
  return std::string(bytes.begin(), bytes.end());
}

// False: neither file is there. FailedPrecondition if one of them is alone, or is no certificate.
absl::StatusOr<bool> Load(Pair& pair) {
  const bool has_certificate = MayExist(pair.told.certificate_path);
  const bool has_key = MayExist(pair.told.key_path);
  if (!has_certificate && !has_key) return false;
  if (!has_certificate || !has_key) {
    const std::string& there = has_key ? pair.told.key_path : pair.told.certificate_path;
    const std::string& missing = has_key ? pair.told.certificate_path : pair.told.key_path;
    return absl::FailedPreconditionError(Cat(there, " is there without ", missing,
                                             ": bring that back, or move the other one away and "
                                             "both are made anew"));
  }
  KERF_ASSIGN_OR_RETURN(pair.texts.certificate, ReadText(pair.told.certificate_path));
  const auto facts = ReadCertificateFacts(pair.texts.certificate);
  if (!facts.ok()) {
    return absl::FailedPreconditionError(
        Cat(pair.told.certificate_path, ": ", MessageOf(facts.status())));
  }
  pair.told.names = facts->names;
  pair.told.expires_at_s = facts->expires_at_s;
  return true;
}

absl::Status WriteWhole(int fd, const std::string& text, const std::string& path) {
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(text.data()),
                                            text.size());
  KERF_RETURN_IF_ERROR(PWriteExactly(fd, bytes, 0, path));
  return SyncFile(fd, path);
}

// By a link, which takes no other file's place.
absl::Status MakeFile(const std::string& path, const std::string& text, bool is_secret) {
  const std::string unfinished = Cat(path, ".", RandomHex());
  {
    KERF_ASSIGN_OR_RETURN(const UniqueFd file, CreateNewFile(unfinished));
    absl::Status status = WriteWhole(file.get(), text, unfinished);
    if (status.ok() && !is_secret && fchmod(file.get(), kReadableByAll) != 0) {
      status = ErrnoStatus(errno, unfinished);
    }
    if (status.ok()) status = LinkFile(unfinished, path);
    KERF_RETURN_IF_ERROR(RemoveFile(unfinished));
    KERF_RETURN_IF_ERROR(status);
  }
  return SyncDirectory(DirectoryOf(path));
}

// The key first: a certificate that is there can be used.
absl::Status Save(Pair& pair) {
  const auto facts = ReadCertificateFacts(pair.texts.certificate);
  if (!facts.ok()) return facts.status();
  KERF_RETURN_IF_ERROR(MakeFile(pair.told.key_path, pair.texts.key, /*is_secret=*/true));
  KERF_RETURN_IF_ERROR(
      MakeFile(pair.told.certificate_path, pair.texts.certificate, /*is_secret=*/false));
  pair.told.is_new = true;
  pair.told.names = facts->names;
  pair.told.expires_at_s = facts->expires_at_s;
  return absl::OkStatus();
}

absl::Status CheckClientName(const std::string& name) {
  const bool is_name = !name.empty() && name.size() <= kMaxClientNameBytes &&
                       name.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789-._") == std::string::npos &&
                       name[0] != '-' && name[0] != '.';
  if (!is_name) {
    return absl::InvalidArgumentError(
        Cat("--client '", name, "': write 1 to 64 letters, digits and - . _, none of these first"));
  }
  if (name == kCaName || name == kServerName) {
    return absl::InvalidArgumentError(
        Cat("--client ", name, ": files of that name are not a client's; choose another one"));
  }
  return absl::OkStatus();
}

// What the server's certificate, which is there, does not say, though it is asked for.
absl::Status CheckHasNames(const Pair& server, const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) {
    if (std::find(server.told.names.begin(), server.told.names.end(), name) !=
        server.told.names.end()) {
      continue;
    }
    return absl::FailedPreconditionError(
        Cat(server.told.certificate_path, " is there, and not of the name ", name, ": move it and ",
            server.told.key_path, " away, and give all names again"));
  }
  return absl::OkStatus();
}

absl::Status CheckDays(const Pair& ca, int days) {
  const std::int64_t now_s = std::chrono::duration_cast<std::chrono::seconds>(
                                 std::chrono::system_clock::now().time_since_epoch())
                                 .count();
  const std::int64_t left_days = (ca.told.expires_at_s - now_s) / (kHoursOfADay * 3600);
  if (days <= left_days) return absl::OkStatus();
  return absl::FailedPreconditionError(Cat(
      "the CA ", ca.told.certificate_path, " ends on ", FormatCertificateTime(ca.told.expires_at_s),
      ", before certificates of ", days, " days would: give fewer --days, or begin a new folder"));
}

// Not the folders above it.
absl::Status MakeFolder(const std::string& directory) {
  if (mkdir(directory.c_str(), 0700) == 0) return SyncDirectory(DirectoryOf(directory));
  struct stat info{};
  if (errno == EEXIST && stat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno == EEXIST ? ENOTDIR : errno, directory);
}

// All that is asked for, with what is there of it.
struct Plan {
  Pair ca;
  bool has_ca = false;
  std::vector<std::pair<Pair, CertificateRequest>> missing;
  std::vector<Pair> there;
};

absl::Status Add(const TlsFolderRequest& request, const std::string& name,
                 CertificateRequest certificate, Plan& plan) {
  Pair pair = PairOf(request.directory, name);
  KERF_ASSIGN_OR_RETURN(const bool is_there, Load(pair));
  if (is_there) {
    if (plan.has_ca && !IsSignedBy(pair.texts.certificate, plan.ca.texts.certificate)) {
      return absl::FailedPreconditionError(Cat(pair.told.certificate_path, " is not of the CA ",
                                               plan.ca.told.certificate_path, ": move it and ",
                                               pair.told.key_path, " away"));
    }
    if (name == kServerName) KERF_RETURN_IF_ERROR(CheckHasNames(pair, request.server_names));
    plan.there.push_back(std::move(pair));
    return absl::OkStatus();
  }
  certificate.valid_for = std::chrono::hours(kHoursOfADay) * request.days;
  plan.missing.emplace_back(std::move(pair), std::move(certificate));
  return absl::OkStatus();
}

absl::StatusOr<Plan> MakePlan(const TlsFolderRequest& request) {
  Plan plan;
  plan.ca = PairOf(request.directory, kCaName);
  KERF_ASSIGN_OR_RETURN(plan.has_ca, Load(plan.ca));
  const bool has_server =
      plan.has_ca && MayExist(PairOf(request.directory, kServerName).told.certificate_path);
  if (!plan.has_ca && request.server_names.empty() && request.clients.empty()) {
    return absl::NotFoundError(Cat(request.directory, " has no CA yet"));
  }
  if (has_server || !request.server_names.empty()) {
    // Also for clients: a front is one of its workers.
    KERF_RETURN_IF_ERROR(Add(request, kServerName,
                             {.common_name = kServerName,
                              .names = request.server_names,
                              .is_for_servers = true,
                              .is_for_clients = true},
                             plan));
  }
  std::set<std::string> seen;
  for (const std::string& client : request.clients) {
    KERF_RETURN_IF_ERROR(CheckClientName(client));
    if (!seen.insert(client).second) continue;
    KERF_RETURN_IF_ERROR(
        Add(request, client,
            {.common_name = client, .names = {ClientUri(client)}, .is_for_clients = true}, plan));
  }
  if (plan.has_ca) {
    KERF_ASSIGN_OR_RETURN(plan.ca.texts.key, ReadText(plan.ca.told.key_path));
    if (!plan.missing.empty()) KERF_RETURN_IF_ERROR(CheckDays(plan.ca, request.days));
  } else if (!plan.there.empty()) {
    return absl::FailedPreconditionError(
        Cat(plan.there[0].told.certificate_path, " is there without its CA, ",
            plan.ca.told.certificate_path, ": bring that back, or begin a new folder"));
  } else {
    KERF_ASSIGN_OR_RETURN(plan.ca.texts, MakeCertificateAuthority(
                                             "kerf CA", std::chrono::hours(kHoursOfADay) *
                                                            std::max(kCaDays, request.days + 1)));
  }
  return plan;
}

}  // namespace

std::string ClientUri(const std::string& name) { return Cat("kerf://client/", name); }

absl::StatusOr<TlsFolder> FillTlsFolder(const TlsFolderRequest& request) {
  KERF_ASSIGN_OR_RETURN(Plan plan, MakePlan(request));
  // Before anything is written: a name may be none.
  for (auto& [pair, certificate] : plan.missing) {
    KERF_ASSIGN_OR_RETURN(pair.texts, MakeCertificate(certificate, plan.ca.texts));
  }
  KERF_RETURN_IF_ERROR(MakeFolder(request.directory));
  if (!plan.has_ca) KERF_RETURN_IF_ERROR(Save(plan.ca));
  TlsFolder folder;
  folder.ca = plan.ca.told;
  for (const Pair& pair : plan.there) folder.pairs.push_back(pair.told);
  for (auto& [pair, certificate] : plan.missing) {
    KERF_RETURN_IF_ERROR(Save(pair));
    folder.pairs.push_back(pair.told);
  }
  std::stable_partition(folder.pairs.begin(), folder.pairs.end(),
                        [](const TlsPair& pair) { return pair.name == kServerName; });
  return folder;
}

}  // namespace kerf::agent
