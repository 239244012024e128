// Any bytes as a tar file, once as they are and once with the checksum of every block set right,
// which would otherwise hide the rest of the header: members lie within the file, in order and
// apart, and nothing is read outside of it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "base/check.h"
#include "data/tar.h"

namespace {

void Check(const std::string& tar) {
  using namespace paceline;
  data::TarHeaders headers(tar.size(), [&](std::uint64_t offset, std::span<std::byte> bytes) {
    PACELINE_CHECK(offset <= tar.size() && bytes.size() <= tar.size() - offset, "within the file");
    std::ranges::copy(std::as_bytes(std::span(tar)).subspan(offset, bytes.size()), bytes.begin());
    return Status();
  });
  std::uint64_t end = 0;
  for (;;) {
    const auto member = headers.Next();
    if (!member.ok() || !*member) break;
    PACELINE_CHECK((*member)->offset >= end + 512, "a header before each member");
    end = (*member)->offset + (*member)->bytes;
    PACELINE_CHECK(end <= tar.size(), "members end within the file");
    const auto name = data::SplitSampleName((*member)->name);
    PACELINE_CHECK(!name || (!name->sample.empty() && name->suffix.find('/') == std::string::npos),
                   "a name and a suffix");
  }
  PACELINE_CHECK(!headers.Next()->has_value(), "nothing behind the end");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string tar(reinterpret_cast<const char*>(data), size);
  Check(tar);
  for (std::size_t block = 0; block + 512 <= tar.size(); block += 512) {
    std::fill_n(tar.begin() + static_cast<std::ptrdiff_t>(block + 148), 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(tar[block + i]);
    if (sum == 8 * ' ') {  // the end
      std::fill_n(tar.begin() + static_cast<std::ptrdiff_t>(block + 148), 8, '\0');
      continue;
    }
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    tar.replace(block + 148, 7, text, 7);
  }
  Check(tar);
  return 0;
}
