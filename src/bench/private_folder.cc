#include "bench/private_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace paceline::bench {

Result<PrivateFolder> PrivateFolder::Make(const std::filesystem::path& below) {
  const auto parent = below.empty() ? std::filesystem::temp_directory_path() : below;
  std::string pattern = (parent / "paceline-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    return Status::Error(Code::kDisk,
                         fmt::format("cannot make {}: {}", pattern, std::strerror(errno)));
  }
  return PrivateFolder(pattern);
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace paceline::bench
