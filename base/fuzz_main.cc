// Runs a libFuzzer target without libFuzzer: each corpus file named on the command line, then
// seeded mutations of the corpus and of empty input for KERF_FUZZ_SECONDS (2 by default). A crash
// leaves the input in a file whose name is printed; the program run with that file alone replays
// it.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

constexpr std::size_t kMaxInputBytes = 64 * 1024;
constexpr double kDefaultSeconds = 2;

const Input* current_input = nullptr;
char crash_path[256];

// Only async-signal-safe calls: the process is already broken.
void SaveAndDie(int signal_number) {
  if (current_input != nullptr) {
    const int file = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file >= 0) {
      const ssize_t written = write(file, current_input->data(), current_input->size());
      close(file);
      static const char message[] = "fuzz: the input that crashed is in ";
      if (written >= 0 && write(2, message, sizeof message - 1) > 0) {
        std::size_t length = 0;
        while (crash_path[length] != '\0') ++length;
        if (write(2, crash_path, length) > 0 && write(2, "\n", 1) < 0) _exit(1);
      }
    }
  }
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void Run(const Input& input) {
  current_input = &input;
  LLVMFuzzerTestOneInput(input.data(), input.size());
  current_input = nullptr;
}

void Mutate(kerf::Random& random, const std::vector<Input>& corpus, Input& input) {
  const std::uint64_t steps = random.Between(1, 8);
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::size_t at = random.Below(input.size() + 1);
    switch (random.Below(7)) {
      case 0:
        if (at < input.size()) input[at] ^= static_cast<std::uint8_t>(1u << random.Below(8));
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<std::uint8_t>(random.Next());
        break;
      case 2:
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), random.Between(1, 16),
                     static_cast<std::uint8_t>(random.Next()));
        break;
      case 3:
        input.resize(at);
        break;
      case 4: {
        const std::size_t count = random.Below(input.size() - at + 1);
        input.erase(input.begin() + static_cast<std::ptrdiff_t>(at),
                    input.begin() + static_cast<std::ptrdiff_t>(at + count));
        break;
      }
      case 5: {
        static constexpr std::uint8_t kEdges[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
        for (std::size_t index = at; index < input.size() && index < at + 4; ++index) {
          input[index] = kEdges[random.Below(sizeof kEdges)];
        }
        break;
      }
      default: {
        const Input& other = corpus[random.Below(corpus.size())];
        const std::size_t from = random.Below(other.size() + 1);
        input.resize(at);
        input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
        break;
      }
    }
  }
  if (input.size() > kMaxInputBytes) input.resize(kMaxInputBytes);
}

}  // namespace

int main(int argc, char** argv) {
  const char* directory = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  std::snprintf(crash_path, sizeof crash_path, "%s/kerf-fuzz-crash-%d",
                directory != nullptr ? directory : "/tmp", getpid());
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal_number, SaveAndDie);
  }

  std::vector<Input> corpus(1);
  for (int index = 1; index < argc; ++index) {
    std::ifstream file(argv[index], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "fuzz: cannot read %s\n", argv[index]);
      return 2;
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  for (const Input& input : corpus) Run(input);

  const char* seconds_text = std::getenv("KERF_FUZZ_SECONDS");
  const double seconds =
      seconds_text != nullptr ? std::strtod(seconds_text, nullptr) : kDefaultSeconds;
  const char* seed_text = std::getenv("KERF_TEST_SEED");
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t seed = seed_text != nullptr
                                 ? std::strtoull(seed_text, nullptr, 0)
                                 : static_cast<std::uint64_t>(start.time_since_epoch().count());
  std::fprintf(stderr, "fuzz: %.0f s; replay with KERF_TEST_SEED=%llu\n", seconds,
               static_cast<unsigned long long>(seed));
  kerf::Random random(seed);
  std::uint64_t runs = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
         seconds) {
    Input input = corpus[random.Below(corpus.size())];
    Mutate(random, corpus, input);
    Run(input);
    ++runs;
  }
  std::fprintf(stderr, "fuzz: %llu inputs, no crash\n", static_cast<unsigned long long>(runs));
  return 0;
}
