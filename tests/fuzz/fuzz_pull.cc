// A pull as a server receives it, and changed rows as a trainer does.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "ps/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::ps;
  MessageBytes aligned((size + 7) / 8);
  if (size > 0) std::memcpy(aligned.data(), data, size);
  const auto bytes = AsBytes(aligned).first(size);
  if (const auto call = DecodePull(bytes); call.ok()) {
    PACELINE_CHECK(std::ranges::equal(AsBytes(EncodePull(*call)), bytes), "one way to write it");
  }
  constexpr std::size_t kDim = 3;
  if (const auto rows = DecodeChanged(bytes, kDim); rows.ok()) {
    PACELINE_CHECK(rows->values.size() == rows->ids.size() * kDim, "a row for each id");
  }
  return 0;
}
