#include "support/program.h"

#include <chrono>
#include <sstream>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::testing {

namespace {

using namespace std::chrono_literals;
constexpr auto kDeadline = 240s;  // only against hanging; nothing is timed

}  // namespace

std::string Program(const std::string& name) { return std::string(PACELINE_BIN_DIR "/") + name; }

CommandResult RunPaceline(std::vector<std::string> arguments, Environment environment) {
  arguments.insert(arguments.begin(), Program("paceline"));
  auto result = RunCommand({.argv = arguments, .environment = environment}, kDeadline);
  EXPECT_THAT(result, IsOk());
  return result.ok() ? *result : CommandResult{};
}

std::vector<std::string> SmallTraining(const std::string& run,
                                       const std::vector<std::string>& more) {
  std::vector<std::string> arguments{
      "train", "vgg16-small", "--batch",   "8", "--train-samples", "40", "--eval-samples",
      "10",    "--json",      "--threads", "1", "--run",           run};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

nlohmann::json LastJson(const std::string& output) {
  std::istringstream lines(output);
  std::string line, last;
  while (std::getline(lines, line)) {
    if (!line.empty()) last = line;
  }
  nlohmann::json json = nlohmann::json::parse(last, nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(json.is_object()) << "no JSON object at the end of: " << output;
  return json;
}

std::string HashOf(const CommandResult& result) {
  EXPECT_EQ(result.state.code, 0) << result.err;
  return result.state.code == 0 ? LastJson(result.out)["params_hash"].get<std::string>() : "";
}

void ExpectError(const CommandResult& result, int exit_code, const std::string& text) {
  EXPECT_EQ(result.state.code, exit_code) << result.state.Describe() << "\n" << result.err;
  std::istringstream lines(result.err);
  std::string line;
  int errors = 0;
  while (std::getline(lines, line)) {
    if (line.find(": error: ") == std::string::npos) continue;
    ++errors;
    EXPECT_THAT(line, ::testing::HasSubstr(text));
  }
  EXPECT_EQ(errors, 1) << "one error line, not: " << result.err;
  for (const char* sign : {"Exception raised from", "frame #", "terminate called", "libtorch"}) {
    EXPECT_THAT(result.err, ::testing::Not(::testing::HasSubstr(sign)));
  }
}

Subprocess StartPaceline(const std::vector<std::string>& arguments, Environment environment) {
  std::vector<std::string> argv{"sh", "-c", "exec \"$@\" 2>&1", "sh", Program("paceline")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto child = Subprocess::Start({.argv = argv, .environment = std::move(environment)});
  EXPECT_THAT(child, IsOk());
  return std::move(child).value();
}

}  // namespace paceline::testing
