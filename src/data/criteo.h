#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "data/cifar10.h"
#include "data/ctr_dataset.h"
#include "data/input_file.h"

namespace paceline::data {

// A line is a label, 13 integers and 26 categories of up to 8 hexadecimal digits, separated by
// tabs; a missing feature is an empty field. The longest such line has about 520 bytes.
inline constexpr std::size_t kCriteoFields = 1 + kCtrDense + kCtrSlots;
inline constexpr std::size_t kCriteoLineBytes = 1024;  // more is corrupt

// Python 2's hash() of a string on 64 bits, which Paddle's reader took ids from. Stable: the value
// never depended on the process unless python -R was asked for.
std::int64_t Python2Hash(std::string_view text);

// One line without its end, prepared as Paddle's benchmark does: integers become
// (x - minimum) / range, missing ones 0; the id of a category is hash(field number + text) modulo
// `ids`. kBadData says what is wrong with the line.
Status DecodeCriteo(std::string_view line, CtrSample& sample, std::uint32_t ids = kCtrIds);

// Criteo's display advertising data as text, read where it is. Every line is checked when opening;
// the index of lines takes 4 bytes each. Immutable, thread-safe; owns the open files.
class Criteo final : public CtrDataset {
 public:
  // A file, or a folder whose files are taken in order of name; hidden ones do not count.
  static Result<std::unique_ptr<Criteo>> Open(const std::filesystem::path& path, BadRecord policy,
                                              std::uint32_t ids = kCtrIds);

  std::uint64_t size() const override { return starts_.size(); }
  std::uint32_t ids() const override { return ids_; }
  Status Read(std::uint64_t index, CtrSample& sample) const override;
  std::string Fingerprint() const override { return fingerprint_; }
  std::uint64_t BadRecords() const override { return bad_lines_; }

  // Accepted but unusual, one line each.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // Samples of one file whose lines start within 4 GiB of each other.
  struct Segment {
    std::size_t file = 0;
    std::uint64_t base = 0;  // byte offset in the file
    std::uint64_t first_sample = 0;
  };
  // Where a line stands, for messages.
  struct Place {
    std::uint64_t line = 0;  // from 1
    std::uint64_t offset = 0;
  };

  explicit Criteo(std::uint32_t ids) : ids_(ids) {}
  Status AddFile(const std::filesystem::path& path, BadRecord policy);
  Status ScanFile(std::size_t file, BadRecord policy);
  Status AddLine(std::size_t file, const Place& place, std::string_view line, BadRecord policy);

  const std::uint32_t ids_;
  std::vector<InputFile> files_;
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> starts_;  // of good lines, counted from the base of their segment
  std::uint64_t bad_lines_ = 0;
  std::vector<std::string> warnings_;
  std::string fingerprint_;
};

}  // namespace paceline::data
