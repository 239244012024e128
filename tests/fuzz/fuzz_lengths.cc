// Any bytes as lengths of lines, once as they are and once behind a header and with the right
// checksum: what is read can be written.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "data/piece_lengths.h"
#include "wire/crc32c.h"
#include "wire/endian.h"

namespace {

using namespace paceline;

void Check(std::span<const std::byte> bytes) {
  const auto lengths = data::DecodePieceLengths(bytes);
  if (!lengths.ok()) return;
  PACELINE_CHECK(std::ranges::equal(data::EncodePieceLengths(*lengths), bytes),
                 "one way to write lengths");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  Check(bytes);
  constexpr std::size_t kHeader = 12, kChecksum = 4;
  std::vector<std::byte> sealed = data::EncodePieceLengths({});
  sealed.resize(kHeader);
  sealed.insert(sealed.end(), bytes.begin(), bytes.end());
  const std::uint32_t checksum = wire::Crc32c(sealed);
  sealed.resize(sealed.size() + kChecksum);
  wire::StoreLittle(sealed.data() + sealed.size() - kChecksum, checksum);
  Check(sealed);
  return 0;
}
