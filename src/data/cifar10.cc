#include "data/cifar10.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

namespace paceline::data {

namespace {

constexpr std::uint64_t kScanRecords = 100;             // 300 KB at a time while opening
constexpr std::uint64_t kFingerprintBytes = 64 * 1024;  // at either end of a file

Status BadRecordError(const std::string& path, std::uint64_t record, const std::string& what) {
  return Status::Error(Code::kBadData, fmt::format("{}: record {} at byte offset {}: {}", path,
                                                   record, record * kCifar10RecordBytes, what));
}

// Fills all of `bytes`; a file that ends earlier is bad data.
Status ReadFully(int fd, const std::string& path, std::uint64_t offset,
                 std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return Status::Error(Code::kBadData,
                           fmt::format("{}: reading at byte offset {}: {}", path, offset,
                                       std::generic_category().message(errno)));
    }
    if (got == 0) {
      return Status::Error(
          Code::kBadData,
          fmt::format("{}: the file ends at byte offset {}; it has shrunk since it was opened",
                      path, offset));
    }
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

// FNV-1a, 64 bits. Tells different files apart; not meant against an attacker.
std::uint64_t Hash(std::span<const std::byte> bytes, std::uint64_t hash) {
  for (std::byte b : bytes) {
    hash = (hash ^ std::to_integer<std::uint64_t>(b)) * 0x100000001B3ULL;
  }
  return hash;
}

Result<std::uint64_t> HashEnds(int fd, const std::string& path, std::uint64_t size) {
  std::vector<std::byte> buffer(std::min(size, kFingerprintBytes));
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (std::uint64_t offset : {std::uint64_t{0}, size - buffer.size()}) {
    PACELINE_TRY(ReadFully(fd, path, offset, buffer));
    hash = Hash(buffer, hash);
  }
  return hash;
}

struct OpenedFile {
  UniqueFd fd;
  std::uint64_t bytes = 0;
};

Result<OpenedFile> OpenRegular(const std::string& path) {
  // Not blocking: opening a FIFO would otherwise wait for a writer for ever.
  OpenedFile file{.fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  struct stat info {};
  if (!file.fd.valid() || ::fstat(file.fd.get(), &info) != 0) {
    return Status::Error(Code::kBadData, fmt::format("{}: cannot be opened: {}", path,
                                                     std::generic_category().message(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return Status::Error(Code::kBadData, fmt::format("{}: is not a regular file", path));
  }
  if (info.st_size == 0) {
    return Status::Error(Code::kBadData, fmt::format("{}: is empty", path));
  }
  file.bytes = static_cast<std::uint64_t>(info.st_size);
  return file;
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
  if (record.size() != kCifar10RecordBytes || image.size() != kImagePixels) {
    return Status::Error(Code::kBadData,
                         fmt::format("{} bytes instead of {}", record.size(), kCifar10RecordBytes));
  }
  const auto value = std::to_integer<std::int64_t>(record.front());
  if (value >= kCifar10Classes) {
    return Status::Error(Code::kBadData, fmt::format("label {} is above 9", value));
  }
  label = value;
  std::memcpy(image.data(), record.data() + 1, kImagePixels);
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
  PACELINE_ASSIGN(OpenedFile opened, OpenRegular(path.string()));
  if (opened.bytes != kCifar10FileBytes) {
    warnings_.push_back(fmt::format("{}: {} bytes; a file of CIFAR-10 has {}", path.string(),
                                    opened.bytes, kCifar10FileBytes));
  }
  PACELINE_ASSIGN(const std::uint64_t hash, HashEnds(opened.fd.get(), path.string(), opened.bytes));
  fingerprint_ += fmt::format(" {}:{}:{:016x}", path.filename().string(), opened.bytes, hash);
  const std::uint64_t records = opened.bytes / kCifar10RecordBytes;
  files_.push_back({path.string(), std::move(opened.fd), records_, opened.bytes});
  PACELINE_TRY(ScanFile(files_.back(), policy));
  records_ += records;
  return {};
}

Status Cifar10::ScanFile(const File& file, BadRecord policy) {
  std::vector<std::byte> buffer(std::min(file.bytes, kScanRecords * kCifar10RecordBytes));
  for (std::uint64_t offset = 0; offset < file.bytes; offset += buffer.size()) {
    const std::span<std::byte> chunk(buffer.data(), std::min(buffer.size(), file.bytes - offset));
    PACELINE_TRY(ReadFully(file.fd.get(), file.path, offset, chunk));
    const Cifar10Scan scan = ScanCifar10(chunk);
    const std::uint64_t first = offset / kCifar10RecordBytes;
    if (policy == BadRecord::kFail && !scan.bad_labels.empty()) {
      const std::uint64_t bad = scan.bad_labels.front();
      return BadRecordError(
          file.path, first + bad,
          fmt::format("label {} is above 9",
                      std::to_integer<unsigned>(chunk[bad * kCifar10RecordBytes])));
    }
    if (policy == BadRecord::kFail && scan.trailing_bytes > 0) {
      return BadRecordError(
          file.path, first + scan.records,
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
  PACELINE_TRY(ReadFully(file.fd.get(), file.path, local * kCifar10RecordBytes, bytes));
  if (Status status = DecodeCifar10(bytes, image, label); !status.ok()) {
    return BadRecordError(file.path, local, status.message() + "; it was good when opened");
  }
  return {};
}

}  // namespace paceline::data
