#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace paceline::data {

// A regular file in a tar file: `bytes` from `offset` on.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Goes through the headers of a tar file (ustar, pax, GNU; not compressed) without reading what the
// members hold. Thread-compatible; borrows what `read` reads from.
class TarHeaders {
 public:
  // Fills all of `bytes` from `offset` on; never asked for more than there is.
  using Read = std::function<Status(std::uint64_t offset, std::span<std::byte> bytes)>;
  TarHeaders(std::uint64_t file_bytes, Read read)
      : file_bytes_(file_bytes), read_(std::move(read)) {}

  // The next regular file, or nothing behind the last. kBadData says at which byte offset a header
  // is wrong or the file ends too early; nothing comes after that.
  Result<std::optional<TarMember>> Next();

 private:
  struct Extension {  // of the member that follows
    std::optional<std::string> name;
    std::optional<std::uint64_t> bytes;
  };
  struct Header {
    std::string name;
    char type = 0;
    std::uint64_t bytes = 0;
  };
  Result<std::optional<Header>> ReadHeader();
  Result<std::string> ReadText(const Header& header);
  Status ApplyPax(std::string_view records, Extension& extension) const;
  Status Wrong(const std::string& what) const;

  std::uint64_t file_bytes_;
  Read read_;
  std::uint64_t at_ = 0;  // of the header that is read or was last read
  bool ended_ = false;
};

// How WebDataset takes names apart: "a/b.seg.JPG" is "seg.jpg" of the sample "a/b".
struct SampleName {
  std::string_view sample;
  std::string suffix;  // in lower case
};
// Nothing for names without a dot, hidden ones, and those like __this__.
std::optional<SampleName> SplitSampleName(std::string_view name);

}  // namespace paceline::data
