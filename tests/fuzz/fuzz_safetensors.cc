// Any bytes: a decoded header tiles the data exactly, and what we write from it decodes again.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "wire/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline;
  auto header = wire::DecodeSafetensorsHeader(std::as_bytes(std::span(data, size)), size);
  if (!header.ok()) return 0;
  std::uint64_t end = 0;
  for (const wire::TensorInfo& tensor : header->tensors) {
    PACELINE_CHECK(tensor.begin == end && tensor.end >= end, "tensors tile the data");
    end = tensor.end;
  }
  PACELINE_CHECK(header->data_start + end == size, "tensors end with the file");
  const auto head = wire::EncodeSafetensorsHeader(header->tensors, header->metadata);
  PACELINE_CHECK(head.ok(), "what was read can be written");
  const auto again =
      wire::DecodeSafetensorsHeader(std::as_bytes(std::span(*head)), head->size() + end);
  PACELINE_CHECK(again.ok() && again->tensors.size() == header->tensors.size() &&
                     again->metadata == header->metadata,
                 "what was written reads the same");
  return 0;
}
