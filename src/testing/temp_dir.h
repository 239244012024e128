#pragma once

#include <filesystem>
#include <string>

namespace paceline::testing {

// A fresh directory below the system's temporary one, removed with everything in it.
class TempDir {
 public:
  enum class Place {
    kTemporary,
    // In memory where that is possible: a killed process loses no page of the kernel, so tests that
    // kill need no real disk, and hundreds of saves on one take minutes.
    kMemory,
  };
  explicit TempDir(Place place = Place::kTemporary);
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Whole-file helpers for tests; they fail the test on error.
std::string ReadFile(const std::filesystem::path& path);
void WriteFile(const std::filesystem::path& path, const std::string& content);

}  // namespace paceline::testing
