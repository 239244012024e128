#include "job/record_tail.h"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

namespace paceline::job {

std::uint64_t LastRecordedStep(const std::string& path) {
  constexpr std::streamoff kTail = std::streamoff{1} << 20;  // many records, however long
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const std::streamoff size = file.tellg();
  if (size <= 0) return 0;
  file.seekg(std::max<std::streamoff>(0, size - kTail));
  std::uint64_t newest = 0, step = 0;
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number_unsigned()) {
      continue;  // torn, cut by the window, or of another kind
    }
    const std::string type = record.value("type", "");
    const std::uint64_t generation = record.value("generation", std::uint64_t{0});
    if ((type != "step" && type != "view") || generation < newest) continue;
    newest = generation;
    step = record["step"].get<std::uint64_t>();
  }
  return step;
}

}  // namespace paceline::job
