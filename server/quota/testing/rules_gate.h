// For tests: a gate whose rules are a text.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/strings.h"
#include "server/access/access_source.h"
#include "server/access/gate.h"

namespace kerf {

class RulesGate {
 public:
  explicit RulesGate(std::string_view rules) {
    static std::atomic<int> count{0};
    path_ = Cat(std::getenv("TEST_TMPDIR"), "/rules-", getpid(), "-", count++, ".toml");
    // A file names somebody.
    std::ofstream(path_) << "[[identity]]\nname = \"kerf://somebody\"\n" << rules;
    auto source = access::AccessSource::Open(path_, nullptr);
    KERF_CHECK(source.ok());
    source_ = *std::move(source);
    gate_ = std::make_unique<access::Gate>(source_.get());
  }
  ~RulesGate() { std::filesystem::remove(path_); }
  RulesGate(const RulesGate&) = delete;
  RulesGate& operator=(const RulesGate&) = delete;

  const access::Gate* gate() const { return gate_.get(); }
  const access::AccessSource* source() const { return source_.get(); }

 private:
  std::string path_;
  std::unique_ptr<access::AccessSource> source_;
  std::unique_ptr<access::Gate> gate_;
};

}  // namespace kerf
