// A folder with a small CA, and keys and certificates of it: for a kerfd and its clients.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kerf::agent {

// Of the CA, and of a server's key and certificate.
inline constexpr char kCaName[] = "ca";
inline constexpr char kServerName[] = "kerfd";

struct TlsFolderRequest {
  std::string directory;
  // Hosts and IP addresses at which clients reach the server. Empty: none is made.
  std::vector<std::string> server_names;
  // Each gets files of its name, and kerf://client/NAME in its certificate.
  std::vector<std::string> clients;
  int days = 365;
};

// A certificate, NAME.pem, and its key, NAME.key.
struct TlsPair {
  std::string name;
  std::string certificate_path;
  std::string key_path;
  bool is_new = false;
  // What peers may know it by; none of the CA.
  std::vector<std::string> names;
  std::int64_t expires_at_s = 0;
};

struct TlsFolder {
  TlsPair ca;
  // The server's, if it is there now, and those that were asked for.
  std::vector<TlsPair> pairs;
};

// What a client's certificate says of who it is.
std::string ClientUri(const std::string& name);

// Makes what is missing: the folder, the CA, and what is asked for. Nothing that is there is
// changed. Files get their names once they are whole; a key is its owner's alone from its first
// byte on. InvalidArgument for names that cannot be, FailedPrecondition where something in the
// folder is in the way: nothing is made then. NotFound: nobody is asked for, and there is no CA
// yet.
absl::StatusOr<TlsFolder> FillTlsFolder(const TlsFolderRequest& request);

}  // namespace kerf::agent
