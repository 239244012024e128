#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/dataset.h"
#include "data/input_file.h"

namespace paceline::data {

// Binary version (cs.toronto.edu/~kriz/cifar.html): a record is one label byte, then 1024 red,
// 1024 green and 1024 blue bytes in row order; a file is 10,000 records.
inline constexpr std::size_t kCifar10RecordBytes = 1 + kCifarPixels;
inline constexpr std::uint64_t kCifar10FileBytes = 10'000 * kCifar10RecordBytes;
inline constexpr std::int64_t kCifar10Classes = 10;

// What is wrong with some bytes that should be whole records.
struct Cifar10Scan {
  std::uint64_t records = 0;              // whole ones, good or bad
  std::size_t trailing_bytes = 0;         // of a last record that was cut
  std::vector<std::uint64_t> bad_labels;  // record numbers, rising
};
Cifar10Scan ScanCifar10(std::span<const std::byte> bytes);

// One record; kBadData when the size or the label is wrong.
Status DecodeCifar10(std::span<const std::byte> record, std::span<std::uint8_t> image,
                     std::int64_t& label);

// CIFAR-10 in its binary files, read where they are. Immutable, thread-safe; owns the open files.
class Cifar10 final : public Dataset {
 public:
  // `folder` holds data_batch_{1..5}.bin or test_batch.bin, or a cifar-10-batches-bin that does.
  // Every label is checked here, so that bad data is found before training.
  static Result<std::unique_ptr<Cifar10>> Open(const std::filesystem::path& folder, Split split,
                                               BadRecord policy);

  std::uint64_t size() const override { return records_ - bad_.size(); }
  std::int64_t classes() const override { return kCifar10Classes; }
  Status Read(std::uint64_t index, std::span<std::uint8_t> image,
              std::int64_t& label) const override;
  std::string Fingerprint() const override { return fingerprint_; }
  std::uint64_t BadRecords() const override { return bad_.size() + cut_records_; }

  // Accepted but unusual, one line each: a file of another size, records left out.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  struct File {
    InputFile input;
    std::uint64_t first_record = 0;  // in the whole data set, bad ones included
  };

  Cifar10() = default;
  Status AddFile(const std::filesystem::path& path, BadRecord policy);
  Status ScanFile(const File& file, BadRecord policy);

  std::vector<File> files_;
  std::uint64_t records_ = 0;       // whole ones, bad ones included
  std::vector<std::uint64_t> bad_;  // record numbers, rising
  std::uint64_t cut_records_ = 0;   // last records that were cut
  std::vector<std::string> warnings_;
  std::string fingerprint_;
};

}  // namespace paceline::data
