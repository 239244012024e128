// Trainers of torch models that come and go with parameter servers, as real processes.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/processes.h"
#include "support/program.h"
#include "system/server_runs.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using ::testing::HasSubstr;

class ElasticDenseServers : public ::testing::Test {
 protected:
  TempDir dir_{TempDir::Place::kMemory};
};

nlohmann::json AuditOf(const std::string& run) {
  const CommandResult audit = RunPaceline({"audit", run, "--json"});
  EXPECT_EQ(audit.state.code, 0) << RunPaceline({"audit", run}).out;
  return LastJson(audit.out);
}

std::vector<std::string> Training(const std::string& run, const std::vector<std::string>& more) {
  std::vector<std::string> flags{"--strategy", "ps",   "--optimizer", "sgd", "--mode",  "async",
                                 "--lr",       "0.01", "--batch",     "2",   "--steps", "40"};
  flags.insert(flags.end(), more.begin(), more.end());
  return SmallTraining(run, flags);
}

std::vector<std::string> Elastic(const std::string& run, std::vector<std::string> more) {
  more.insert(more.end(), {"--heartbeat", "0.1", "--dead-timeout", "1"});
  return Training(run, more);
}

// Its pushes are one sequence, whoever makes them: a batch that was lost, repeated or of other
// samples would change bits.
TEST_F(ElasticDenseServers, LoneTrainersOfATorchModelHaveTheBitsOfAFixedOne) {
  const std::string run = dir_ / "elastic";
  const CommandResult result = RunPaceline(Elastic(
      run, {"--workers", "1:1", "--chaos", "kill=trainer:0@step10,kill=coordinator@step20"}));
  EXPECT_THAT(result.err, HasSubstr("after the chaos: audit: exactly once: OK"));
  EXPECT_THAT(result.err, HasSubstr("trainer 0 was ended by SIGKILL; starting it again"));
  EXPECT_EQ(HashOf(result), HashOf(RunPaceline(Training(dir_ / "fixed", {"--workers", "1"}))));
}

TEST_F(ElasticDenseServers, TrainersOfATorchModelDieJoinAndLeave) {
  const std::string run = dir_ / "run";
  const CommandResult result = RunPaceline(Elastic(
      run, {"--workers", "1:2", "--servers", "2", "--start-workers", "1", "--eval-every", "15",
            "--chaos", "join=@step4,kill=trainer:0@step10,leave=trainer:1@step20,join=@step25"}));
  EXPECT_THAT(result.err, HasSubstr("after the chaos: audit: exactly once: OK"));
  const nlohmann::json json = ExpectComplete(result, run, 80);
  EXPECT_EQ(json["steps"], 40);
  EXPECT_EQ(json["eval_samples"], 10);
  EXPECT_EQ(AuditOf(run)["samples"], 160);
}

TEST_F(ElasticDenseServers, EveryAsynchronousModeLendsTheSamplesOfATorchModel) {
  for (const std::string mode : {"half-async", "geo"}) {
    SCOPED_TRACE(mode);
    const std::string run = dir_ / mode;
    const CommandResult result =
        RunPaceline(Elastic(run, {"--workers", "1:2", "--mode", mode, "--merge", "3", "--geo-steps",
                                  "5", "--servers", "2"}));
    ASSERT_EQ(result.state.code, 0) << result.err;
    EXPECT_EQ(LastJson(result.out)["steps"], 40);
    EXPECT_EQ(AuditOf(run)["ended"], "complete");
  }
}

}  // namespace
}  // namespace paceline::testing
