// make_vectors --write FILE | --check FILE: see tools/vectors.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "kernels/vectors/vectors.h"

namespace {

int Write(const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << kerf::MakeVectors() << std::flush;
  if (file) return 0;
  std::fprintf(stderr, "vectors: cannot write %s\n", path.c_str());
  return 1;
}

int Check(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "vectors: cannot read %s\n", path.c_str());
    return 1;
  }
  const std::string vectors{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (vectors != kerf::MakeVectors()) {
    std::fprintf(stderr,
                 "vectors: %s is not what the references make. If a rule was changed by mistake, "
                 "change it back; a new rule gets a new algorithm name.\n",
                 path.c_str());
    return 1;
  }
  const absl::Status status = kerf::CheckKernelsAgainst(vectors);
  if (status.ok()) return 0;
  std::fprintf(stderr, "vectors: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc == 3 ? argv[1] : "";
  if (mode == "--write") return Write(argv[2]);
  if (mode == "--check") return Check(argv[2]);
  std::fprintf(stderr, "usage: make_vectors --write FILE | --check FILE\n");
  return 2;
}
