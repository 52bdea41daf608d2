// What lies behind a cut is read again for the next one. Where a rule reads far behind its cuts and
// the data makes the cuts close together (mincdc:min=64,max=4194304 on zeros), that is the square
// of the work. These remember what they have seen.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/chunker.h"
#include "kernels/profile.h"

namespace kerf {

// A chunker of that backend, which lives for ever, whose MakeAhead gives something for the rules
// that read behind their cuts, where their chunks may be so short that it counts: mincdc, maxcdc,
// tttd, rabin and crc. None as Backend::make. The cuts are the backend's.
std::unique_ptr<Chunker> MakeWithAhead(const Backend& backend, const Profile& profile);

}  // namespace kerf
