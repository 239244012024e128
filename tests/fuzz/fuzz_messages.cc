// The first byte chooses the message. What decodes must encode to the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "wire/messages.h"

namespace {

template <typename Message>
void Check(std::span<const std::byte> bytes) {
  const auto message = Message::Decode(bytes);
  if (!message.ok()) return;
  const std::vector<std::byte> again = message->Encode();
  PACELINE_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
                 "one way to write a message");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::wire;
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 7) {
    case 0: Check<Hello>(bytes); break;
    case 1: Check<Challenge>(bytes); break;
    case 2: Check<Proof>(bytes); break;
    case 3: Check<Failure>(bytes); break;
    case 4: Check<Join>(bytes); break;
    case 5: Check<View>(bytes); break;
    default: Check<Local>(bytes);
  }
  return 0;
}
