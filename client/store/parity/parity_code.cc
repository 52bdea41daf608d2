#include "client/store/parity/parity_code.h"

#include <dlfcn.h>
#include <isa-l/erasure_code.h>

#include <string>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace kerf::agent {

struct ErasureLibrary {
  decltype(&::gf_gen_cauchy1_matrix) make_matrix = nullptr;
  decltype(&::gf_invert_matrix) invert_matrix = nullptr;
  decltype(&::gf_mul) multiply = nullptr;
  decltype(&::ec_init_tables) init_tables = nullptr;
  decltype(&::ec_encode_data) encode_data = nullptr;
  // Empty: it is loaded.
  std::string problem;
};

namespace {

constexpr const char* kLibraryName = "libisal.so.2";
// Of the library: for each coefficient.
constexpr std::size_t kTableBytes = 32;

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

ErasureLibrary Load() {
  ErasureLibrary loaded;
  // Never closed: it is used as long as the process lives.
  void* const library = dlopen(kLibraryName, RTLD_NOW | RTLD_LOCAL);
  const bool has_all = library != nullptr &&
                       Find(library, "gf_gen_cauchy1_matrix", loaded.make_matrix) &&
                       Find(library, "gf_invert_matrix", loaded.invert_matrix) &&
                       Find(library, "gf_mul", loaded.multiply) &&
                       Find(library, "ec_init_tables", loaded.init_tables) &&
                       Find(library, "ec_encode_data", loaded.encode_data);
  if (!has_all) {
    const char* const error = dlerror();
    loaded.problem = error != nullptr ? error : kLibraryName;
  }
  return loaded;
}

const ErasureLibrary& Library() {
  static const ErasureLibrary library = Load();
  return library;
}

}  // namespace

absl::StatusOr<ParityCode> ParityCode::Make(std::uint32_t data_count, std::uint32_t parity_count) {
  const ErasureLibrary& library = Library();
  if (!library.problem.empty()) {
    return absl::UnavailableError(
        Cat("parity needs Intel's library ISA-L, which cannot be loaded (", library.problem,
            "): install it, on Debian with `apt-get install libisal2`"));
  }
  return ParityCode(library, data_count, parity_count);
}

ParityCode::ParityCode(const ErasureLibrary& library, std::uint32_t data_count,
                       std::uint32_t parity_count)
    : library_(&library), data_count_(data_count), parity_count_(parity_count) {
  KERF_CHECK(data_count > 0 && parity_count > 0 && data_count + parity_count <= 255);
  const std::uint32_t row_count = data_count + parity_count;
  matrix_.resize(std::size_t{row_count} * data_count);
  library_->make_matrix(matrix_.data(), static_cast<int>(row_count), static_cast<int>(data_count));
}

// `rows` has data_count coefficients for each of `out`.
void ParityCode::Multiply(std::vector<std::uint8_t> rows, std::span<std::uint8_t* const> in,
                          std::span<std::uint8_t* const> out, std::size_t size_bytes) const {
  KERF_CHECK(in.size() == data_count_ && rows.size() == out.size() * data_count_);
  std::vector<std::uint8_t> tables(rows.size() * kTableBytes);
  const auto in_count = static_cast<int>(data_count_);
  const auto out_count = static_cast<int>(out.size());
  library_->init_tables(in_count, out_count, rows.data(), tables.data());
  std::vector<std::uint8_t*> sources(in.begin(), in.end());
  std::vector<std::uint8_t*> targets(out.begin(), out.end());
  library_->encode_data(static_cast<int>(size_bytes), in_count, out_count, tables.data(),
                        sources.data(), targets.data());
}

void ParityCode::Encode(std::span<std::uint8_t* const> data, std::span<std::uint8_t* const> parity,
                        std::size_t size_bytes) const {
  const std::size_t first = std::size_t{data_count_} * data_count_;
  KERF_CHECK(parity.size() == parity_count_);
  Multiply({matrix_.begin() + static_cast<std::ptrdiff_t>(first), matrix_.end()}, data, parity,
           size_bytes);
}

// What is lost is solved for alone: the parity of known sectors is taken off their equations, which
// leaves one for each sector that is lost. Inverting the whole group would take data_count^3 steps.
bool ParityCode::Recover(std::span<const std::uint32_t> sources,
                         std::span<std::uint8_t* const> source_bytes,
                         std::span<const std::uint32_t> lost, std::span<std::uint8_t* const> out,
                         std::size_t size_bytes) const {
  KERF_CHECK(sources.size() == data_count_ && lost.size() == out.size());
  if (lost.empty()) return true;
  std::vector<std::uint32_t> equations;
  for (const std::uint32_t source : sources) {
    KERF_CHECK(source < data_count_ + parity_count_);
    if (source >= data_count_) equations.push_back(source);
  }
  KERF_CHECK(equations.size() == lost.size());
  std::vector<std::uint8_t> square;
  for (const std::uint32_t equation : equations) {
    for (const std::uint32_t sector : lost) square.push_back(Coefficient(equation, sector));
  }
  std::vector<std::uint8_t> inverse(square.size());
  const std::size_t size = lost.size();
  if (library_->invert_matrix(square.data(), inverse.data(), static_cast<int>(size)) != 0) {
    return false;
  }
  std::vector<std::uint8_t> rows;
  for (std::size_t row = 0; row < size; ++row) {
    std::size_t parity = 0;
    for (const std::uint32_t source : sources) {
      if (source >= data_count_) {
        rows.push_back(inverse[row * size + parity++]);
        continue;
      }
      std::uint8_t sum = 0;
      for (std::size_t column = 0; column < size; ++column) {
        sum ^= library_->multiply(inverse[row * size + column],
                                  Coefficient(equations[column], source));
      }
      rows.push_back(sum);
    }
  }
  Multiply(std::move(rows), source_bytes, out, size_bytes);
  return true;
}

}  // namespace kerf::agent
