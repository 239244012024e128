// Arbitrary bytes as lines of Criteo's data: nothing may be read outside of a line, and what is
// accepted is a sample that a model can take.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "data/criteo.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    data::CtrSample sample;
    if (data::DecodeCriteo(line, sample).ok()) {
      PACELINE_CHECK(sample.label <= 1, "label out of range");
      for (float value : sample.dense) PACELINE_CHECK(std::isfinite(value), "not a number");
      for (std::uint32_t id : sample.ids) PACELINE_CHECK(id < data::kCtrIds, "id out of range");
    }
    rest.remove_prefix(line.size() < rest.size() ? line.size() + 1 : line.size());
  }
  return 0;
}
