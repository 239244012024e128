// Trainers and servers that know their place only from the variables of other systems: Paddle,
// TensorFlow, ps-lite. The same command line everywhere comes to what `paceline` alone comes to.
#include <signal.h>

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/processes.h"
#include "support/program.h"
#include "system/server_runs.h"
#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kDeadline = 240s;  // only against hanging
constexpr int kUsage = 2;

// What each process of a job finds in its environment.
struct Job {
  std::vector<Environment> servers, trainers, others;
};

std::string Address(std::uint16_t port) { return fmt::format("127.0.0.1:{}", port); }

Job OwnJob() {
  const auto ports = FreePorts(2);
  const std::string list = Address(ports[0]) + "," + Address(ports[1]);
  Job job;
  for (const char* rank : {"0", "1"}) {
    const Environment common{
        {"PACELINE_SERVERS", list}, {"PACELINE_RANK", rank}, {"PACELINE_WORLD", "2"}};
    job.trainers.push_back(common);
    job.servers.push_back(common);
    job.servers.back()["PACELINE_ROLE"] = "server";
  }
  return job;
}

// As paddle.distributed.launch sets them.
Job PaddleJob() {
  const auto ports = FreePorts(4);
  const Environment common{
      {"PADDLE_PSERVERS_IP_PORT_LIST", Address(ports[0]) + "," + Address(ports[1])},
      {"PADDLE_TRAINER_ENDPOINTS", Address(ports[2]) + "," + Address(ports[3])},
      {"PADDLE_TRAINERS_NUM", "2"},
      {"POD_IP", "127.0.0.1"}};
  Job job;
  for (const std::size_t i : {0U, 1U}) {
    job.servers.push_back(common);
    job.servers.back()["TRAINING_ROLE"] = "PSERVER";
    job.servers.back()["PADDLE_PORT"] = std::to_string(ports[i]);
    job.trainers.push_back(common);
    job.trainers.back()["TRAINING_ROLE"] = "TRAINER";
    job.trainers.back()["PADDLE_TRAINER_ID"] = std::to_string(i);
  }
  return job;
}

// As the scripts of Fluid's benchmarks set them: all servers have one port.
Job FluidJob() {
  const Environment common{{"TRAINERS", "2"},
                           {"PSERVERS", "1"},
                           {"PADDLE_INIT_PORT", std::to_string(FreePorts(1).front())},
                           {"PADDLE_INIT_PSERVERS", "127.0.0.1"},
                           {"POD_IP", "127.0.0.1"}};
  Job job{.servers = {common}, .trainers = {common, common}, .others = {}};
  job.servers[0]["TRAINING_ROLE"] = "PSERVER";
  for (const std::size_t i : {0U, 1U}) {
    job.trainers[i]["TRAINING_ROLE"] = "TRAINER";
    job.trainers[i]["PADDLE_INIT_TRAINER_ID"] = std::to_string(i);
  }
  return job;
}

Environment TfConfig(const nlohmann::json& cluster, const std::string& type, std::size_t index) {
  const nlohmann::json config{{"cluster", cluster}, {"task", {{"type", type}, {"index", index}}}};
  return {{"TF_CONFIG", config.dump()}};
}

Job TensorflowJob() {
  const auto ports = FreePorts(4);
  const nlohmann::json cluster{{"ps", {Address(ports[0]), Address(ports[1])}},
                               {"chief", {Address(ports[2])}},
                               {"worker", {Address(ports[3])}}};
  return {.servers = {TfConfig(cluster, "ps", 0), TfConfig(cluster, "ps", 1)},
          .trainers = {TfConfig(cluster, "chief", 0), TfConfig(cluster, "worker", 0)},
          .others = {}};
}

// As the trackers of ps-lite and MXNet do: tasks are the workers, then the servers.
Job DmlcJob() {
  const auto with_role = [port = FreePorts(1).front()](const char* role, const char* task) {
    return Environment{{"DMLC_ROLE", role},
                       {"DMLC_TASK_ID", task},
                       {"DMLC_NUM_WORKER", "2"},
                       {"DMLC_NUM_SERVER", "1"},
                       {"DMLC_PS_ROOT_URI", "127.0.0.1"},
                       {"DMLC_PS_ROOT_PORT", std::to_string(port)}};
  };
  return {.servers = {with_role("server", "2")},
          .trainers = {with_role("worker", "0"), with_role("worker", "1")},
          .others = {with_role("scheduler", "")}};
}

