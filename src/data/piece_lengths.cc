#include "data/piece_lengths.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "data/fnv.h"
#include "data/kept_file.h"
#include "data/text_check.h"
#include "disk/file_system.h"
#include "wire/bytes.h"
#include "wire/crc32c.h"
#include "wire/endian.h"

namespace paceline::data {

namespace {

constexpr std::string_view kLengthsMagic = "PACELEN\n";
// Of the file, and of the way in which vocabularies cut text.
constexpr std::uint32_t kLengthsVersion = 1;
constexpr std::size_t kLengthsHeader = kLengthsMagic.size() + sizeof kLengthsVersion;
constexpr std::size_t kCrcBytes = 4;
constexpr std::uint64_t kMostLengthsBytes = std::uint64_t{1} << 34;

Status DamagedLengths(const std::string& what) { return Status::Error(Code::kBadData, what); }

Status CountPieces(const TextLines& text, const Tokenizer& tokenizer,
                   std::vector<std::uint32_t>& by_line) {
  by_line.reserve(text.size());
  std::vector<std::int32_t> ids;
  return text.ForEach(0, text.size(), [&](std::uint64_t, std::string_view line) -> Status {
    ids.clear();
    tokenizer.Encode(WithoutReturn(line), ids);
    by_line.push_back(static_cast<std::uint32_t>(ids.size()));
    return {};
  });
}

}  // namespace

std::vector<std::byte> EncodePieceLengths(const PieceLengths& lengths) {
  wire::ByteWriter writer;
  writer.Bytes(wire::AsBytes(kLengthsMagic));
  writer.Number(kLengthsVersion);
  writer.Number(lengths.made_of);
  writer.Number(std::uint64_t{lengths.by_line.size()});
  for (const std::uint32_t length : lengths.by_line) writer.Number(length);
  std::vector<std::byte> bytes = writer.Take();
  std::array<std::byte, kCrcBytes> checksum;
  wire::StoreLittle(checksum.data(), wire::Crc32c(bytes));
  bytes.insert(bytes.end(), checksum.begin(), checksum.end());
  return bytes;
}

Result<PieceLengths> DecodePieceLengths(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthsHeader + kCrcBytes ||
      !std::ranges::equal(bytes.first(kLengthsMagic.size()), wire::AsBytes(kLengthsMagic))) {
    return DamagedLengths("not lengths of lines");
  }
  if (const std::uint32_t version = wire::LoadU32(bytes.data() + kLengthsMagic.size());
      version != kLengthsVersion) {
    return Status::Error(Code::kMismatch,
                         fmt::format("version {}, not {}", version, kLengthsVersion));
  }
  const std::span<const std::byte> covered = bytes.first(bytes.size() - kCrcBytes);
  if (wire::LoadU32(bytes.data() + covered.size()) != wire::Crc32c(covered)) {
    return DamagedLengths("wrong checksum");
  }
  wire::ByteReader reader(covered.subspan(kLengthsHeader));
  PieceLengths lengths{.made_of = reader.Number<std::uint64_t>()};
  const auto lines = reader.Number<std::uint64_t>();
  if (lines != reader.left() / sizeof(std::uint32_t)) return DamagedLengths("not so many lines");
  lengths.by_line.resize(lines);
  for (std::uint32_t& length : lengths.by_line) length = reader.Number<std::uint32_t>();
  const Status whole = reader.Finish("lengths");
  return whole.ok() ? Result(std::move(lengths)) : DamagedLengths(whole.message());
}

Result<MeasuredLines> MeasureLines(const TextLines& text, const Tokenizer& tokenizer,
                                   const std::filesystem::path& folder) {
  PieceLengths lengths{.made_of = Fnv(tokenizer.ToFile(text.fingerprint()).ToText())};
  const std::filesystem::path path = folder / fmt::format("{:016x}.lengths", lengths.made_of);
  MeasuredLines measured;
  disk::PosixFileSystem files;
  if (const auto bytes = disk::ReadWhole(files, path.string(), kMostLengthsBytes); bytes.ok()) {
    auto kept = DecodePieceLengths(*bytes);
    if (kept.ok() && kept->made_of == lengths.made_of && kept->by_line.size() == text.size()) {
      measured.by_line = std::move(kept->by_line);
      return measured;
    }
    measured.warnings.push_back(
        fmt::format("{}: {}; counted anew", path.string(),
                    kept.ok() ? "lengths of another text" : kept.status().message()));
  }
  PACELINE_TRY(CountPieces(text, tokenizer, lengths.by_line));
  if (const Status kept = KeepFile(path, EncodePieceLengths(lengths)); !kept.ok()) {
    measured.warnings.push_back(fmt::format(
        "{}: cannot keep the lengths of lines, which are counted at every start", folder.string()));
  }
  measured.by_line = std::move(lengths.by_line);
  return measured;
}

}  // namespace paceline::data
