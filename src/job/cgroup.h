#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::job {

// Folders of this process's control groups for `controller`, innermost first, version 1 and 2,
// below `root` ("" is the machine itself). A container sees its own group as the root of the mount,
// so each parent is named as well; not every folder need exist.
std::vector<std::string> CgroupFolders(const std::string& root, std::string_view controller);

// How many processes of this control group the kernel has killed because memory ran out, since the
// group exists. Nothing when the kernel does not say.
std::optional<std::int64_t> OomKills(const std::string& root);

}  // namespace paceline::job
