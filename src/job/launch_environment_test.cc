#include "job/launch_environment.h"

#include <gmock/gmock.h>

#include "job/launch_test_util.h"
#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

const Variables kTorchrun{{"RANK", "1"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "10.0.0.1"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "none"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables kSrun{{"SLURM_JOB_ID", "123456"},
                      {"SLURM_PROCID", "6"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_NODEID", "3"},
                      {"SLURM_NTASKS", "7"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "7"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                      {"SLURM_STEP_NODELIST", "gnode[10,025-027]"},
                      {"SLURM_JOB_NODELIST", "gnode[01-99]"}};
const Variables kIndexedJob{
    {"JOB_COMPLETION_INDEX", "2"}, {"HOSTNAME", "train-2"}, {"PACELINE_WORLD", "4"}};

struct LaunchCase {
  const char* name;
  Variables variables;
  std::string description;  // without "launch environment: "; empty: nobody started us
};

const LaunchCase kLaunchCases[] = {
    {"Nothing", {}, ""},
    {"EmptyValuesAreNotSet", {{"RANK", ""}, {"WORLD_SIZE", ""}}, ""},
    {"OwnVariables",
     {{"PACELINE_RANK", "3"}, {"PACELINE_WORLD", "4"}, {"PACELINE_COORDINATOR", "a:1"}},
     "paceline, rank 3 of 4, coordinator a:1"},
    {"OwnVariablesWinOverAll",
     With(kTorchrun,
          {{"PACELINE_RANK", "0"}, {"PACELINE_WORLD", "2"}, {"PACELINE_COORDINATOR", "[::1]:7"}}),
     "paceline, rank 0 of 2, coordinator [::1]:7"},
    {"AWorldOfOneNeedsNoCoordinator",
     {{"PACELINE_RANK", "0"}, {"PACELINE_WORLD", "1"}},
     "paceline, rank 0 of 1"},
    {"TorchrunsStoreHasTakenThePort", kTorchrun,
     "torchrun, rank 1 of 4, coordinator 10.0.0.1:29501"},
    {"TorchrunWithoutAStore", With(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}),
     "torchrun, rank 1 of 4, coordinator 10.0.0.1:29500"},
    {"TorchrunRestarted", With(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "2"}}),
     "torchrun, rank 1 of 4, coordinator 10.0.0.1:29501, restart 2"},
    {"TorchrunInsideAPodOfKubeflow",
     With(kTorchrun, {{"PET_NODE_RANK", "0"}, {"PET_NNODES", "2"}, {"PET_NPROC_PER_NODE", "2"}}),
     "torchrun, rank 1 of 4, coordinator 10.0.0.1:29501"},
    {"AnIpv6MasterGetsBrackets", With(kTorchrun, {{"MASTER_ADDR", "fe80::1"}}),
     "torchrun, rank 1 of 4, coordinator [fe80::1]:29501"},
    {"KubeflowsPodsCount",
     {{"RANK", "1"},
      {"WORLD_SIZE", "2"},
      {"MASTER_ADDR", "job-master-0"},
      {"MASTER_PORT", "23456"},
      {"PET_NPROC_PER_NODE", "4"}},
     "pytorch-env, host 1 of 2 with 4 processes each, coordinator job-master-0:23456"},
    {"PetVariables",
     {{"PET_NODE_RANK", "1"},
      {"PET_NNODES", "2"},
      {"PET_NPROC_PER_NODE", "auto"},
      {"PET_MASTER_ADDR", "job-node-0-0.job"},
      {"PET_MASTER_PORT", "29500"},
      {"JOB_COMPLETION_INDEX", "1"}},
     "pet, rank 1 of 2, coordinator job-node-0-0.job:29500"},
    {"PetVariablesOfTheOldOperator",
     {{"PET_NODE_RANK", "1"},
      {"PET_NNODES", "2:2"},
      {"PET_N_PROC_PER_NODE", "3"},
      {"PET_MASTER_ADDR", "a"}},
     "pet, host 1 of 2 with 3 processes each, coordinator a:29500"},
    {"OpenMpiConnectsItself",
     {{"OMPI_COMM_WORLD_RANK", "1"},
      {"OMPI_COMM_WORLD_SIZE", "2"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
     "open-mpi, rank 1 of 2, no coordinator"},
    {"OpenMpiWithAnExportedMaster",
     {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}},
     "open-mpi, rank 1 of 2, coordinator a:29500"},
    {"OpenMpiInsideASlurmJob",  // srun has started one daemon per host, not the ranks
     With(kSrun, {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "16"}}),
     "open-mpi, rank 1 of 16, no coordinator"},
    {"Mpich", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "mpich, rank 0 of 2, no coordinator"},
    {"SrunWithPmi2SpeaksLikeMpich", With(kSrun, {{"PMI_RANK", "6"}, {"PMI_SIZE", "7"}}),
     "mpich, rank 6 of 7, coordinator gnode10:23456"},
    {"Srun", kSrun, "slurm, rank 6 of 7, coordinator gnode10:23456"},
    {"SrunAfterARequeue", With(kSrun, {{"SLURM_RESTART_COUNT", "1"}}),
     "slurm, rank 6 of 7, coordinator gnode10:23456, restart 1"},
    {"SrunWithTheUsersMaster",
     With(kSrun, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}, {"WORLD_SIZE", "7"}}),
     "slurm, rank 6 of 7, coordinator a:5"},
    {"ABatchScriptIsNotAStep",
     {{"SLURM_JOB_ID", "1"},
      {"SLURM_PROCID", "0"},
      {"SLURM_NTASKS", "4"},
      {"SLURM_JOB_NODELIST", "n[1-4]"},
      {"SLURM_TASKS_PER_NODE", "1(x4)"}},
     ""},
    {"ABatchScriptsOwnStepIsNone", With(kSrun, {{"SLURM_STEP_ID", "4294967291"}}), ""},
    {"AnInteractiveShellIsNoStep", With(kSrun, {{"SLURM_STEP_ID", "4294967290"}}), ""},
    {"AStepOfOneTaskIsAShell", With(kSrun, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}),
     ""},
    {"Horovod",
     {{"HOROVOD_RANK", "1"},
      {"HOROVOD_SIZE", "2"},
      {"HOROVOD_LOCAL_RANK", "1"},
      {"HOROVOD_LOCAL_SIZE", "2"},
      {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.1"},
      {"HOROVOD_GLOO_RENDEZVOUS_PORT", "4000"}},
     "horovod, rank 1 of 2, coordinator 10.0.0.1:4001"},
    {"Paddle",
     {{"PADDLE_TRAINER_ID", "1"},
      {"PADDLE_TRAINERS_NUM", "2"},
      {"PADDLE_TRAINER_ENDPOINTS", "10.0.0.1:6170,10.0.0.2:6170"},
      {"PADDLE_MASTER", "10.0.0.9:5"},
      {"TRAINING_ROLE", "TRAINER"}},
     "paddle, rank 1 of 2, coordinator 10.0.0.1:6170"},
    {"PaddleWithTooManyEndpointsToList",
     {{"PADDLE_TRAINER_ID", "1"}, {"PADDLE_TRAINERS_NUM", "2"}, {"PADDLE_MASTER", "10.0.0.9:5"}},
     "paddle, rank 1 of 2, coordinator 10.0.0.9:5"},
    {"IndexedJob", kIndexedJob, "kubernetes-indexed-job, rank 2 of 4, coordinator train-0:29500"},
    {"IndexedJobWithAHeadlessService",
     With(kIndexedJob, {{"PACELINE_SUBDOMAIN", "svc"}, {"MASTER_PORT", "7"}}),
     "kubernetes-indexed-job, rank 2 of 4, coordinator train-0.svc:7"},
    {"IndexedJobWithAMaster",
     {{"JOB_COMPLETION_INDEX", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "m"}},
     "kubernetes-indexed-job, rank 2 of 4, coordinator m:29500"},
    {"IndexedJobWithACoordinator",
     {{"JOB_COMPLETION_INDEX", "2"}, {"PET_NNODES", "4"}, {"PACELINE_COORDINATOR", "m:9"}},
     "kubernetes-indexed-job, rank 2 of 4, coordinator m:9"},
};

