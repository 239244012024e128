#include "job/server_folders.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "job/run_dir.h"
#include "job/server_record.h"
#include "ps/other_servers.h"

namespace paceline::job {

namespace {

constexpr std::string_view kBefore = "before-", kMoving = "moving-";

// 7 for "before-7" with prefix "before-".
std::optional<std::uint64_t> NumberAfter(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

struct Earlier {
  std::uint64_t newest = 0;             // of before-N; 0: none
  std::optional<std::uint64_t> moving;  // a move that a crash has interrupted
};

Result<Earlier> FindEarlier(disk::FileSystem& fs, const std::string& directory) {
  Earlier found;
  PACELINE_ASSIGN(const auto entries, fs.List(directory));
  for (const disk::DirEntry& entry : entries) {
    if (!entry.is_directory) continue;
    if (const auto n = NumberAfter(kBefore, entry.name)) found.newest = std::max(found.newest, *n);
    if (const auto n = NumberAfter(kMoving, entry.name)) found.moving = n;
  }
  return found;
}

// While moving-N is there no new server has started: every server-* is an earlier one. It becomes
// before-N when it has all of them.
Status Move(disk::FileSystem& fs, const std::string& directory, std::uint64_t number) {
  const std::string moving = fmt::format("{}/{}{}", directory, kMoving, number);
  PACELINE_TRY(fs.MakeDir(moving));
  PACELINE_TRY(fs.SyncDir(directory));
  PACELINE_ASSIGN(const auto entries, fs.List(directory));
  for (const disk::DirEntry& entry : entries) {
    if (!entry.name.starts_with("server-")) continue;
    PACELINE_TRY(fs.Rename(fmt::format("{}/{}", directory, entry.name),
                           fmt::format("{}/{}", moving, entry.name)));
  }
  PACELINE_TRY(fs.SyncDir(moving));
  PACELINE_TRY(fs.SyncDir(directory));
  PACELINE_TRY(fs.Rename(moving, fmt::format("{}/{}{}", directory, kBefore, number)));
  return fs.SyncDir(directory);
}

Result<std::vector<std::string>> FoldersIn(disk::FileSystem& fs, const std::string& directory) {
  std::vector<std::string> folders;
  PACELINE_ASSIGN(const auto entries, fs.List(directory));
  for (const disk::DirEntry& entry : entries) {
    if (entry.is_directory && NumberAfter("server-", entry.name)) {
      folders.push_back(fmt::format("{}/{}", directory, entry.name));
    }
  }
  return folders;
}

}  // namespace

std::string ServerFolder(const std::string& run, std::uint64_t index) {
  return fmt::format("{}/server-{}", RunDirectory(run).ServersDirectory(), index);
}

std::string ServerStatusFile(const std::string& run, std::uint64_t index) {
  return RunDirectory(run).ServerFile(index);
}

Result<std::vector<std::string>> PrepareServerFolders(disk::FileSystem& fs, const std::string& run,
                                                      std::uint64_t servers) {
  const std::string directory = RunDirectory(run).ServersDirectory();
  PACELINE_ASSIGN(Earlier earlier, FindEarlier(fs, directory));
  if (earlier.moving) {
    PACELINE_TRY(Move(fs, directory, *earlier.moving));
    earlier.newest = *earlier.moving;
  }
  const auto records = ReadServerRecords(run);
  const std::uint64_t before = records.empty() ? servers : records.front().servers;
  // A server writes its record when it has everything, and trainers start after the last of them.
  const bool complete = records.size() == before;
  if (before != servers && !complete) {
    return Status::Error(Code::kMismatch,
                         fmt::format("{} has records of {} of {} servers: resume with --servers {} "
                                     "first",
                                     directory, records.size(), before, before));
  }
  if (before != servers) {
    PACELINE_ASSIGN(const auto folders, FoldersIn(fs, directory));
    const Status fit = ps::CheckOtherServers(fs, folders);
    if (!fit.ok()) {
      return fit.Wrap(fmt::format("{} was trained with --servers {} and cannot go on with {} now",
                                  run, before, servers));
    }
    PACELINE_TRY(Move(fs, directory, ++earlier.newest));
  } else if (complete || earlier.newest == 0) {
    return std::vector<std::string>();
  }
  return FoldersIn(fs, fmt::format("{}/{}{}", directory, kBefore, earlier.newest));
}

}  // namespace paceline::job
