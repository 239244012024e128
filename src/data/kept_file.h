#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/status.h"

namespace paceline::data {

// Puts what was found out about data beside them, for the next start: whole or not at all, also
// when several processes keep the same at once. Makes the folder if need be.
Status KeepFile(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace paceline::data
