// Any bytes, once as a file and once as a body with a correct checksum: otherwise the checksum
// would hide the decoder from the fuzzer.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "disk/manifest.h"

namespace {

void Check(std::span<const std::byte> bytes) {
  using namespace paceline::disk;
  const auto manifest = DecodeManifest(bytes);
  if (!manifest.ok()) return;
  for (const ManifestFile& file : manifest->files) {
    PACELINE_CHECK(IsPlainFileName(file.name), "no file leaves the directory");
  }
  const auto text = EncodeManifest(*manifest);
  PACELINE_CHECK(text.ok(), "what was read can be written");
  const auto again = DecodeManifest(std::as_bytes(std::span(*text)));
  PACELINE_CHECK(again.ok() && *again == *manifest, "what was written reads the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Check(std::as_bytes(std::span(data, size)));
  const std::string sealed =
      paceline::disk::SealManifest({reinterpret_cast<const char*>(data), size});
  Check(std::as_bytes(std::span(sealed)));
  return 0;
}
