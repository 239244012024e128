#include "job/launch_plan.h"

#include <gmock/gmock.h>

#include "testing/status_matchers.h"

namespace paceline::job {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using testing::StatusIs;

LaunchPlan PlanFor(std::vector<HostSlots> hosts) {
  return {.hosts = std::move(hosts),
          .this_host = "head.cluster",
          .coordinator = "10.0.0.1:4321",
          .secret = "5ec2e7",
          .directory = "/work",
          .worker = {"/opt/paceline-worker", "train", "vgg16"},
          .local_environment = {{"HERE", "1"}},
          .remote_environment = {{"THERE", "a b"}}};
}

TEST(IsThisHost, KnowsItsNames) {
  for (const char* name : {"localhost", "127.0.0.1", "head", "head.cluster"}) {
    EXPECT_TRUE(IsThisHost(name, "head.cluster")) << name;
  }
  EXPECT_TRUE(IsThisHost("head.cluster", "head"));
  for (const char* name : {"127.0.0.2", "head.other", "head2", "me@head", "me@localhost", "hea"}) {
    EXPECT_FALSE(IsThisHost(name, "head.cluster")) << name;
  }
}

TEST(PlanLaunch, RanksOfOneHostAreNeighbours) {
  const auto children = PlanLaunch(PlanFor({{"node1", 2}, {"me@node2", 1}, {"node3", 2}}));
  ASSERT_THAT(children, IsOk());
  std::vector<std::string> labels;
  std::vector<std::uint64_t> local_ranks;
  for (std::uint64_t rank = 0; rank < children->size(); ++rank) {
    const ChildSpec& child = (*children)[rank];
    EXPECT_EQ(child.rank, Rank(rank));
    labels.push_back(child.label + " on " + child.host);
    local_ranks.push_back(child.local_rank);
  }
  EXPECT_THAT(labels, ElementsAre("w0@node1 on node1", "w1@node1 on node1", "w2@node2 on node2",
                                  "w3@node3 on node3", "w4@node3 on node3"));
  EXPECT_THAT(local_ranks, ElementsAre(0, 1, 0, 0, 1));
  EXPECT_THAT((*children)[4].argv.back(),
              AllOf(HasSubstr("PACELINE_RANK=4"), HasSubstr("PACELINE_WORLD=5"),
                    HasSubstr("PACELINE_LOCAL_RANK=1"), HasSubstr("PACELINE_LOCAL_WORLD=2"),
                    HasSubstr("PACELINE_COORDINATOR=10.0.0.1:4321"),
                    HasSubstr("PACELINE_COORDINATOR_RUNS=yes")));
}

TEST(PlanLaunch, OtherHostsAreReachedWithSshAndStoppedThroughIt) {
  LaunchPlan plan = PlanFor({{"me@node1", 1}});
  plan.ssh = "ssh -p 2222";
  const auto children = PlanLaunch(plan);
  ASSERT_THAT(children, IsOk());
  const ChildSpec& child = children->front();
  EXPECT_THAT(child.argv, ElementsAre("ssh", "-p", "2222", "-o", "BatchMode=yes", "me@node1", "--",
                                      HasSubstr("cd -- /work && exec ")));
  EXPECT_THAT(child.argv.back(),
              AllOf(HasSubstr("'THERE=a b'"), Not(HasSubstr("HERE=1")),
                    HasSubstr("/opt/paceline-worker train vgg16"), HasSubstr("n=30;")));
  EXPECT_THAT(child.environment, IsEmpty());
  EXPECT_EQ(child.directory, "");
  EXPECT_EQ(child.stdin_line, "5ec2e7");
  EXPECT_TRUE(child.stop_with_stdin);
}

TEST(PlanLaunch, ThisHostNeedsNoSsh) {
  const auto children = PlanLaunch(PlanFor({{"head", 1}, {"node1", 1}}));
  ASSERT_THAT(children, IsOk());
  const ChildSpec& child = children->front();
  EXPECT_THAT(child.argv, ElementsAre("/opt/paceline-worker", "train", "vgg16"));
  EXPECT_THAT(child.environment,
              AllOf(Contains(Pair("HERE", "1")), Contains(Pair("PACELINE_SECRET_STDIN", "1")),
                    Contains(Pair("PACELINE_LOCAL_WORLD", "1")),
                    Contains(Pair("PACELINE_COORDINATOR", "10.0.0.1:4321")),
                    Contains(Pair("PACELINE_COORDINATOR_RUNS", "yes"))));
  EXPECT_EQ(child.directory, "/work");
  EXPECT_EQ(child.stdin_line, "5ec2e7");
  EXPECT_FALSE(child.stop_with_stdin);
}

TEST(PlanLaunch, AllNamesOfThisHostAreOneHost) {
  const auto children = PlanLaunch(PlanFor({{"localhost", 1}, {"node1", 1}, {"head", 2}}));
  ASSERT_THAT(children, IsOk());
  ASSERT_THAT(*children, SizeIs(4));
  EXPECT_EQ((*children)[2].label, "w2@localhost");
  EXPECT_EQ((*children)[2].environment.at("PACELINE_LOCAL_WORLD"), "3");
  EXPECT_EQ((*children)[3].label, "w3@node1");
}

TEST(PlanLaunch, AWorkersPlaceIsOurs) {
  LaunchPlan plan = PlanFor({{"node1", 1}});
  plan.remote_environment["PACELINE_RANK"] = "7";
  const auto children = PlanLaunch(plan);
  ASSERT_THAT(children, IsOk());
  EXPECT_THAT(children->front().argv.back(),
              AllOf(HasSubstr("PACELINE_RANK=0"), Not(HasSubstr("PACELINE_RANK=7"))));
}

TEST(PlanLaunch, RefusesWhatSshWouldMisunderstand) {
  EXPECT_THAT(PlanLaunch(PlanFor({{"-oProxyCommand=x", 1}})).status(),
              StatusIs(Code::kInvalidArgument, HasSubstr("no host for ssh")));
  LaunchPlan plan = PlanFor({{"node1", 1}});
  plan.remote_environment["PACELINE_SECRET"] = "x";
  EXPECT_THAT(PlanLaunch(plan).status(), StatusIs(Code::kInvalidArgument, HasSubstr("secret")));
}

TEST(RenderCommand, ShowsEverythingButTheSecret) {
  const auto children = PlanLaunch(PlanFor({{"localhost", 1}, {"node1", 1}}));
  ASSERT_THAT(children, IsOk());
  const std::string local = RenderCommand((*children)[0]);
  const std::string remote = RenderCommand((*children)[1]);
  EXPECT_THAT(local, AllOf(HasSubstr("cd /work && env HERE=1 "), HasSubstr("PACELINE_RANK=0"),
                           HasSubstr(" /opt/paceline-worker train vgg16")));
  EXPECT_THAT(remote, HasSubstr("ssh -o BatchMode=yes node1 -- 'cd -- /work && exec sh -c "));
  EXPECT_THAT(local + remote, Not(HasSubstr("5ec2e7")));
}

TEST(PlaceServers, TakesTheHostsInTurnAndTheNextPortAfterThat) {
  const std::vector<HostSlots> hosts{{"head", 2}, {"me@node2", 1}};
  const auto places = PlaceServers(hosts, "head.cluster", "10.0.0.1", 3, 7164);
  ASSERT_THAT(places, IsOk());
  EXPECT_THAT(*places, ElementsAre(ServerPlace{"head", "10.0.0.1:7164", "0.0.0.0:7164"},
                                   ServerPlace{"me@node2", "node2:7164", "0.0.0.0:7164"},
                                   ServerPlace{"head", "10.0.0.1:7165", "0.0.0.0:7165"}));
  const auto alone = PlaceServers({{"localhost", 2}}, "head", "127.0.0.1", 1, 7164);
  ASSERT_THAT(alone, IsOk());
  EXPECT_THAT(*alone, ElementsAre(ServerPlace{"localhost", "127.0.0.1:7164", "127.0.0.1:7164"}));
  EXPECT_THAT(PlaceServers(hosts, "head", "10.0.0.1", 3, 65535),
              StatusIs(Code::kInvalidArgument, HasSubstr("no port for server 2")));
}

TEST(PlanLaunch, TrainersFindServersInsteadOfACoordinator) {
  LaunchPlan plan = PlanFor({{"head", 1}, {"node2", 1}});
  plan.coordinator.clear();
  plan.servers = {"10.0.0.1:7164", "node2:7164"};
  const auto children = PlanLaunch(plan);
  ASSERT_THAT(children, IsOk());
  EXPECT_EQ(children->front().label, "trainer 0@head");
  EXPECT_THAT(children->front().environment,
              AllOf(Contains(Pair("PACELINE_SERVERS", "10.0.0.1:7164,node2:7164")),
                    Not(Contains(Pair("PACELINE_COORDINATOR_RUNS", "yes")))));
  EXPECT_THAT(RenderCommand(children->back()),
              HasSubstr("PACELINE_SERVERS=10.0.0.1:7164,node2:7164"));
  const auto server = PlanServer(plan, {"node2", "node2:7164", "0.0.0.0:7164"}, 1, Rank(3),
                                 {"/opt/paceline", "server", "--index", "1"});
  ASSERT_THAT(server, IsOk());
  EXPECT_EQ(server->label, "server 1@node2");
  EXPECT_EQ(server->host, "node2");
  EXPECT_TRUE(server->stop_with_stdin);
  EXPECT_EQ(server->stdin_line, "5ec2e7");
  EXPECT_THAT(RenderCommand(*server),
              AllOf(HasSubstr("/opt/paceline server --index 1"), Not(HasSubstr("5ec2e7"))));
}

}  // namespace
}  // namespace paceline::job
