#include "disk/manifest.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "wire/crc32c.h"
#include "wire/json_check.h"

namespace paceline::disk {

namespace {

using nlohmann::json;

// Without a checksum of its own, one flipped bit in a digit would resume at another step. The
// envelope is compared byte by byte, so that it needs no rule for how JSON is written.
constexpr std::string_view kOpen = R"({"crc32c":")";
constexpr std::string_view kMiddle = "\",\"manifest\":";
constexpr std::string_view kClose = "}\n";
constexpr std::size_t kCrcDigits = 8;
constexpr int kDepth = 3;  // body, files, file

Status Bad(const std::string& message) { return Status::Error(Code::kBadData, message); }

std::uint32_t CrcOf(std::string_view text) { return wire::Crc32c(std::as_bytes(std::span(text))); }

// Exactly eight hexadecimal digits.
Result<std::uint32_t> ParseCrc(std::string_view digits) {
  std::uint32_t crc = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), crc, 16);
  if (digits.size() != kCrcDigits || parsed.ec != std::errc() ||
      parsed.ptr != digits.data() + digits.size()) {
    return Bad(fmt::format("checksum is not {} hexadecimal digits", kCrcDigits));
  }
  return crc;
}

Result<std::string_view> OpenEnvelope(std::string_view text) {
  const std::size_t head = kOpen.size() + kCrcDigits + kMiddle.size();
  if (text.size() < head + kClose.size() || !text.starts_with(kOpen) ||
      text.substr(kOpen.size() + kCrcDigits, kMiddle.size()) != kMiddle ||
      !text.ends_with(kClose)) {
    return Bad(fmt::format("{} bytes that are no manifest", text.size()));
  }
  PACELINE_ASSIGN(const std::uint32_t expected, ParseCrc(text.substr(kOpen.size(), kCrcDigits)));
  const std::string_view body = text.substr(head, text.size() - head - kClose.size());
  if (const std::uint32_t actual = CrcOf(body); actual != expected) {
    return Bad(fmt::format("manifest has CRC-32C {:08x}, expected {:08x}", actual, expected));
  }
  return body;
}

// Reads the fields of one object and remembers the first that is missing or of the wrong type.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  const Status& status() const { return status_; }

  std::uint64_t Unsigned(const char* key) {
    const json* value = Find(key, "a number that is not negative",
                             [](const json& v) { return v.is_number_unsigned(); });
    return value == nullptr ? 0 : value->get<std::uint64_t>();
  }
  std::string Text(const char* key) {
    const json* value = Find(key, "a text", [](const json& v) { return v.is_string(); });
    return value == nullptr ? "" : value->get_ref<const std::string&>();
  }
  // An empty object or list when it is missing.
  const json& Object(const char* key) {
    static const json empty = json::object();
    const json* value = Find(key, "an object", [](const json& v) { return v.is_object(); });
    return value == nullptr ? empty : *value;
  }
  const json& List(const char* key) {
    static const json empty = json::array();
    const json* value = Find(key, "a list", [](const json& v) { return v.is_array(); });
    return value == nullptr ? empty : *value;
  }

 private:
  template <typename IsRight>
  const json* Find(const char* key, const char* expected, IsRight is_right) {
    const auto found = object_.find(key);
    if (found != object_.end() && is_right(*found)) return &*found;
    if (status_.ok()) status_ = Bad(fmt::format("\"{}\" is not {}", key, expected));
    return nullptr;
  }

  const json& object_;
  Status status_;
};

Result<Number> DecodeNumber(const json& value) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > kMax) {
    return Bad("number is beyond 64 bits");
  }
  if (value.is_number_integer()) return Number(value.get<std::int64_t>());
  if (value.is_number_float()) return Number(value.get<double>());
  return Bad("is no number");
}

Status DecodeMaps(Fields& fields, CheckpointMeta* meta) {
  for (const auto& [key, value] : fields.Object("config").items()) {
    if (!value.is_string()) return Bad(fmt::format("config \"{}\" is no text", key));
    meta->config.emplace(key, value.get_ref<const std::string&>());
  }
  for (const auto& [key, value] : fields.Object("counters").items()) {
    auto number = DecodeNumber(value);
    if (!number.ok()) return number.status().Wrap(fmt::format("counter \"{}\"", key));
    meta->counters.emplace(key, *number);
  }
  return {};
}

