// Arbitrary bytes as a CIFAR-10 file: the scan must agree with decoding record by record, and
// nothing may be read or written outside its buffer.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "data/cifar10.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const data::Cifar10Scan scan = data::ScanCifar10(bytes);
  PACELINE_CHECK(scan.records * data::kCifar10RecordBytes + scan.trailing_bytes == size,
                 "every byte is accounted for");

  std::array<std::uint8_t, data::kCifarPixels> image;
  std::size_t bad = 0;
  for (std::uint64_t record = 0; record < scan.records; ++record) {
    std::int64_t label = -1;
    const bool good = data::DecodeCifar10(bytes.subspan(record * data::kCifar10RecordBytes,
                                                        data::kCifar10RecordBytes),
                                          image, label)
                          .ok();
    const bool listed = bad < scan.bad_labels.size() && scan.bad_labels[bad] == record;
    bad += listed ? 1 : 0;
    PACELINE_CHECK(good != listed, "scan and decode disagree");
    PACELINE_CHECK(!good || (label >= 0 && label < data::kCifar10Classes), "label out of range");
  }
  PACELINE_CHECK(bad == scan.bad_labels.size(), "a bad label that is no record");

  std::int64_t label = -1;
  const std::span<const std::byte> tail = bytes.last(scan.trailing_bytes);
  PACELINE_CHECK(!data::DecodeCifar10(tail, image, label).ok(), "a cut record was accepted");
  return 0;
}
