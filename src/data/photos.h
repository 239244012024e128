#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "data/dataset.h"
#include "data/image_index.h"
#include "data/image_scan.h"

namespace paceline::data {

// Labelled JPEG files in folders or tar files, addressed by index and read where they are.
// Immutable, thread-safe; keeps no file open, since there can be more tar files than a process may
// open. Does not decode: see photo_batches.h.
class Photos {
 public:
  // `index_file` keeps the index for the next time.
  static Result<std::unique_ptr<Photos>> Open(const ImageLocation& location,
                                              const std::filesystem::path& index_file,
                                              BadRecord policy);

  std::uint64_t size() const { return index_.images.size(); }
  Status Read(std::uint64_t index, std::vector<std::byte>& bytes, std::int64_t& label) const;

  // "file: byte offset 512", for messages.
  std::string Describe(std::uint64_t index) const;
  std::uint64_t WithHighestLabel() const;  // index of a sample that has it
  std::int64_t Label(std::uint64_t index) const { return index_.images[index].label; }
  const std::vector<std::string>& classes() const { return index_.classes; }  // of folders
  std::uint64_t BadRecords() const { return index_.bad_records; }
  const std::string& fingerprint() const { return fingerprint_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Photos() = default;
  std::string PathOf(const ImageIndex::Image& image) const;

  std::filesystem::path root_;
  ImageIndex index_;
  std::string fingerprint_;
  std::vector<std::string> warnings_;
};

}  // namespace paceline::data
