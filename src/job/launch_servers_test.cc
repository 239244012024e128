// Environments with parameter servers.
#include <gmock/gmock.h>

#include "job/launch_environment.h"
#include "job/launch_test_util.h"
#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

const Variables kPaddleServer{{"TRAINING_ROLE", "PSERVER"},
                              {"PADDLE_PSERVERS_IP_PORT_LIST", "10.0.0.1:7164,10.0.0.2:7164"},
                              {"POD_IP", "10.0.0.2"},
                              {"PADDLE_PORT", "7164"},
                              {"PADDLE_TRAINERS_NUM", "3"}};
const Variables kPaddleTrainer{{"TRAINING_ROLE", "TRAINER"},
                               {"PADDLE_PSERVERS_IP_PORT_LIST", "10.0.0.1:7164,10.0.0.2:7164"},
                               {"PADDLE_TRAINER_ID", "1"},
                               {"PADDLE_TRAINERS_NUM", "3"}};
// As the Kubernetes files of Fluid's VGG16 benchmark and the script in their containers say it.
const Variables kFluid{{"TRAINERS", "20"},
                       {"PSERVERS", "2"},
                       {"PADDLE_INIT_PORT", "30236"},
                       {"PADDLE_INIT_PSERVERS", "10.0.0.1,10.0.0.2"},
                       {"POD_IP", "10.0.0.2"}};
constexpr char kCluster[] =
    R"({"cluster":{"chief":["a:1"],"ps":["p:1","q:1"],"worker":["b:1","c:1"]},"task":)";
const Variables kDmlc{{"DMLC_NUM_WORKER", "2"},
                      {"DMLC_NUM_SERVER", "1"},
                      {"DMLC_PS_ROOT_URI", "10.0.0.9"},
                      {"DMLC_PS_ROOT_PORT", "9092"}};

Variables TfConfig(const std::string& task) { return {{"TF_CONFIG", kCluster + task + "}"}}; }

struct ServerCase {
  const char* name;
  Variables variables;
  std::string description;  // without "launch environment: "
};

