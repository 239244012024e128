#pragma once

#include "base/status.h"

namespace paceline {

// kMismatch when this CPU lacks instructions that the loops of kernel/ are compiled to: AVX2 and
// FMA on x86-64. Whoever trains asks before the first of them.
Status CheckCpu();

// The parts of AVX-512 that servers have had since it came to them: F, BW, CD, DQ and VL.
bool HasAvx512();

}  // namespace paceline
