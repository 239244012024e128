// A job as a server receives it from the first trainer: what decodes must encode to the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "ps/job_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::ps;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto spec = DecodeJobSpec(bytes);
  if (!spec.ok()) return 0;
  PACELINE_CHECK(std::ranges::equal(EncodeJobSpec(*spec), bytes), "one way to write a job");
  PACELINE_CHECK(JobDifference(*spec, *spec).empty(), "equal to itself");
  return 0;
}
