#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace paceline::job {

// Where one run keeps its records:
//   config.toml    the resolved configuration; can be given back with --config
//   events.jsonl   one JSON object per line: start, view, step, evaluate, checkpoint, end
//   members.jsonl  the same of the coordinator of an elastic run: who joined, was lost, left
//   status.json    what the coordinator saw last, replaced about every second
//   servers/       server-I.json of each parameter server, replaced about every second
//   log.txt        what the program logged
//   checkpoints/   gen-... directories
//   result.json    the summary, written at the end
//   RUN_ID         names the run in its checkpoints
//   LOCK           held while the run is alive
class RunDirectory {
 public:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string ConfigFile() const { return path_ + "/config.toml"; }
  std::string EventFile() const { return path_ + "/events.jsonl"; }
  std::string MembersFile() const { return path_ + "/members.jsonl"; }
  std::string StatusFile() const { return path_ + "/status.json"; }
  std::string ServersDirectory() const { return path_ + "/servers"; }
  std::string ServerFile(std::uint64_t index) const {
    return ServersDirectory() + "/server-" + std::to_string(index) + ".json";
  }
  std::string LogFile() const { return path_ + "/log.txt"; }
  std::string CheckpointDirectory() const { return path_ + "/checkpoints"; }
  std::string VocabularyFile() const { return path_ + "/vocabulary.txt"; }
  std::string ResultFile() const { return path_ + "/result.json"; }
  std::string IdFile() const { return path_ + "/RUN_ID"; }

  // Makes the directory and its parents. kDisk when that is not possible.
  Status Create() const;

  // The run's id; made (random, 32 hexadecimal digits) and stored when there is none yet.
  Result<std::string> ReadOrMakeId() const;

  // True when a run has been here already.
  bool Used() const;

 private:
  std::string path_;
};

// "runs/vgg16-20261115-214000-1234": readable, sorted by time, unique by process id.
std::string DefaultRunPath(const std::string& model, std::int64_t unix_seconds, int pid);

// Writes a small text file completely or not at all (temporary file, then rename).
Status WriteTextFile(const std::string& path, const std::string& text);

}  // namespace paceline::job
