// Sequential forms that are faster than the specification on any processor.
#pragma once

#include "kernels/backend.h"

namespace kerf {

Backend ScalarBackend();

}  // namespace kerf
