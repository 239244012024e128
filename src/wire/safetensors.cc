#include "wire/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "wire/endian.h"
#include "wire/json_check.h"

namespace paceline::wire {

namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr int kHeaderDepth = 3;  // header, tensor, shape
constexpr char kMetadataKey[] = "__metadata__";

struct DTypeRow {
  const char* name;
  std::size_t bytes;
};

constexpr std::array<DTypeRow, 16> kDTypes{{{"BOOL", 1},
                                            {"U8", 1},
                                            {"I8", 1},
                                            {"F8_E4M3", 1},
                                            {"F8_E5M2", 1},
                                            {"I16", 2},
                                            {"U16", 2},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"I32", 4},
                                            {"U32", 4},
                                            {"F32", 4},
                                            {"I64", 8},
                                            {"U64", 8},
                                            {"F64", 8},
                                            {"C64", 8}}};
static_assert(static_cast<std::size_t>(DType::kC64) + 1 == kDTypes.size());

Status BadTensors(const std::string& message) { return Status::Error(Code::kBadData, message); }

// A JSON string with quotes and escapes; fails on text that is not UTF-8.
Result<std::string> Quote(const std::string& text) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    return Status::Error(Code::kInvalidArgument, fmt::format("\"{}\" is not UTF-8", text));
  }
}

Result<std::string> EncodeMetadata(const Metadata& metadata) {
  std::string text = fmt::format("\"{}\":{{", kMetadataKey);
  const char* separator = "";
  for (const auto& [key, value] : metadata) {
    PACELINE_ASSIGN(const std::string quoted_key, Quote(key));
    PACELINE_ASSIGN(const std::string quoted_value, Quote(value));
    text += fmt::format("{}{}:{}", separator, quoted_key, quoted_value);
    separator = ",";
  }
  return text + "}";
}

// The list below `key` as unsigned numbers, each at most `max`.
Result<std::vector<std::uint64_t>> Numbers(const json& tensor, const char* key, std::uint64_t max) {
  const auto found = tensor.find(key);
  if (found == tensor.end() || !found->is_array())
    return BadTensors(fmt::format("{} is no list", key));
  std::vector<std::uint64_t> numbers;
  numbers.reserve(found->size());
  for (const json& number : *found) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > max) {
      return BadTensors(
          fmt::format("{} has {}, expected a number of 0 to {}", key, number.dump(), max));
    }
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

Result<TensorInfo> DecodeTensor(const std::string& name, const json& tensor) {
  if (!tensor.is_object()) return BadTensors("is no object");
  const auto dtype_name = tensor.find("dtype");
  if (dtype_name == tensor.end() || !dtype_name->is_string()) return BadTensors("dtype is no text");
  const auto dtype = DTypeFromName(dtype_name->get_ref<const std::string&>());
  if (!dtype) return BadTensors(fmt::format("unknown dtype {}", dtype_name->dump()));

  PACELINE_ASSIGN(const auto shape,
                  Numbers(tensor, "shape", std::numeric_limits<std::int64_t>::max()));
  PACELINE_ASSIGN(const auto offsets,
                  Numbers(tensor, "data_offsets", std::numeric_limits<std::uint64_t>::max()));
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    return BadTensors(fmt::format("data_offsets {} are no range", offsets));
  }
  TensorInfo info{name, *dtype, {shape.begin(), shape.end()}, offsets[0], offsets[1]};
  PACELINE_ASSIGN(const std::uint64_t bytes, TensorBytes(info.dtype, info.shape));
  if (bytes != info.end - info.begin) {
    return BadTensors(fmt::format("{} of shape {} has {} bytes, data_offsets {} say {}",
                                  DTypeName(info.dtype), info.shape, bytes, offsets,
                                  info.end - info.begin));
  }
  return info;
}

Result<Metadata> DecodeMetadata(const json& value) {
  if (!value.is_object()) return BadTensors("is no object");
  Metadata metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return BadTensors(fmt::format("value of \"{}\" is no text", key));
    metadata.emplace(key, text.get_ref<const std::string&>());
  }
  return metadata;
}

// The tensors must cover the data from 0 to the end without hole or overlap.
Status CheckTiling(const std::vector<TensorInfo>& tensors, std::uint64_t data_bytes) {
  std::uint64_t expected = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != expected) {
      return BadTensors(fmt::format("tensor \"{}\" begins at {}, the one before it ends at {}",
                                    tensor.name, tensor.begin, expected));
    }
    expected = tensor.end;
  }
  if (expected == data_bytes) return {};
  return BadTensors(fmt::format("tensors end at {}, the data at {}", expected, data_bytes));
}

