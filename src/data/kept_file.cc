#include "data/kept_file.h"

#include <unistd.h>

#include <string>

#include <fmt/format.h>

#include "disk/file_system.h"

namespace paceline::data {

// Through a name of its own and a rename, so that nobody reads half of it.
Status KeepFile(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  disk::PosixFileSystem files;
  PACELINE_TRY(files.MakeDir(path.parent_path().string()));
  const std::string temporary = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  PACELINE_TRY(files.RemoveAll(temporary));
  PACELINE_ASSIGN(const auto file, files.Create(temporary));
  PACELINE_TRY(file->Append(bytes));
  PACELINE_TRY(file->Sync());
  PACELINE_TRY(file->Close());
  return files.Rename(temporary, path.string());
}

}  // namespace paceline::data
