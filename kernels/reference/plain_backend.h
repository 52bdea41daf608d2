// The specification as a backend: slow, and right by definition.
#pragma once

#include "kernels/backend.h"

namespace kerf {

Backend PlainBackend();

}  // namespace kerf
