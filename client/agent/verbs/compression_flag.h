// How the verbs that write packs are told to compress them.
#pragma once

#include <string>

#include "client/cli/context.h"
#include "client/store/packs/compression.h"

namespace kerf::agent {

inline constexpr char kCompression[] = "auto";

inline void AddCompressionOption(const Verb& verb, std::string& how) {
  verb.AddOption("--compression", how,
                 "How new packs are compressed: off, fast, default, max, a level of zstd from 1 to "
                 "19, or auto, which becomes as small as default in less time: what looks random "
                 "is only tried, and where the store's disk is slower than the processor it is "
                 "compressed harder")
      .Check(RefuseNoCompression)
      .Type("HOW")
      .ShowDefault();
}

}  // namespace kerf::agent
