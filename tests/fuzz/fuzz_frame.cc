// Any header, once as it is and once with a correct checksum: otherwise the checksum would hide the
// decoder from the fuzzer. What decodes must encode to the same bytes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "wire/crc32c.h"
#include "wire/endian.h"
#include "wire/frame.h"

namespace {

using namespace paceline::wire;

void Check(std::span<const std::byte, kHeaderBytes> bytes) {
  const auto header = DecodeHeader(bytes);
  if (!header.ok()) return;
  PACELINE_CHECK(header->length <= MaxPayload(header->type), "lengths are bounded");
  const auto again = EncodeHeader(*header);
  PACELINE_CHECK(std::equal(again.begin(), again.end(), bytes.begin()),
                 "one way to write a header");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kHeaderBytes) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).first<kHeaderBytes>();
  Check(bytes);
  constexpr std::size_t kChecked = kHeaderBytes - sizeof(std::uint32_t);
  std::array<std::byte, kHeaderBytes> sealed{};
  std::copy(bytes.begin(), bytes.end(), sealed.begin());
  StoreU32(&sealed[kChecked], Crc32c(std::span(sealed).first<kChecked>()));
  Check(sealed);
  return 0;
}
