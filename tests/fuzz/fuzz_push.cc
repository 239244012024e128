// A push as a server receives it: what decodes must encode to the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "ps/push_message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::ps;
  MessageBytes aligned((size + 7) / 8);
  if (size > 0) std::memcpy(aligned.data(), data, size);
  const auto bytes = AsBytes(aligned).first(size);
  const auto push = DecodePush(bytes);
  if (!push.ok()) return 0;
  const MessageBytes again = EncodePush(*push);
  PACELINE_CHECK(std::ranges::equal(AsBytes(again), bytes), "one way to write a push");
  return 0;
}
