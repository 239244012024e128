#include "support/elastic_run.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "support/processes.h"
#include "testing/temp_dir.h"

namespace paceline::testing {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Elastic(const std::string& run, const std::string& workers,
                                 std::vector<std::string> more) {
  std::vector<std::string> settings{"--workers",
                                    workers,
                                    "--shards",
                                    "4",
                                    "--batch",
                                    "4",
                                    "--steps",
                                    "80",
                                    "--heartbeat",
                                    "0.2",
                                    "--dead-timeout",
                                    "2",
                                    "--reproducible",
                                    "--checkpoint-every",
                                    "20"};
  settings.insert(settings.end(), more.begin(), more.end());
  return SmallTraining(run, settings);
}

const std::string& UndisturbedHash(int steps) {
  static std::map<int, std::string> hashes;
  const auto [known, made] = hashes.try_emplace(steps);
  if (made) {
    const TempDir dir;
    known->second = HashOf(RunPaceline(SmallTraining(
        dir / "plain", {"--workers", "4", "--shards", "4", "--batch", "4", "--steps",
                        std::to_string(steps), "--reproducible", "--checkpoint-every", "20"})));
  }
  return known->second;
}

std::vector<nlohmann::json> Records(const std::string& path) {
  std::vector<nlohmann::json> records;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    auto record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object()) records.push_back(std::move(record));
  }
  return records;
}

std::size_t Count(const std::string& path, const std::string& type) {
  std::size_t count = 0;
  for (const auto& record : Records(path)) count += record["type"] == type ? 1 : 0;
  return count;
}

void ExpectInvariants(const std::string& run) {
  const CommandResult audit = RunPaceline({"audit", run, "--json"});
  EXPECT_EQ(audit.state.code, 0) << audit.out << audit.err;
  EXPECT_TRUE(ProcessesOf(run).empty());
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".tmp")));
  }
}

void ExpectSameBits(const std::string& workers, const std::string& chaos,
                    const std::vector<std::string>& more, Environment environment) {
  const TempDir dir;
  std::vector<std::string> settings{"--chaos", chaos};
  settings.insert(settings.end(), more.begin(), more.end());
  const CommandResult result =
      RunPaceline(Elastic(dir / "run", workers, settings), std::move(environment));
  EXPECT_EQ(HashOf(result), UndisturbedHash()) << chaos << "\n" << result.err;
  ExpectInvariants(dir / "run");
}

}  // namespace paceline::testing
