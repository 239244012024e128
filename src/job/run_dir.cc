#include "job/run_dir.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>

#include <fmt/format.h>

namespace paceline::job {

Status RunDirectory::Create() const {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  if (error) {
    return Status::Error(
        Code::kDisk, fmt::format("cannot make the run directory {}: {}", path_, error.message()));
  }
  return {};
}

Result<std::string> RunDirectory::ReadOrMakeId() const {
  std::string id;
  std::ifstream(IdFile()) >> id;
  if (!id.empty()) return id;
  std::random_device entropy;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", entropy());
  PACELINE_TRY(WriteTextFile(IdFile(), id + "\n"));
  return id;
}

bool RunDirectory::Used() const {
  std::error_code ignored;
  return std::filesystem::exists(EventFile(), ignored) ||
         std::filesystem::exists(CheckpointDirectory(), ignored);
}

std::string DefaultRunPath(const std::string& model, std::int64_t unix_seconds, int pid) {
  const std::time_t time = unix_seconds;
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &utc);
  return fmt::format("runs/{}-{}-{}", model, text, pid);
}

Status WriteTextFile(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  errno = 0;
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file.good() || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int cause = errno;
    std::remove(temporary.c_str());
    return Status::Error(Code::kDisk,
                         fmt::format("cannot write {}: {}", path, std::strerror(cause)));
  }
  return {};
}

}  // namespace paceline::job