Result<ManifestFile> DecodeFile(const json& value) {
  if (!value.is_object()) return Bad("is no object");
  Fields fields(value);
  ManifestFile file{.name = fields.Text("name"), .bytes = fields.Unsigned("bytes")};
  const std::string crc = fields.Text("crc32c");
  PACELINE_TRY(fields.status());
  if (!IsPlainFileName(file.name)) return Bad(fmt::format("\"{}\" is no plain name", file.name));
  auto parsed = ParseCrc(crc);
  if (!parsed.ok()) return parsed.status().Wrap(file.name);
  file.crc32c = *parsed;
  return file;
}

Status DecodeFiles(const json& list, std::vector<ManifestFile>* files) {
  std::set<std::string> names;
  for (const json& value : list) {
    auto file = DecodeFile(value);
    if (!file.ok()) return file.status().Wrap(fmt::format("file {}", files->size()));
    if (!names.insert(file->name).second) {
      return Bad(fmt::format("file \"{}\" is listed twice", file->name));
    }
    files->push_back(std::move(file).value());
  }
  return {};
}

json EncodeBody(const Manifest& manifest) {
  const CheckpointMeta& meta = manifest.meta;
  json counters = json::object();
  for (const auto& [key, number] : meta.counters) {
    counters[key] = std::visit([](auto value) { return json(value); }, number);
  }
  json files = json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"name", file.name},
                     {"bytes", file.bytes},
                     {"crc32c", fmt::format("{:08x}", file.crc32c)}});
  }
  return {{"schema", kManifestSchema},
          {"cluster_id", meta.cluster_id},
          {"generation", meta.generation.value()},
          {"step", meta.step.value()},
          {"epoch", meta.epoch},
          {"sample_position", meta.sample_position},
          {"world_size", meta.world_size},
          {"seed", meta.seed},
          {"optimizer", meta.optimizer},
          {"model", meta.model},
          {"model_hash", meta.model_hash},
          {"config", json(meta.config)},
          {"counters", std::move(counters)},
          {"files", std::move(files)}};
}

}  // namespace

bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name.size() <= 200 && name.front() != '.' && name != "MANIFEST.json" &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string SealManifest(std::string_view body) {
  return fmt::format("{}{:08x}{}{}{}", kOpen, CrcOf(body), kMiddle, body, kClose);
}

Result<std::string> EncodeManifest(const Manifest& manifest) {
  const auto invalid = [](const std::string& message) {
    return Status::Error(Code::kInvalidArgument, message);
  };
  for (const auto& [key, number] : manifest.meta.counters) {
    const double* value = std::get_if<double>(&number);
    if (value != nullptr && !std::isfinite(*value)) {
      return invalid(fmt::format("counter \"{}\" is not finite", key));
    }
  }
  for (const ManifestFile& file : manifest.files) {
    if (!IsPlainFileName(file.name)) {
      return invalid(fmt::format("\"{}\" is no plain file name", file.name));
    }
  }
  try {
    return SealManifest(EncodeBody(manifest).dump(1));
  } catch (const json::exception&) {
    return invalid("manifest has text that is not UTF-8");
  }
}

Result<Manifest> DecodeManifest(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  PACELINE_ASSIGN(const std::string_view body, OpenEnvelope(text));
  PACELINE_TRY(wire::CheckJson(body, kDepth));
  const json parsed = json::parse(body.begin(), body.end(), nullptr, false);
  if (!parsed.is_object()) return Bad("manifest is no object");

  Fields fields(parsed);
  const std::uint64_t schema = fields.Unsigned("schema");
  PACELINE_TRY(fields.status());
  if (schema > kManifestSchema) {
    return Status::Error(
        Code::kMismatch,
        fmt::format("manifest has schema {}, this program reads {}", schema, kManifestSchema));
  }
  if (schema != kManifestSchema) return Bad(fmt::format("unknown schema {}", schema));

  Manifest manifest;
  CheckpointMeta& meta = manifest.meta;
  meta.cluster_id = fields.Text("cluster_id");
  meta.generation = Generation(fields.Unsigned("generation"));
  meta.step = Step(fields.Unsigned("step"));
  meta.epoch = fields.Unsigned("epoch");
  meta.sample_position = fields.Unsigned("sample_position");
  meta.world_size = fields.Unsigned("world_size");
  meta.seed = fields.Unsigned("seed");
  meta.optimizer = fields.Text("optimizer");
  meta.model = fields.Text("model");
  meta.model_hash = fields.Text("model_hash");
  PACELINE_TRY(DecodeMaps(fields, &meta));
  PACELINE_TRY(DecodeFiles(fields.List("files"), &manifest.files));
  PACELINE_TRY(fields.status());
  return manifest;
}

}  // namespace paceline::disk