// The JSON text between the length and the data.
Result<std::string_view> HeaderText(std::span<const std::byte> head, std::uint64_t file_bytes) {
  if (head.size() < kLengthBytes || file_bytes < kLengthBytes) {
    return BadTensors(
        fmt::format("{} bytes are too few for a header", std::min(head.size(), file_bytes)));
  }
  const std::uint64_t length = LoadU64(head.data());
  if (length > kMaxSafetensorsHeader) {
    return BadTensors(
        fmt::format("header of {} bytes, at most {} are allowed", length, kMaxSafetensorsHeader));
  }
  const std::uint64_t available = std::min<std::uint64_t>(head.size(), file_bytes) - kLengthBytes;
  if (length > available) {
    return BadTensors(fmt::format("header of {} bytes, {} are there", length, available));
  }
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + kLengthBytes, length);
  if (!text.starts_with('{')) return BadTensors("header does not start with '{'");
  return text;
}

}  // namespace

const char* DTypeName(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }

std::size_t DTypeBytes(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].bytes; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (name == kDTypes[i].name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

Result<std::uint64_t> TensorBytes(DType dtype, std::span<const std::int64_t> shape) {
  std::uint64_t bytes = DTypeBytes(dtype);
  for (const std::int64_t extent : shape) {
    if (extent < 0) return BadTensors(fmt::format("shape has the negative extent {}", extent));
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return BadTensors(fmt::format("shape {} does not fit into 64 bits", fmt::join(shape, "x")));
    }
  }
  return bytes;
}

Result<std::string> EncodeSafetensorsHeader(std::span<const TensorInfo> tensors,
                                            const Metadata& metadata) {
  std::string text(kLengthBytes, '\0');
  const char* separator = "{";
  if (!metadata.empty()) {
    PACELINE_ASSIGN(const std::string encoded, EncodeMetadata(metadata));
    text += separator + encoded;
    separator = ",";
  }
  std::set<std::string_view> names{kMetadataKey};
  std::uint64_t begin = 0;
  for (const TensorInfo& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return Status::Error(Code::kInvalidArgument,
                           fmt::format("tensor name \"{}\" is taken", tensor.name));
    }
    PACELINE_ASSIGN(const std::string name, Quote(tensor.name));
    const auto bytes = TensorBytes(tensor.dtype, tensor.shape);
    std::uint64_t end = 0;
    if (!bytes.ok() || __builtin_add_overflow(begin, *bytes, &end)) {
      return Status::Error(Code::kInvalidArgument, fmt::format("size of tensor {}", name));
    }
    text += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", separator,
                        name, DTypeName(tensor.dtype), fmt::join(tensor.shape, ","), begin, end);
    separator = ",";
    begin = end;
  }
  if (*separator == '{') text += '{';
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size() - kLengthBytes;
  if (length > kMaxSafetensorsHeader) {
    return Status::Error(Code::kInvalidArgument, fmt::format("header of {} bytes", length));
  }
  StoreU64(reinterpret_cast<std::byte*>(text.data()), length);
  return text;
}

Result<SafetensorsHeader> DecodeSafetensorsHeader(std::span<const std::byte> head,
                                                  std::uint64_t file_bytes) {
  PACELINE_ASSIGN(const std::string_view text, HeaderText(head, file_bytes));
  PACELINE_TRY(CheckJson(text, kHeaderDepth).Wrap("header"));
  const json parsed = json::parse(text.begin(), text.end(), nullptr, false);
  if (!parsed.is_object()) return BadTensors("header is no JSON object");

  SafetensorsHeader header;
  header.data_start = kLengthBytes + text.size();
  for (const auto& [name, value] : parsed.items()) {
    if (name == kMetadataKey) {
      auto metadata = DecodeMetadata(value);
      if (!metadata.ok()) return metadata.status().Wrap(kMetadataKey);
      header.metadata = std::move(metadata).value();
      continue;
    }
    auto tensor = DecodeTensor(name, value);
    if (!tensor.ok()) return tensor.status().Wrap(fmt::format("tensor \"{}\"", name));
    header.tensors.push_back(std::move(tensor).value());
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  PACELINE_TRY(CheckTiling(header.tensors, file_bytes - header.data_start));
  return header;
}

}  // namespace paceline::wire
