#include "data/criteo.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "data/text_lines.h"

namespace paceline::data {

namespace {

constexpr std::size_t kScanBytes = std::size_t{1} << 20;

// Of the integer features, from Paddle's benchmark: cont_min_ and cont_diff_ of its reader.
constexpr std::array<float, kCtrDense> kMinimum{0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
constexpr std::array<float, kCtrDense> kRange{20, 603, 100, 50, 64000, 500, 100,
                                              50, 500, 10,  10, 10,    50};

// Python 2's string hash, fed piece by piece.
class StringHash {
 public:
  void Add(std::string_view text) {
    for (char c : text) {
      const std::uint64_t byte = static_cast<unsigned char>(c);
      if (length_ == 0) hash_ = byte << 7;
      hash_ = (1'000'003 * hash_) ^ byte;
      ++length_;
    }
  }
  std::int64_t Value() const {
    const auto value = static_cast<std::int64_t>(hash_ ^ length_);
    return value == -1 ? -2 : value;  // -1 is how Python's C code says "failed"
  }

 private:
  std::uint64_t hash_ = 0;
  std::uint64_t length_ = 0;
};

Status BadLine(std::string what) { return Status::Error(Code::kBadData, std::move(what)); }

Status DecodeInteger(std::string_view text, std::size_t feature, float& value) {
  if (text.empty()) {
    value = 0;
    return {};
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return BadLine(fmt::format("field {} is not an integer: '{}'", feature + 2, text));
  }
  value = (static_cast<float>(number) - kMinimum[feature]) / kRange[feature];
  return {};
}

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

Status DecodeCategory(std::string_view text, std::size_t slot, std::uint32_t ids,
                      std::uint32_t& id) {
  const std::size_t field = 1 + kCtrDense + slot;  // from 0, as the reference counts
  if (text.size() > 8 || !std::ranges::all_of(text, IsHexDigit)) {
    return BadLine(
        fmt::format("field {} is not up to 8 hexadecimal digits: '{}'", field + 1, text));
  }
  const std::array<char, 2> number{static_cast<char>('0' + field / 10),
                                   static_cast<char>('0' + field % 10)};
  StringHash hash;
  hash.Add({number.data(), number.size()});
  hash.Add(text);
  // Python's remainder has the sign of the divisor.
  const std::int64_t remainder = hash.Value() % std::int64_t{ids};
  id = static_cast<std::uint32_t>(remainder < 0 ? remainder + ids : remainder);
  return {};
}

// Text of a corrupt file may hold anything; a message shows the printable part of its beginning.
std::string Printable(std::string text) {
  for (char& c : text) c = c >= ' ' && c <= '~' ? c : '?';
  return text.size() <= 120 ? text : text.substr(0, 120) + "...";
}

}  // namespace

std::int64_t Python2Hash(std::string_view text) {
  StringHash hash;
  hash.Add(text);
  return hash.Value();
}

Status DecodeCriteo(std::string_view line, CtrSample& sample, std::uint32_t ids) {
  const auto fields = static_cast<std::size_t>(std::ranges::count(line, '\t')) + 1;
  if (fields != kCriteoFields) {
    return BadLine(fmt::format("{} fields instead of {}", fields, kCriteoFields));
  }
  for (std::size_t field = 0; field < kCriteoFields; ++field) {
    const std::size_t length = std::min(line.find('\t'), line.size());
    const std::string_view text = line.substr(0, length);
    if (field == 0) {
      if (text != "0" && text != "1") return BadLine(fmt::format("label '{}' is not 0 or 1", text));
      sample.label = text == "1" ? 1 : 0;
    } else if (field <= kCtrDense) {
      PACELINE_TRY(DecodeInteger(text, field - 1, sample.dense[field - 1]));
    } else {
      const std::size_t slot = field - 1 - kCtrDense;
      PACELINE_TRY(DecodeCategory(text, slot, ids, sample.ids[slot]));
    }
    line.remove_prefix(std::min(length + 1, line.size()));
  }
  return {};
}

Result<std::unique_ptr<Criteo>> Criteo::Open(const std::filesystem::path& path, BadRecord policy,
                                             std::uint32_t ids) {
  PACELINE_ASSIGN(const std::vector<std::filesystem::path> files, FilesAt(path));
  std::unique_ptr<Criteo> dataset(new Criteo(ids));
  dataset->fingerprint_ = "criteo";
  for (const std::filesystem::path& file : files) {
    PACELINE_TRY(dataset->AddFile(file, policy));
  }
  if (dataset->size() == 0) return BadLine(fmt::format("{}: no usable line", path.string()));
  if (dataset->bad_lines_ > 0) {
    dataset->warnings_.push_back(
        fmt::format("{}: {} bad lines left out", path.string(), dataset->bad_lines_));
  }
  // The policy changes what an index means.
  dataset->fingerprint_ += fmt::format(" records:{}", dataset->size());
  return dataset;
}

Status Criteo::AddFile(const std::filesystem::path& path, BadRecord policy) {
  PACELINE_ASSIGN(InputFile opened, InputFile::Open(path.string()));
  PACELINE_ASSIGN(const std::string fingerprint, opened.Fingerprint());
  fingerprint_ += " " + fingerprint;
  files_.push_back(std::move(opened));
  return ScanFile(files_.size() - 1, policy);
}

Status Criteo::ScanFile(std::size_t file, BadRecord policy) {
  const InputFile& input = files_[file];
  segments_.push_back({.file = file, .base = 0, .first_sample = size()});
  std::string line;  // of the current one, what earlier chunks held; cut when too long to be good
  Place place{.line = 1, .offset = 0};
  std::vector<char> buffer(std::min<std::uint64_t>(input.bytes(), kScanBytes));
  for (std::uint64_t offset = 0; offset < input.bytes(); offset += buffer.size()) {
    const std::span<char> chunk(buffer.data(),
                                std::min<std::uint64_t>(buffer.size(), input.bytes() - offset));
    PACELINE_TRY(input.ReadAt(offset, std::as_writable_bytes(chunk)));
    std::string_view rest(chunk.data(), chunk.size());
    for (std::size_t end = 0; (end = rest.find('\n')) != std::string_view::npos;) {
      std::string_view whole = rest.substr(0, end);
      if (!line.empty()) whole = line.append(whole.substr(0, kCriteoLineBytes + 1));
      PACELINE_TRY(AddLine(file, place, whole, policy));
      line.clear();
      rest.remove_prefix(end + 1);
      place = {place.line + 1, offset + chunk.size() - rest.size()};
    }
    line.append(rest.substr(0, kCriteoLineBytes + 1 - std::min(line.size(), kCriteoLineBytes)));
  }
  // The last line may lack its end.
  return line.empty() ? Status() : AddLine(file, place, line, policy);
}

Status Criteo::AddLine(std::size_t file, const Place& place, std::string_view line,
                       BadRecord policy) {
  CtrSample sample;
  const Status status = line.size() > kCriteoLineBytes
                            ? BadLine(fmt::format("longer than {} bytes", kCriteoLineBytes))
                            : DecodeCriteo(line, sample, ids_);
  if (!status.ok()) {
    ++bad_lines_;
    if (policy == BadRecord::kSkip) return {};
    return BadLine(fmt::format("{}: line {} at byte offset {}: {}", files_[file].path(), place.line,
                               place.offset, Printable(status.message())));
  }
  if (place.offset - segments_.back().base > std::numeric_limits<std::uint32_t>::max()) {
    segments_.push_back({.file = file, .base = place.offset, .first_sample = size()});
  }
  starts_.push_back(static_cast<std::uint32_t>(place.offset - segments_.back().base));
  return {};
}

Status Criteo::Read(std::uint64_t index, CtrSample& sample) const {
  PACELINE_TRY(CheckRead(*this, index));
  const auto after = std::ranges::upper_bound(segments_, index, {}, &Segment::first_sample);
  const Segment& segment = *std::prev(after);
  const InputFile& input = files_[segment.file];
  const std::uint64_t offset = segment.base + starts_[index];
  std::array<char, kCriteoLineBytes> buffer;
  const std::span<char> bytes(buffer.data(),
                              std::min<std::uint64_t>(buffer.size(), input.bytes() - offset));
  PACELINE_TRY(input.ReadAt(offset, std::as_writable_bytes(bytes)));
  const std::string_view text(bytes.data(), bytes.size());
  if (Status status = DecodeCriteo(text.substr(0, text.find('\n')), sample, ids_); !status.ok()) {
    return BadLine(fmt::format("{}: line at byte offset {}: {}; it was good when opened",
                               input.path(), offset, Printable(status.message())));
  }
  return {};
}

}  // namespace paceline::data
