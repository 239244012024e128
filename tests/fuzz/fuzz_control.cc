// What decodes must encode to the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "wire/control.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto message = paceline::wire::DecodeControl(bytes);
  if (!message.ok()) return 0;
  const std::vector<std::byte> again = paceline::wire::EncodeControl(*message);
  PACELINE_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
                 "one way to write a message");
  return 0;
}
