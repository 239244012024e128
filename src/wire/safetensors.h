#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

// The safetensors container (https://github.com/huggingface/safetensors), header only:
//   u64 length | JSON header, padded with spaces | tensor data
// Pure: bytes in, structs out. Reading and writing files is the caller's.
namespace paceline::wire {

enum class DType : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64,
  kC64,
};

const char* DTypeName(DType dtype);  // "F32", as in the file
std::optional<DType> DTypeFromName(std::string_view name);
std::size_t DTypeBytes(DType dtype);

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  // C order; empty is a scalar
  std::uint64_t begin = 0;          // first and past-the-end byte, counted from the data start
  std::uint64_t end = 0;
};

// Bytes of a tensor of this type and shape; kBadData when negative or beyond 64 bits.
Result<std::uint64_t> TensorBytes(DType dtype, std::span<const std::int64_t> shape);

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their data
  Metadata metadata;
  std::uint64_t data_start = 0;  // offset of the data in the file; a multiple of 8 if we wrote it
};

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // the format's own limit

// Everything that stands before the data. The tensors lie back to back in the given order; their
// `begin` and `end` are ignored. kInvalidArgument names a tensor that cannot be written.
Result<std::string> EncodeSafetensorsHeader(std::span<const TensorInfo> tensors,
                                            const Metadata& metadata = {});

// `head` is the start of a file of `file_bytes` bytes and holds at least the whole header.
// Checks all rules of the format: afterwards the tensors tile the data exactly. kBadData names
// the tensor or the offset.
Result<SafetensorsHeader> DecodeSafetensorsHeader(std::span<const std::byte> head,
                                                  std::uint64_t file_bytes);

}  // namespace paceline::wire
