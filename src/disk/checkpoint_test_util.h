#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "disk/checkpoint.h"

namespace paceline::disk {

inline constexpr char kTestCluster[] = "cluster-a";

// A checkpoint in which every byte is a function of one number, so that a mixture of two shows.
class SampleCheckpoint {
 public:
  explicit SampleCheckpoint(std::uint64_t number);

  const CheckpointMeta& meta() const { return meta_; }
  const std::vector<CheckpointFile>& files() const { return files_; }

 private:
  void AddTensor(const std::string& name, std::vector<std::int64_t> shape);

  CheckpointMeta meta_;
  std::vector<std::vector<std::byte>> data_;
  std::vector<CheckpointFile> files_;
};

// Number n goes into generation n when it is saved into an empty root in order.
Result<Generation> SaveSample(FileSystem& fs, const std::string& root, std::uint64_t number,
                              int keep = 3);
Result<LoadedCheckpoint> Load(FileSystem& fs, const std::string& root);

// Fails the test unless this is sample `loaded.meta.step`, whole and unmixed.
void ExpectWholeSample(const LoadedCheckpoint& loaded);

// Entries of a directory, e.g. {"LATEST", "gen-0000000000000001"}.
std::vector<std::string> Names(const std::string& dir);
bool HasTemporaries(const std::string& root);

// Runs `body` in a forked process and returns what waitpid says; body's value is the exit code.
int RunInChild(const std::function<int()>& body);

}  // namespace paceline::disk