const ServerCase kServerCases[] = {
    {"OwnServer",
     {{"PACELINE_ROLE", "server"},
      {"PACELINE_RANK", "1"},
      {"PACELINE_WORLD", "2"},
      {"PACELINE_SERVERS", "a:1,[::1]:2"}},
     "paceline, server 1 of 2 at [::1]:2"},
    {"OwnTrainer",
     {{"PACELINE_RANK", "1"}, {"PACELINE_WORLD", "2"}, {"PACELINE_SERVERS", "a:1,b:2"}},
     "paceline, rank 1 of 2, 2 servers, first a:1"},
    {"OneTrainerAlone",
     {{"PACELINE_SERVERS", "a:1"}},
     "paceline, rank 0 of 1, 1 server, first a:1"},
    {"OwnServersOverruleASource",
     {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"PACELINE_SERVERS", "a:1"}},
     "pytorch-env, rank 1 of 2, 1 server, first a:1"},
    {"PaddleServer", kPaddleServer, "paddle, server 1 of 2 at 10.0.0.2:7164"},
    {"PaddleServerByItsOtherNames",
     {{"PADDLE_ROLE", "PSERVER"},
      {"PADDLE_PSERVER_ENDPOINTS", "10.0.0.1:7164"},
      {"POD_IP", "10.0.0.1"},
      {"PADDLE_PORT", "7164"}},
     "paddle, server 0 of 1 at 10.0.0.1:7164"},
    {"PaddleTrainer", kPaddleTrainer, "paddle, rank 1 of 3, 2 servers, first 10.0.0.1:7164"},
    {"FluidServer", With(kFluid, {{"TRAINING_ROLE", "PSERVER"}}),
     "paddle, server 1 of 2 at 10.0.0.2:30236"},
    {"FluidTrainer", With(kFluid, {{"TRAINING_ROLE", "TRAINER"}, {"PADDLE_INIT_TRAINER_ID", "19"}}),
     "paddle, rank 19 of 20, 2 servers, first 10.0.0.1:30236"},
    {"FluidTrainerWithAddresses",
     With(kFluid, {{"PADDLE_INIT_TRAINER_ID", "0"},
                   {"PADDLE_INIT_PSERVERS", ""},
                   {"PSERVERS", "10.0.0.1:6174,10.0.0.1:6175"}}),
     "paddle, rank 0 of 20, 2 servers, first 10.0.0.1:6174"},
    {"NumbersOfSomethingElse", {{"TRAINERS", "20"}, {"PSERVERS", "2"}}, ""},
    {"TfServer", TfConfig(R"({"type":"ps","index":1})"), "tf-config, server 1 of 2 at q:1"},
    {"TfChief", TfConfig(R"({"type":"chief","index":0})"),
     "tf-config, rank 0 of 3, 2 servers, first p:1"},
    {"TfWorker", TfConfig(R"({"type":"worker","index":1})"),
     "tf-config, rank 2 of 3, 2 servers, first p:1"},
    {"TfWithoutServers",
     {{"TF_CONFIG", R"({"cluster":{"worker":["b:1","c:2"]},"task":{"type":"worker","index":1}})"}},
     "tf-config, rank 1 of 2, coordinator b:1"},
    {"TfOfOneProcess", {{"TF_CONFIG", "{}"}}, ""},
    {"DmlcServer", With(kDmlc, {{"DMLC_ROLE", "server"}}), "dmlc, server 0 of 1 at 10.0.0.9:9092"},
    {"DmlcWorker", With(kDmlc, {{"DMLC_ROLE", "worker"}, {"DMLC_RANK", "1"}}),
     "dmlc, rank 1 of 2, 1 server, first 10.0.0.9:9092"},
    {"DmlcWorkerOfByteps", With(kDmlc, {{"DMLC_ROLE", "worker"}, {"DMLC_WORKER_ID", "0"}}),
     "dmlc, rank 0 of 2, 1 server, first 10.0.0.9:9092"},
    {"DmlcServerOfATracker", With(kDmlc, {{"DMLC_ROLE", "server"}, {"DMLC_TASK_ID", "2"}}),
     "dmlc, server 0 of 1 at 10.0.0.9:9092"},
    {"DmlcWorkerOfATracker", With(kDmlc, {{"DMLC_ROLE", "worker"}, {"DMLC_TASK_ID", "1"}}),
     "dmlc, rank 1 of 2, 1 server, first 10.0.0.9:9092"},
    {"DmlcScheduler", With(kDmlc, {{"DMLC_ROLE", "scheduler"}}), "dmlc, scheduler"},
    {"DmlcServerOfSeveral",
     With(kDmlc, {{"DMLC_ROLE", "server"},
                  {"DMLC_NUM_SERVER", "2"},
                  {"DMLC_SERVER_ID", "1"},
                  {"PACELINE_SERVERS", "a:1,b:2"}}),
     "dmlc, server 1 of 2 at b:2"},
};

class ServerLaunchTest : public ::testing::TestWithParam<ServerCase> {};

TEST_P(ServerLaunchTest, IsRecognized) {
  const auto launch = Recognize(GetParam().variables);
  ASSERT_THAT(launch, IsOk());
  const std::string text = launch->has_value() ? (*launch)->Describe() : "";
  const std::string wanted =
      GetParam().description.empty() ? "" : "launch environment: " + GetParam().description;
  EXPECT_EQ(text, wanted);
}

