#include "data/image_index.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "kernel/hash.h"
#include "wire/bytes.h"
#include "wire/crc32c.h"
#include "wire/endian.h"

namespace paceline::data {

namespace {

constexpr std::string_view kIndexMagic = "PACEIDX\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = kIndexMagic.size() + sizeof kVersion;
constexpr std::size_t kChecksumBytes = 4;
constexpr std::size_t kTextLimit = 4096;
constexpr std::size_t kLeastText = 2, kLeastContainer = kLeastText + 16, kImageBytes = 20;

Status Damaged(const std::string& what) { return Status::Error(Code::kBadData, what); }

// A number of things that take at least `each` bytes; what cannot be there is not counted.
template <std::unsigned_integral T>
std::size_t Count(wire::ByteReader& reader, std::size_t each) {
  const T count = reader.Number<T>();
  if (count > reader.left() / each) {
    reader.Fail();
    return 0;
  }
  return static_cast<std::size_t>(count);
}

void WriteImages(const ImageIndex& index, wire::ByteWriter& writer) {
  writer.Number(std::uint64_t{index.images.size()});
  for (const ImageIndex::Image& image : index.images) {
    writer.Number(image.container);
    writer.Number(image.label);
    writer.Number(image.bytes);
    writer.Number(image.place);
  }
  writer.Number(std::uint64_t{index.names.size()});
  writer.Bytes(wire::AsBytes(index.names));
}

void ReadImages(wire::ByteReader& reader, ImageIndex& index) {
  index.images.resize(Count<std::uint64_t>(reader, kImageBytes));
  for (ImageIndex::Image& image : index.images) {
    image.container = reader.Number<std::uint32_t>();
    image.label = reader.Number<std::uint32_t>();
    image.bytes = reader.Number<std::uint32_t>();
    image.place = reader.Number<std::uint64_t>();
  }
  index.names.resize(Count<std::uint64_t>(reader, 1));
  for (char& c : index.names) c = static_cast<char>(reader.Number<std::uint8_t>());
}

Status CheckReferences(const ImageIndex& index) {
  if (!index.names.empty() && index.names.back() != '\0') return Damaged("a name without an end");
  for (const ImageIndex::Image& image : index.images) {
    if (image.container >= index.containers.size()) return Damaged("an image outside of all files");
    const std::uint64_t file_bytes = index.containers[image.container].bytes;
    if (index.tar && (image.place > file_bytes || image.bytes > file_bytes - image.place)) {
      return Damaged("an image behind the end of its file");
    }
    if (!index.tar && (image.place >= index.names.size() || image.label >= index.classes.size())) {
      return Damaged("an image without a name or a class");
    }
  }
  return {};
}

}  // namespace

std::vector<std::byte> EncodeImageIndex(const ImageIndex& index) {
  wire::ByteWriter writer;
  writer.Bytes(wire::AsBytes(kIndexMagic));
  writer.Number(kVersion);
  writer.Number(std::uint8_t{index.tar ? std::uint8_t{1} : std::uint8_t{0}});
  writer.Number(static_cast<std::uint32_t>(index.classes.size()));
  for (const std::string& name : index.classes) writer.Text(name);
  writer.Number(static_cast<std::uint32_t>(index.containers.size()));
  for (const ImageIndex::Container& container : index.containers) {
    writer.Text(container.path);
    writer.Number(container.bytes);
    writer.Number(container.changed_ns);
  }
  writer.Number(index.bad_records);
  writer.Text(index.first_bad);
  WriteImages(index, writer);
  std::vector<std::byte> bytes = writer.Take();
  std::array<std::byte, kChecksumBytes> checksum;
  wire::StoreLittle(checksum.data(), wire::Crc32c(bytes));
  bytes.insert(bytes.end(), checksum.begin(), checksum.end());
  return bytes;
}

Result<ImageIndex> DecodeImageIndex(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes + kChecksumBytes ||
      !std::ranges::equal(bytes.first(kIndexMagic.size()), wire::AsBytes(kIndexMagic))) {
    return Damaged("not an index of images");
  }
  if (const std::uint32_t version = wire::LoadU32(bytes.data() + kIndexMagic.size());
      version != kVersion) {
    return Status::Error(Code::kMismatch, fmt::format("version {}, not {}", version, kVersion));
  }
  const std::span<const std::byte> covered = bytes.first(bytes.size() - kChecksumBytes);
  if (wire::LoadU32(bytes.data() + covered.size()) != wire::Crc32c(covered)) {
    return Damaged("wrong checksum");
  }
  wire::ByteReader reader(covered.subspan(kHeaderBytes));
  ImageIndex index;
  const auto kind = reader.Number<std::uint8_t>();
  if (kind > 1) reader.Fail();
  index.tar = kind == 1;
  index.classes.resize(Count<std::uint32_t>(reader, kLeastText));
  for (std::string& name : index.classes) name = reader.Text(kTextLimit);
  index.containers.resize(Count<std::uint32_t>(reader, kLeastContainer));
  for (ImageIndex::Container& container : index.containers) {
    container.path = reader.Text(kTextLimit);
    container.bytes = reader.Number<std::uint64_t>();
    container.changed_ns = reader.Number<std::uint64_t>();
  }
  index.bad_records = reader.Number<std::uint64_t>();
  index.first_bad = reader.Text(kTextLimit);
  ReadImages(reader, index);
  if (const Status status = reader.Finish("index"); !status.ok()) return Damaged(status.message());
  PACELINE_TRY(CheckReferences(index));
  return index;
}

std::string FingerprintOf(const ImageIndex& index) {
  // Without times, which copies of the data do not share, and without sizes of folders.
  wire::ByteWriter writer;
  for (const std::string& name : index.classes) writer.Text(name);
  for (const ImageIndex::Container& container : index.containers) {
    writer.Text(container.path);
    writer.Number(container.bytes);
  }
  WriteImages(index, writer);
  kernel::Hasher hasher;
  hasher.Update(writer.Take());
  return fmt::format("images:{} files:{} records:{} hash:{}", index.tar ? "tar" : "folders",
                     index.containers.size(), index.images.size(), hasher.Hex().substr(0, 16));
}

}  // namespace paceline::data
