#include "data/cifar10.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

namespace paceline::data {

namespace {

constexpr std::uint64_t kScanRecords = 100;  // 300 KB at a time while opening

Status BadRecordError(const std::string& path, std::uint64_t record, const std::string& what) {
  return Status::Error(Code::kBadData, fmt::format("{}: record {} at byte offset {}: {}", path,
                                                   record, record * kCifar10RecordBytes, what));
}

std::vector<std::string> FileNames(Split split) {
  if (split == Split::kTest) return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back(fmt::format("data_batch_{}.bin", i));
  return names;
}

}  // namespace

Cifar10Scan ScanCifar10(std::span<const std::byte> bytes) {
  Cifar10Scan scan{.records = bytes.size() / kCifar10RecordBytes,
                   .trailing_bytes = bytes.size() % kCifar10RecordBytes};
  for (std::uint64_t record = 0; record < scan.records; ++record) {
    if (std::to_integer<std::int64_t>(bytes[record * kCifar10RecordBytes]) >= kCifar10Classes) {
      scan.bad_labels.push_back(record);
    }
  }
  return scan;
}

Status DecodeCifar10(std::span<const std::byte> record, std::span<std::uint8_t> image,
                     std::int64_t& label) {
  if (record.size() != kCifar10RecordBytes || image.size() != kCifarPixels) {
    return Status::Error(Code::kBadData,
                         fmt::format("{} bytes instead of {}", record.size(), kCifar10RecordBytes));
  }
  const auto value = std::to_integer<std::int64_t>(record.front());
  if (value >= kCifar10Classes) {
    return Status::Error(Code::kBadData, fmt::format("label {} is above 9", value));
  }
  label = value;
  std::memcpy(image.data(), record.data() + 1, kCifarPixels);
  return {};
}

Result<std::unique_ptr<Cifar10>> Cifar10::Open(const std::filesystem::path& folder, Split split,
                                               BadRecord policy) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return Status::Error(Code::kBadData, fmt::format("{}: no such folder", folder.string()));
  }
  std::filesystem::path base = folder;
  if (const auto inner = folder / "cifar-10-batches-bin";
      std::filesystem::is_directory(inner, ignored)) {
    base = inner;
  }
  std::unique_ptr<Cifar10> dataset(new Cifar10());
  dataset->fingerprint_ = "cifar10";
  for (const std::string& name : FileNames(split)) {
    PACELINE_TRY(dataset->AddFile(base / name, policy));
  }
  if (dataset->size() == 0) {
    return Status::Error(Code::kBadData, fmt::format("{}: no usable record", base.string()));
  }
  if (dataset->BadRecords() > 0) {
    dataset->warnings_.push_back(
        fmt::format("{}: {} bad records left out", base.string(), dataset->BadRecords()));
  }
  // The policy changes what an index means.
  dataset->fingerprint_ += fmt::format(" records:{}", dataset->size());
  return dataset;
}

Status Cifar10::AddFile(const std::filesystem::path& path, BadRecord policy) {
  PACELINE_ASSIGN(InputFile opened, InputFile::Open(path.string()));
  if (opened.bytes() != kCifar10FileBytes) {
    warnings_.push_back(fmt::format("{}: {} bytes; a file of CIFAR-10 has {}", path.string(),
                                    opened.bytes(), kCifar10FileBytes));
  }
  PACELINE_ASSIGN(const std::string fingerprint, opened.Fingerprint());
  fingerprint_ += " " + fingerprint;
  const std::uint64_t records = opened.bytes() / kCifar10RecordBytes;
  files_.push_back({std::move(opened), records_});
  PACELINE_TRY(ScanFile(files_.back(), policy));
  records_ += records;
  return {};
}

Status Cifar10::ScanFile(const File& file, BadRecord policy) {
  const std::uint64_t bytes = file.input.bytes();
  std::vector<std::byte> buffer(std::min(bytes, kScanRecords * kCifar10RecordBytes));
  for (std::uint64_t offset = 0; offset < bytes; offset += buffer.size()) {
    const std::span<std::byte> chunk(buffer.data(), std::min(buffer.size(), bytes - offset));
    PACELINE_TRY(file.input.ReadAt(offset, chunk));
    const Cifar10Scan scan = ScanCifar10(chunk);
    const std::uint64_t first = offset / kCifar10RecordBytes;
    if (policy == BadRecord::kFail && !scan.bad_labels.empty()) {
      const std::uint64_t bad = scan.bad_labels.front();
      return BadRecordError(
          file.input.path(), first + bad,
          fmt::format("label {} is above 9",
                      std::to_integer<unsigned>(chunk[bad * kCifar10RecordBytes])));
    }
    if (policy == BadRecord::kFail && scan.trailing_bytes > 0) {
      return BadRecordError(
          file.input.path(), first + scan.records,
          fmt::format("cut after {} of {} bytes", scan.trailing_bytes, kCifar10RecordBytes));
    }
    for (std::uint64_t bad : scan.bad_labels) bad_.push_back(file.first_record + first + bad);
    cut_records_ += scan.trailing_bytes > 0 ? 1 : 0;
  }
  return {};
}

Status Cifar10::Read(std::uint64_t index, std::span<std::uint8_t> image,
                     std::int64_t& label) const {
  PACELINE_TRY(CheckRead(*this, index, image.size()));
  // The record is `index` plus the bad ones before it. Bad record number j is before it exactly
  // when bad_[j] - j <= index, and these differences never fall.
  std::uint64_t low = 0, high = bad_.size();
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    if (bad_[middle] - middle <= index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const std::uint64_t record = index + low;
  const auto after = std::ranges::upper_bound(files_, record, {}, &File::first_record);
  const File& file = *std::prev(after);
  const std::uint64_t local = record - file.first_record;
  std::array<std::byte, kCifar10RecordBytes> bytes;
  PACELINE_TRY(file.input.ReadAt(local * kCifar10RecordBytes, bytes));
  if (Status status = DecodeCifar10(bytes, image, label); !status.ok()) {
    return BadRecordError(file.input.path(), local, status.message() + "; it was good when opened");
  }
  return {};
}

}  // namespace paceline::data