INSTANTIATE_TEST_SUITE_P(All, ServerLaunchTest, ::testing::ValuesIn(kServerCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct WrongServerCase {
  const char* name;
  Variables variables;
  const char* message;
};

const WrongServerCase kWrongServerCases[] = {
    {"OwnRole",
     {{"PACELINE_ROLE", "boss"}, {"PACELINE_RANK", "0"}, {"PACELINE_WORLD", "1"}},
     "PACELINE_ROLE=boss"},
    {"OwnServerWithoutList",
     {{"PACELINE_ROLE", "server"}, {"PACELINE_RANK", "0"}, {"PACELINE_WORLD", "1"}},
     "started server 0, but there are 0 addresses"},
    {"OwnListWithHole",
     {{"PACELINE_SERVERS", "a:1,,b:1"}},
     "PACELINE_SERVERS: '' is not HOST:PORT"},
    {"OwnListEndsInComma", {{"PACELINE_SERVERS", "a:1,"}}, "PACELINE_SERVERS: ''"},
    {"PaddleServerNotInTheList", With(kPaddleServer, {{"POD_IP", "10.0.0.3"}}),
     "10.0.0.3:7164, which is not in the list"},
    {"PaddleServerWithoutPort", With(kPaddleServer, {{"PADDLE_PORT", ""}}),
     "TRAINING_ROLE is set but PADDLE_PORT is not"},
    {"PaddleServerWithoutList", With(kPaddleServer, {{"PADDLE_PSERVERS_IP_PORT_LIST", ""}}),
     "PADDLE_PSERVERS_IP_PORT_LIST is not"},
    {"PaddleOddRole", With(kPaddleTrainer, {{"TRAINING_ROLE", "HETER_TRAINER"}}),
     "TRAINING_ROLE=HETER_TRAINER: not TRAINER or PSERVER"},
    {"FluidTrainerWithoutId", With(kFluid, {{"TRAINING_ROLE", "TRAINER"}}),
     "TRAINERS is set but PADDLE_INIT_TRAINER_ID is not"},
    {"FluidHostsWithoutPort",
     With(kFluid, {{"PADDLE_INIT_TRAINER_ID", "0"}, {"PADDLE_INIT_PORT", ""}}),
     "PADDLE_INIT_PSERVERS is set but PADDLE_INIT_PORT is not"},
    {"FluidNumberOfServersDiffers",
     With(kFluid, {{"PADDLE_INIT_TRAINER_ID", "0"}, {"PSERVERS", "10"}}),
     "PSERVERS=10: PADDLE_INIT_PSERVERS has 2 hosts"},
    {"FluidServerNotInTheList",
     With(kFluid, {{"TRAINING_ROLE", "PSERVER"}, {"POD_IP", "10.0.0.3"}}),
     "POD_IP and PADDLE_INIT_PORT make 10.0.0.3:30236"},
    {"TfNoJson", {{"TF_CONFIG", "{cluster"}}, "not a JSON object"},
    {"TfNoTask", {{"TF_CONFIG", R"({"cluster":{"ps":["a:1"]}})"}}, "no task"},
    {"TfNoSuchServer", TfConfig(R"({"type":"ps","index":2})"), "the cluster has no ps 2"},
    {"TfEvaluator", TfConfig(R"({"type":"evaluator","index":0})"),
     "the cluster has no evaluator 0"},
    {"TfNegativeIndex", TfConfig(R"({"type":"ps","index":-1})"), "task.index is no number"},
    {"TfListOfNumbers",
     {{"TF_CONFIG", R"({"cluster":{"ps":[7]},"task":{"type":"ps","index":0}})"}},
     "cluster.ps is not a list of HOST:PORT"},
    {"TfNoPort",
     {{"TF_CONFIG", R"({"cluster":{"ps":["a"]},"task":{"type":"ps","index":0}})"}},
     "TF_CONFIG: cluster.ps"},
    {"DmlcSeveralServers", With(kDmlc, {{"DMLC_ROLE", "worker"}, {"DMLC_NUM_SERVER", "3"}}),
     "set PACELINE_SERVERS"},
    {"DmlcWorkerWithoutRank", With(kDmlc, {{"DMLC_ROLE", "worker"}}),
     "DMLC_ROLE is set but DMLC_RANK is not"},
    {"DmlcRankTooLarge", With(kDmlc, {{"DMLC_ROLE", "worker"}, {"DMLC_RANK", "2"}}),
     "DMLC_RANK=2: must be less than 2"},
    {"DmlcTaskOfAWorker", With(kDmlc, {{"DMLC_ROLE", "server"}, {"DMLC_TASK_ID", "1"}}),
     "DMLC_TASK_ID=1: must be from 2 to 2"},
    {"DmlcOddRole", With(kDmlc, {{"DMLC_ROLE", "joker"}}), "DMLC_ROLE=joker"},
    {"DmlcNoRoot", With(kDmlc, {{"DMLC_ROLE", "server"}, {"DMLC_PS_ROOT_URI", ""}}),
     "DMLC_PS_ROOT_URI is not"},
};

class WrongServerLaunchTest : public ::testing::TestWithParam<WrongServerCase> {};

TEST_P(WrongServerLaunchTest, NamesTheVariable) {
  EXPECT_THAT(Recognize(GetParam().variables),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(All, WrongServerLaunchTest, ::testing::ValuesIn(kWrongServerCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ToVariables, OfServersAreRecognizedAsTheSame) {
  const auto server = Recognize(TfConfig(R"({"type":"ps","index":1})"));
  ASSERT_THAT(server, IsOk());
  LaunchEnvironment launch = **server;
  launch.source = "paceline";
  const auto again = Recognize(ToVariables(launch));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ((*again)->Describe(), launch.Describe());
  EXPECT_THAT((*again)->servers, ElementsAre("p:1", "q:1"));
}

}  // namespace
}  // namespace paceline::job
