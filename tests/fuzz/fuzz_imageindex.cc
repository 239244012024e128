// Any bytes as an index of images, once as they are and once behind a header and with the right
// checksum: what is read can be written, and every reference leads somewhere.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "data/image_index.h"
#include "wire/crc32c.h"
#include "wire/endian.h"

namespace {

using namespace paceline;

void Check(std::span<const std::byte> bytes) {
  const auto index = data::DecodeImageIndex(bytes);
  if (!index.ok()) return;
  std::size_t names = 0;
  for (const data::ImageIndex::Image& image : index->images) {
    const auto& container = index->containers.at(image.container);
    if (index->tar) {
      PACELINE_CHECK(image.place + image.bytes <= container.bytes, "within the tar file");
    } else {
      names += index->NameOf(image).size();
    }
  }
  PACELINE_CHECK(names <= index->names.size() * index->images.size(), "names end");
  const auto again = data::EncodeImageIndex(*index);
  PACELINE_CHECK(std::ranges::equal(again, bytes), "one way to write an index");
  PACELINE_CHECK(!data::FingerprintOf(*index).empty(), "a fingerprint");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  Check(bytes);
  constexpr std::size_t kHeader = 12, kChecksum = 4;
  std::vector<std::byte> sealed = data::EncodeImageIndex({});
  sealed.resize(kHeader);
  sealed.insert(sealed.end(), bytes.begin(), bytes.end());
  const std::uint32_t checksum = wire::Crc32c(sealed);
  sealed.resize(sealed.size() + kChecksum);
  wire::StoreLittle(sealed.data() + sealed.size() - kChecksum, checksum);
  Check(sealed);
  return 0;
}