void ExpectEndsWell(Subprocess& child) {
  const auto rest = child.ReadAll(kDeadline);
  ASSERT_THAT(rest, IsOk());
  const auto state = child.Wait(kDeadline);
  ASSERT_THAT(state, IsOk());
  EXPECT_EQ(state->code, 0) << rest->out;
}

// Starts all but trainer 0 in the background, and returns what trainer 0 did.
CommandResult RunTrainers(const std::vector<std::string>& command,
                          const std::vector<Environment>& trainers) {
  std::vector<Subprocess> others;
  for (std::size_t i = 1; i < trainers.size(); ++i) {
    others.push_back(StartPaceline(command, trainers[i]));
  }
  CommandResult first = RunPaceline(command, trainers[0]);
  for (Subprocess& other : others) ExpectEndsWell(other);
  return first;
}

// Of the job that `paceline` starts itself.
const std::string& OwnHash() {
  static const std::string hash = [] {
    const TempDir dir{TempDir::Place::kMemory};
    return HashOf(RunPaceline(ServerTraining(dir / "own")));
  }();
  return hash;
}

struct JobCase {
  const char* name;
  std::function<Job()> make;
  const char* description;  // of trainer 0
};

class ForeignServersTest : public ::testing::TestWithParam<JobCase> {};

TEST_P(ForeignServersTest, TheResultIsThatOfPacelineAlone) {
  const TempDir dir{TempDir::Place::kMemory};
  const std::string run = dir / "run";
  const Job job = GetParam().make();
  for (const Environment& other : job.others) {
    EXPECT_EQ(RunPaceline(PlacelessTraining(run), other).state.code, 0);
  }
  std::vector<Subprocess> servers;
  for (const Environment& server : job.servers) {
    servers.push_back(StartPaceline(PlacelessTraining(run), server));
  }
  const CommandResult result = RunTrainers(PlacelessTraining(run), job.trainers);
  for (Subprocess& server : servers) {
    server.Signal(SIGTERM);
    ExpectEndsWell(server);
  }
  const nlohmann::json json = ExpectComplete(result, run, kTrainers * kSteps, job.servers.size());
  EXPECT_EQ(json["steps"], kSteps);
  EXPECT_EQ(json["workers"], kTrainers);
  EXPECT_THAT(result.err, HasSubstr(GetParam().description));
  EXPECT_EQ(HashOf(result), OwnHash());
}

INSTANTIATE_TEST_SUITE_P(
    All, ForeignServersTest,
    ::testing::Values(JobCase{"Own", OwnJob, ""},
                      JobCase{"Paddle", PaddleJob, "launch environment: paddle, rank 0 of 2"},
                      JobCase{"Fluid", FluidJob, "launch environment: paddle, rank 0 of 2"},
                      JobCase{"Tensorflow", TensorflowJob,
                              "launch environment: tf-config, rank 0 of 2"},
                      JobCase{"Dmlc", DmlcJob, "launch environment: dmlc, rank 0 of 2"}),
    [](const auto& test) { return std::string(test.param.name); });

std::vector<Environment> WorkersOfTensorflow() {
  const auto ports = FreePorts(2);
  const nlohmann::json cluster{{"worker", {Address(ports[0]), Address(ports[1])}}};
  return {TfConfig(cluster, "worker", 0), TfConfig(cluster, "worker", 1)};
}

std::vector<Environment> TrainersOfPaddle() {
  const auto ports = FreePorts(2);
  std::vector<Environment> trainers;
  for (const std::size_t i : {0U, 1U}) {
    trainers.push_back({{"PADDLE_TRAINER_ID", std::to_string(i)},
                        {"PADDLE_TRAINERS_NUM", "2"},
                        {"PADDLE_CURRENT_ENDPOINT", Address(ports[i])},
                        {"PADDLE_TRAINER_ENDPOINTS", Address(ports[0]) + "," + Address(ports[1])}});
  }
  return trainers;
}

