#include "data/batch.h"

#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace paceline::data {

namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector register

constexpr std::size_t BytesOf(ElementType type) {
  return type == ElementType::kFloat ? sizeof(float) : sizeof(std::int64_t);
}

}  // namespace

std::size_t BatchTensor::Elements() const {
  std::size_t elements = 1;
  for (const std::int64_t extent : shape) elements *= static_cast<std::size_t>(extent);
  return elements;
}

std::span<float> BatchTensor::Floats() const {
  PACELINE_CHECK(type == ElementType::kFloat, "an array of floats");
  return {static_cast<float*>(values), Elements()};
}

std::span<std::int64_t> BatchTensor::Integers() const {
  PACELINE_CHECK(type == ElementType::kInt64, "an array of integers");
  return {static_cast<std::int64_t*>(values), Elements()};
}

Result<BatchTensor*> BatchBuffer::Place(std::size_t place, ElementType type,
                                        std::vector<std::int64_t> shape) {
  if (place >= batch.tensors.size()) batch.tensors.resize(place + 1);
  if (place >= blocks_.size()) blocks_.resize(place + 1);
  BatchTensor& tensor = batch.tensors[place];
  tensor = {.type = type, .shape = std::move(shape)};
  Block& block = blocks_[place];
  const std::size_t wanted = tensor.Elements() * BytesOf(type);
  const std::size_t bytes = (wanted / kAlignment + 1) * kAlignment;  // never none
  if (bytes > block.bytes) {
    block = {};
    block.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
    if (block.memory == nullptr) {
      return Status::Error(Code::kUnavailable,
                           fmt::format("no memory for a batch of {} samples", batch.count));
    }
    block.bytes = bytes;
  }
  tensor.values = block.memory.get();
  return &tensor;
}

Result<std::span<float>> BatchBuffer::Floats(std::size_t place, std::vector<std::int64_t> shape) {
  PACELINE_ASSIGN(const BatchTensor* tensor, Place(place, ElementType::kFloat, std::move(shape)));
  return tensor->Floats();
}

Result<std::span<std::int64_t>> BatchBuffer::Integers(std::size_t place,
                                                      std::vector<std::int64_t> shape) {
  PACELINE_ASSIGN(const BatchTensor* tensor, Place(place, ElementType::kInt64, std::move(shape)));
  return tensor->Integers();
}

}  // namespace paceline::data
