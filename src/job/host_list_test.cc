#include "job/host_list.h"

#include <map>

#include <gmock/gmock.h>

#include "testing/status_matchers.h"
#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::StartsWith;
using testing::StatusIs;
using testing::TempDir;

using Variables = std::map<std::string, std::string>;

auto Allocation(const Variables& variables) {
  return HostsOfAllocation([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(ParseHostFile, KnowsTheThreeWaysToWriteAHost) {
  const auto hosts = ParseHostFile(
      "# my cluster\n"
      "node1\n"
      "\n"
      "  node2 slots=4   # the big one\r\n"
      "\tme@node3.example.org:2",
      "hosts");
  ASSERT_THAT(hosts, IsOk());
  EXPECT_THAT(*hosts, ElementsAre(HostSlots{"node1", 1}, HostSlots{"node2", 4},
                                  HostSlots{"me@node3.example.org", 2}));
}

TEST(ParseHostFile, AHostThatIsNamedAgainGetsMoreSlots) {
  const auto hosts = ParseHostFile("a\nb\na\na:2\n", "hosts");
  ASSERT_THAT(hosts, IsOk());
  EXPECT_THAT(*hosts, ElementsAre(HostSlots{"a", 4}, HostSlots{"b", 1}));
}

TEST(ParseHostFile, ErrorsNameFileAndLine) {
  for (const char* wrong :
       {"-oProxyCommand=reboot", "a;reboot", "$(reboot)", "a slots=0", "a slots=", "a slots=x",
        "a:", "a:0", "a:x", "a:65537", "a b", "a slots=2 x", "a:2 slots=2", "@a", "a@", "a@-b",
        "a@b@c", "a slots=99999999999999999999"}) {
    EXPECT_THAT(ParseHostFile(std::string("ok\n\n") + wrong + "\n", "my/hosts"),
                StatusIs(Code::kInvalidArgument, StartsWith("my/hosts:3: ")))
        << wrong;
  }
}

TEST(ParseHostFile, AnEmptyOneIsAnError) {
  for (const char* empty : {"", "\n\n", "# nothing\n"}) {
    EXPECT_THAT(ParseHostFile(empty, "hosts"),
                StatusIs(Code::kInvalidArgument, HasSubstr("hosts: no host in it")));
  }
}

TEST(ParseHostFile, AllSlotsTogetherAreBounded) {
  EXPECT_THAT(ParseHostFile("a:65536\nb\n", "hosts"),
              StatusIs(Code::kInvalidArgument, HasSubstr("hosts:2: more than 65536 slots")));
}

TEST(ReadHostFile, SaysWhatIsMissing) {
  const TempDir dir;
  EXPECT_THAT(ReadHostFile(dir / "none"),
              StatusIs(Code::kNotFound, HasSubstr("No such file or directory")));
  testing::WriteFile(dir / "hosts", "a:2\n");
  const auto hosts = ReadHostFile(dir / "hosts");
  ASSERT_THAT(hosts, IsOk());
  EXPECT_THAT(*hosts, ElementsAre(HostSlots{"a", 2}));
  testing::WriteFile(dir / "large", std::string(2 << 20, '\n'));
  EXPECT_THAT(ReadHostFile(dir / "large"), StatusIs(Code::kInvalidArgument, HasSubstr("1 MiB")));
}

TEST(ParseHostArgument, TakesHorovodsList) {
  const auto hosts = ParseHostArgument("a:4,b:2, c");
  ASSERT_THAT(hosts, IsOk());
  EXPECT_THAT(*hosts, ElementsAre(HostSlots{"a", 4}, HostSlots{"b", 2}, HostSlots{"c", 1}));
  for (const char* wrong : {"", ",", "a,", "a,,b", "a:x"}) {
    EXPECT_THAT(ParseHostArgument(wrong),
                StatusIs(Code::kInvalidArgument, StartsWith("list of hosts: ")))
        << wrong;
  }
}

TEST(HostsOfAllocation, OutsideOfABatchJobThereAreNone) {
  const auto hosts = Allocation({});
  ASSERT_THAT(hosts, IsOk());
  EXPECT_FALSE(hosts->has_value());
}

TEST(HostsOfAllocation, SlurmSaysHostsAndTasks) {
  const auto hosts =
      Allocation({{"SLURM_JOB_NODELIST", "g[1-2],login"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"}});
  ASSERT_THAT(hosts, IsOk());
  EXPECT_THAT(**hosts, ElementsAre(HostSlots{"g1", 2}, HostSlots{"g2", 2}, HostSlots{"login", 1}));
  const auto one_each = Allocation({{"SLURM_JOB_NODELIST", "g[1-2]"}});
  ASSERT_THAT(one_each, IsOk());
  EXPECT_THAT(**one_each, ElementsAre(HostSlots{"g1", 1}, HostSlots{"g2", 1}));
}

TEST(HostsOfAllocation, SlurmsTwoListsMustAgree) {
  EXPECT_THAT(
      Allocation({{"SLURM_JOB_NODELIST", "g[1-3]"}, {"SLURM_TASKS_PER_NODE", "2(x2)"}}),
      StatusIs(Code::kInvalidArgument,
               HasSubstr("SLURM_TASKS_PER_NODE=2(x2) has 2 hosts, SLURM_JOB_NODELIST has 3")));
  EXPECT_THAT(Allocation({{"SLURM_JOB_NODELIST", "g["}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("SLURM_JOB_NODELIST: list 'g['")));
}

TEST(HostsOfAllocation, PbsWritesALineForEachSlot) {
  const TempDir dir;
  testing::WriteFile(dir / "nodes", "n1\nn1\nn2\nn1\n");
  const auto hosts = Allocation({{"PBS_NODEFILE", dir / "nodes"}});
  ASSERT_THAT(hosts, IsOk());
  EXPECT_THAT(**hosts, ElementsAre(HostSlots{"n1", 3}, HostSlots{"n2", 1}));
  EXPECT_THAT(Allocation({{"PBS_NODEFILE", dir / "none"}}),
              StatusIs(Code::kNotFound, HasSubstr("PBS_NODEFILE: cannot read host file")));
}

}  // namespace
}  // namespace paceline::job