class RecognizeLaunchTest : public ::testing::TestWithParam<LaunchCase> {};

TEST_P(RecognizeLaunchTest, SaysWhoStartedUs) {
  const auto launch = Recognize(GetParam().variables);
  ASSERT_THAT(launch, IsOk());
  if (GetParam().description.empty()) {
    EXPECT_FALSE(launch->has_value()) << (*launch)->Describe();
    return;
  }
  ASSERT_TRUE(launch->has_value());
  EXPECT_EQ((*launch)->Describe(), "launch environment: " + GetParam().description);
}

INSTANTIATE_TEST_SUITE_P(All, RecognizeLaunchTest, ::testing::ValuesIn(kLaunchCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct WrongLaunchCase {
  const char* name;
  Variables variables;
  std::string message;
};

const WrongLaunchCase kWrongLaunchCases[] = {
    {"RankIsNoNumber", With(kTorchrun, {{"RANK", "abc"}}), "RANK=abc: not a whole number"},
    {"RankIsNegative", With(kTorchrun, {{"RANK", "-1"}}), "RANK=-1: not a whole number"},
    {"RankHasATail", With(kTorchrun, {{"RANK", "1x"}}), "RANK=1x: not a whole number"},
    {"RankIsTooLarge", With(kTorchrun, {{"RANK", "4"}}), "RANK=4: must be less than WORLD_SIZE=4"},
    {"RankDoesNotFit", With(kTorchrun, {{"RANK", "99999999999999999999"}}),
     "RANK=99999999999999999999: not a whole number"},
    {"WorldIsEmpty", With(kTorchrun, {{"WORLD_SIZE", ""}}), "RANK is set but WORLD_SIZE is not"},
    {"WorldIsZero", With(kTorchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE=0: not from 1 to"},
    {"WorldIsAbsurd", With(kTorchrun, {{"WORLD_SIZE", "1000000000"}}), "WORLD_SIZE=1000000000"},
    {"LocalRankIsTooLarge", With(kTorchrun, {{"LOCAL_RANK", "2"}}), "LOCAL_RANK=2"},
    {"LocalWorldIsTooLarge", With(kTorchrun, {{"LOCAL_WORLD_SIZE", "5"}}),
     "LOCAL_WORLD_SIZE=5: not from 1 to WORLD_SIZE=4"},
    {"MasterIsMissing", With(kTorchrun, {{"MASTER_ADDR", ""}}),
     "MASTER_PORT is set but MASTER_ADDR is not"},
    {"MasterPortIsMissing", With(kTorchrun, {{"MASTER_PORT", ""}}),
     "MASTER_ADDR is set but MASTER_PORT is not"},
    {"NobodyIsCoordinator",
     {{"RANK", "0"}, {"WORLD_SIZE", "2"}},
     "pytorch-env names no coordinator; set PACELINE_COORDINATOR=HOST:PORT"},
    {"PortIsAService",  // what Kubernetes sets for a service called "master"
     With(kTorchrun, {{"MASTER_PORT", "tcp://10.0.0.1:80"}}), "MASTER_PORT=tcp://10.0.0.1:80"},
    {"PortHasNoNext", With(kTorchrun, {{"MASTER_PORT", "65535"}}), "MASTER_PORT=65535"},
    {"PortIsTooLarge", With(kTorchrun, {{"MASTER_PORT", "65536"}}), "MASTER_PORT=65536"},
    {"MasterIsAnOption", With(kTorchrun, {{"MASTER_ADDR", "-x"}}), "MASTER_ADDR=-x"},
    {"WorldWithoutRank", {{"WORLD_SIZE", "4"}}, "WORLD_SIZE is set but RANK is not"},
    {"OwnWorldWithoutRank", {{"PACELINE_WORLD", "4"}}, "but PACELINE_RANK is not"},
    {"OwnRankWithoutWorld", {{"PACELINE_RANK", "0"}}, "but PACELINE_WORLD is not"},
    {"OwnCoordinatorWithoutPort",
     {{"PACELINE_RANK", "0"}, {"PACELINE_WORLD", "2"}, {"PACELINE_COORDINATOR", "host"}},
     "PACELINE_COORDINATOR: 'host' is not HOST:PORT"},
    {"ABatchScriptWithExportedWorld",
     {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"WORLD_SIZE", "4"}},
     "WORLD_SIZE is set but RANK is not"},
    {"ElasticPods",
     {{"PET_NODE_RANK", "0"}, {"PET_NNODES", "1:4"}},
     "PET_NNODES=1:4: a fixed number of hosts is needed"},
    {"PetWithoutNodes", {{"PET_NODE_RANK", "0"}}, "PET_NODE_RANK is set but PET_NNODES is not"},
    {"PetRankTooLarge", {{"PET_NODE_RANK", "2"}, {"PET_NNODES", "2"}}, "PET_NODE_RANK=2"},
    {"RendezvousWouldGiveTheRank", {{"PET_NNODES", "2"}}, "but PET_NODE_RANK is not"},
    {"OpenMpiWithoutSize", {{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_SIZE is not"},
    {"MpichWithoutRank", {{"PMI_SIZE", "2"}}, "PMI_RANK is not"},
    {"SlurmListIsBroken", With(kSrun, {{"SLURM_STEP_NODELIST", "n[1-"}}),
     "SLURM_STEP_NODELIST: list 'n[1-'"},
    {"SlurmTasksDoNotAddUp", With(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}}),
     "SLURM_STEP_TASKS_PER_NODE=2(x3): does not add up to 7 tasks"},
    {"SlurmNodeDoesNotExist", With(kSrun, {{"SLURM_NODEID", "4"}}), "SLURM_NODEID=4"},
    {"SlurmRankTooLarge", With(kSrun, {{"SLURM_PROCID", "7"}}), "SLURM_PROCID=7"},
    {"SlurmStepIsNoNumber", With(kSrun, {{"SLURM_STEP_ID", "x"}}), "SLURM_STEP_ID=x"},
    {"PaddleServer",
     {{"PADDLE_TRAINER_ID", "0"}, {"PADDLE_TRAINERS_NUM", "2"}, {"TRAINING_ROLE", "PSERVER"}},
     "TRAINING_ROLE is set but PADDLE_PSERVERS_IP_PORT_LIST is not"},
    {"PaddleEndpointsDoNotMatch",
     {{"PADDLE_TRAINER_ID", "0"},
      {"PADDLE_TRAINERS_NUM", "3"},
      {"PADDLE_TRAINER_ENDPOINTS", "a:1,b:1"}},
     "2 endpoints, but PADDLE_TRAINERS_NUM=3"},
    {"PaddleMasterIsEtcd",
     {{"PADDLE_TRAINER_ID", "0"}, {"PADDLE_TRAINERS_NUM", "3"}, {"PADDLE_MASTER", "etcd://a:1"}},
     "PADDLE_MASTER: 'etcd://a:1'"},
    {"IndexedJobWithoutWorld",
     {{"JOB_COMPLETION_INDEX", "0"}, {"HOSTNAME", "train-0"}},
     "JOB_COMPLETION_INDEX is set but PACELINE_WORLD is not"},
    {"IndexedJobWithAnotherHostName", With(kIndexedJob, {{"HOSTNAME", "train-3"}}),
     "HOSTNAME=train-3: does not end in -2"},
};

class WrongLaunchTest : public ::testing::TestWithParam<WrongLaunchCase> {};

TEST_P(WrongLaunchTest, NamesTheVariable) {
  EXPECT_THAT(Recognize(GetParam().variables),
              StatusIs(Code::kInvalidArgument, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(All, WrongLaunchTest, ::testing::ValuesIn(kWrongLaunchCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(RecognizeLaunch, KnowsThePlaceOnTheHost) {
  const auto torchrun = Recognize(kTorchrun);
  ASSERT_THAT(torchrun, IsOk());
  EXPECT_EQ((*torchrun)->local_rank, 1U);
  EXPECT_EQ((*torchrun)->local_world, 2U);
  const auto srun = Recognize(kSrun);
  ASSERT_THAT(srun, IsOk());
  EXPECT_EQ((*srun)->local_rank, 0U);
  EXPECT_EQ((*srun)->local_world, 1U);  // the last of 2(x3),1
}

TEST(ToVariables, IsRecognizedAsTheSame) {
  const LaunchEnvironment launch{.source = "paceline",
                                 .rank = Rank(2),
                                 .world = 4,
                                 .local_rank = 0,
                                 .local_world = 2,
                                 .coordinator = "a:1",
                                 .restarts = 3};
  const auto again = Recognize(ToVariables(launch));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ((*again)->Describe(), launch.Describe());
  EXPECT_EQ((*again)->local_rank, 0U);
  EXPECT_EQ((*again)->local_world, 2U);
}

TEST(LocalProcess, MultipliesOut) {
  const LaunchEnvironment node{
      .source = "pet", .rank = Rank(1), .world = 3, .coordinator = "a:1", .processes_per_node = 4};
  const LaunchEnvironment process = LocalProcess(node, 2);
  EXPECT_EQ(process.Describe(), "launch environment: pet, rank 6 of 12, coordinator a:1");
  EXPECT_EQ(process.local_rank, 2U);
  EXPECT_EQ(process.local_world, 4U);
}

}  // namespace
}  // namespace paceline::job
