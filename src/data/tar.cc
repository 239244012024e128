#include "data/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace paceline::data {

namespace {

// POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar's manual, "Basic Tar Format".
constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kLongestText = 1 << 20;  // of a name or of pax records
using Block = std::array<std::byte, kBlock>;

struct Field {
  std::size_t offset;
  std::size_t bytes;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 6}, kPrefix{345, 155};
constexpr std::size_t kType = 156;

std::string_view View(const Block& block, Field field) {
  return {reinterpret_cast<const char*>(block.data()) + field.offset, field.bytes};
}

std::string_view Text(const Block& block, Field field) {
  const std::string_view all = View(block, field);
  return all.substr(0, all.find('\0'));
}

// Octal digits between spaces, or with the first bit set a large number in base 256.
std::optional<std::uint64_t> Number(std::string_view field) {
  if ((static_cast<unsigned char>(field.front()) & 0x80) != 0) {
    std::uint64_t value = static_cast<unsigned char>(field.front()) & 0x7F;
    for (const char c : field.substr(1)) {
      if ((value >> 55) != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  const std::size_t begin = std::min(field.find_first_not_of(' '), field.size());
  field.remove_prefix(begin);
  field = field.substr(0, field.find_first_of(std::string_view(" \0", 2)));
  if (field.empty()) return 0;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value, 8);
  if (error != std::errc{} || end != field.data() + field.size()) return std::nullopt;
  return value;
}

// The bytes of the header added up, its own field as spaces; some old programs added signed ones.
bool ChecksumMatches(const Block& block) {
  const std::optional<std::uint64_t> stored = Number(View(block, kChecksum));
  std::int64_t plain = 0, with_sign = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.bytes;
    const int byte = own ? ' ' : std::to_integer<int>(block[i]);
    plain += byte;
    with_sign += byte < 128 ? byte : byte - 256;
  }
  return stored && (std::cmp_equal(*stored, plain) || std::cmp_equal(*stored, with_sign));
}

constexpr std::uint64_t Padded(std::uint64_t bytes) {
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

}  // namespace

Status TarHeaders::Wrong(const std::string& what) const {
  return Status::Error(Code::kBadData, fmt::format("tar header at byte offset {}: {}", at_, what));
}

// Checks that all of the member lies within the file.
Result<std::optional<TarHeaders::Header>> TarHeaders::ReadHeader() {
  if (at_ > file_bytes_ || file_bytes_ - at_ < kBlock) {
    return Wrong(fmt::format("the file ends at {}, before the empty block that ends a tar file",
                             file_bytes_));
  }
  Block block;
  PACELINE_TRY(read_(at_, block));
  if (std::ranges::all_of(block, [](std::byte b) { return b == std::byte{0}; })) {
    return std::optional<Header>();
  }
  if (!ChecksumMatches(block)) return Wrong("wrong checksum");
  const std::optional<std::uint64_t> bytes = Number(View(block, kSize));
  if (!bytes) return Wrong("the size is no number");
  Header header{.type = static_cast<char>(block[kType]), .bytes = *bytes};
  // GNU's own format has other things where ustar has the prefix.
  if (View(block, kMagic) == std::string_view("ustar\0", 6) &&
      block[kPrefix.offset] != std::byte{0}) {
    header.name = fmt::format("{}/", Text(block, kPrefix));
  }
  header.name += Text(block, kName);
  return std::optional(std::move(header));
}

// What a header that describes the next one carries.
Result<std::string> TarHeaders::ReadText(const Header& header) {
  if (header.bytes > kLongestText) return Wrong(fmt::format("a name of {} bytes", header.bytes));
  if (file_bytes_ - at_ - kBlock < header.bytes) {
    return Wrong(fmt::format("{} bytes do not fit into a file of {}", header.bytes, file_bytes_));
  }
  std::string text(static_cast<std::size_t>(header.bytes), '\0');
  PACELINE_TRY(read_(at_ + kBlock, std::as_writable_bytes(std::span(text))));
  return text;
}

// Records "LENGTH KEY=VALUE\n", the length being that of the whole record.
Status TarHeaders::ApplyPax(std::string_view records, Extension& extension) const {
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [space, error] =
        std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(space - records.data());
    if (error != std::errc{} || length > records.size() || length < digits + 3 ||
        records[digits] != ' ' || records[length - 1] != '\n') {
      return Wrong("a pax record of a wrong length");
    }
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    records.remove_prefix(length);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return Wrong("a pax record without '='");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") extension.name = value;
    if (key.starts_with("GNU.sparse.")) return Wrong("sparse files are not supported");
    if (key == "size") {
      std::uint64_t bytes = 0;
      const auto [end, bad] = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (bad != std::errc{} || end != value.data() + value.size()) {
        return Wrong("a pax size that is no number");
      }
      extension.bytes = bytes;
    }
  }
  return {};
}

Result<std::optional<TarMember>> TarHeaders::Next() {
  Extension extension;
  while (!ended_) {
    ended_ = true;  // unless all goes well
    PACELINE_ASSIGN(std::optional<Header> header, ReadHeader());
    if (!header) break;
    const bool describes_next = header->type == 'x' || header->type == 'L';
    if (describes_next) {
      PACELINE_ASSIGN(const std::string text, ReadText(*header));
      if (header->type == 'x') PACELINE_TRY(ApplyPax(text, extension));
      if (header->type == 'L') extension.name = text.substr(0, text.find('\0'));
    } else if (header->type != 'K' && header->type != 'g') {
      header->bytes = extension.bytes.value_or(header->bytes);
      header->name = extension.name.value_or(header->name);
    }
    if (header->type == 'S') return Wrong("sparse files are not supported");
    const std::uint64_t offset = at_ + kBlock;
    // Links and folders have no content, whatever their size says.
    const bool empty = header->type >= '1' && header->type <= '6';
    const std::uint64_t bytes = empty ? 0 : header->bytes;
    if (file_bytes_ - offset < bytes) {
      return Wrong(fmt::format("'{}' of {} bytes does not fit into a file of {}", header->name,
                               bytes, file_bytes_));
    }
    at_ = offset + Padded(bytes);
    ended_ = false;
    if (describes_next || header->type == 'K' || header->type == 'g') continue;
    if (header->type == '0' || header->type == '\0' || header->type == '7') {
      return std::optional<TarMember>({std::move(header->name), offset, bytes});
    }
    extension = {};
  }
  return std::optional<TarMember>();
}

std::optional<SampleName> SplitSampleName(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  if (name.substr(base).starts_with("__") && name.ends_with("__")) return std::nullopt;
  SampleName split{.sample = name.substr(0, dot), .suffix = std::string(name.substr(dot + 1))};
  for (char& c : split.suffix) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return split;
}

}  // namespace paceline::data