// Without servers they meet at the address of the first.
TEST(ForeignGroup, TrainersWithoutServersReduceTogether) {
  const TempDir dir{TempDir::Place::kMemory};
  const auto command = [&](const char* run, const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags{"--steps", "2"};
    flags.insert(flags.end(), more.begin(), more.end());
    return SmallTraining(dir / run, flags);
  };
  const std::string expected = HashOf(RunPaceline(command("own", {"--workers", "2"})));
  EXPECT_EQ(HashOf(RunTrainers(command("tensorflow"), WorkersOfTensorflow())), expected);
  EXPECT_EQ(HashOf(RunTrainers(command("paddle"), TrainersOfPaddle())), expected);
  EXPECT_THAT(ProcessesOf(dir / ""), IsEmpty());
}

struct WrongCase {
  const char* name;
  Environment environment;
  const char* message;
  std::vector<std::string> more = {};
};

class WrongEnvironmentTest : public ::testing::TestWithParam<WrongCase> {};

TEST_P(WrongEnvironmentTest, IsRefusedAtOnce) {
  const TempDir dir{TempDir::Place::kMemory};
  ExpectError(RunPaceline(PlacelessTraining(dir / "run", GetParam().more), GetParam().environment),
              kUsage, GetParam().message);
}

const Environment kPaddle{{"TRAINING_ROLE", "TRAINER"},
                          {"PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:7164"},
                          {"PADDLE_TRAINER_ID", "0"},
                          {"PADDLE_TRAINERS_NUM", "2"}};
const Environment kDmlc{{"DMLC_ROLE", "worker"},           {"DMLC_TASK_ID", "0"},
                        {"DMLC_NUM_WORKER", "2"},          {"DMLC_NUM_SERVER", "1"},
                        {"DMLC_PS_ROOT_URI", "127.0.0.1"}, {"DMLC_PS_ROOT_PORT", "9092"}};

Environment With(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongEnvironmentTest,
    ::testing::Values(
        WrongCase{"PaddleTrainerWithoutId", With(kPaddle, "PADDLE_TRAINER_ID", ""),
                  "PADDLE_TRAINERS_NUM is set but PADDLE_TRAINER_ID is not"},
        WrongCase{"PaddleTrainerOutOfRange", With(kPaddle, "PADDLE_TRAINER_ID", "2"),
                  "PADDLE_TRAINER_ID=2: must be less than PADDLE_TRAINERS_NUM=2"},
        WrongCase{"PaddleServerWithoutAddress", With(kPaddle, "TRAINING_ROLE", "PSERVER"),
                  "TRAINING_ROLE is set but POD_IP is not"},
        WrongCase{"OtherNumberOfWorkers",
                  kPaddle,
                  "--workers 3, but paddle started 2",
                  {"--workers", "3"}},
        WrongCase{
            "TooFewShards", kPaddle, "--shards 1 is less than --workers 2", {"--shards", "1"}},
        WrongCase{
            "OtherStrategy", kPaddle, "the trainers take --strategy ps", {"--strategy", "local"}},
        WrongCase{"TensorflowNoJson",
                  {{"TF_CONFIG", R"({"cluster": {"ps": ["127.0.0.1:1"]})"}},
                  "not a JSON object"},
        WrongCase{"TensorflowOutOfRange",
                  TfConfig({{"ps", {"127.0.0.1:1"}}, {"worker", {"127.0.0.1:2"}}}, "worker", 1),
                  "the cluster has no worker 1: there are 1"},
        WrongCase{
            "TensorflowEvaluator",
            TfConfig({{"ps", {"127.0.0.1:1"}}, {"evaluator", {"127.0.0.1:2"}}}, "evaluator", 0),
            "the cluster has no evaluator 0"},
        WrongCase{"DmlcWithoutNumber", With(kDmlc, "DMLC_NUM_WORKER", ""),
                  "DMLC_ROLE is set but DMLC_NUM_WORKER is not"},
        WrongCase{"DmlcTaskOutOfRange", With(kDmlc, "DMLC_TASK_ID", "2"),
                  "DMLC_TASK_ID=2: must be less than 2"},
        WrongCase{"DmlcSeveralServers", With(kDmlc, "DMLC_NUM_SERVER", "2"),
                  "set PACELINE_SERVERS"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace paceline::testing
