#include "system/server_runs.h"

#include <gmock/gmock.h>

#include "support/processes.h"
#include "testing/temp_dir.h"

namespace paceline::testing {

using ::testing::IsEmpty;

std::vector<std::string> PlacelessTraining(const std::string& run,
                                           const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"train",
                                     "ctr-dnn-small",
                                     "--strategy",
                                     "ps",
                                     "--steps",
                                     std::to_string(kSteps),
                                     "--batch",
                                     "32",
                                     "--eval-samples",
                                     "200",
                                     "--wal-group-ms",
                                     "1",
                                     "--json",
                                     "--run",
                                     run};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> ServerTraining(const std::string& run,
                                        const std::vector<std::string>& more) {
  std::vector<std::string> numbers{"--workers", std::to_string(kTrainers), "--servers",
                                   std::to_string(kServers)};
  numbers.insert(numbers.end(), more.begin(), more.end());
  return PlacelessTraining(run, numbers);
}

nlohmann::json ServerRecordOf(const std::string& run, std::uint64_t index) {
  const std::string text = ReadFile(run + "/servers/server-" + std::to_string(index) + ".json");
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(json.is_object()) << text;
  return json;
}

nlohmann::json ExpectComplete(const CommandResult& result, const std::string& run,
                              std::uint64_t pushes, std::uint64_t servers) {
  EXPECT_EQ(result.state.code, 0) << result.err;
  EXPECT_THAT(ProcessesOf(run), IsEmpty());
  if (result.state.code != 0) return nlohmann::json::object();
  for (std::uint64_t i = 0; i < servers; ++i) {
    EXPECT_EQ(ServerRecordOf(run, i)["pushes"], pushes) << "server " << i << "\n" << result.err;
  }
  nlohmann::json json =
      nlohmann::json::parse(ReadFile(run + "/result.json"), nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(json["interrupted"]);
  return json;
}

}  // namespace paceline::testing
