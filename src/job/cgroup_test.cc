#include "job/cgroup.h"

#include <filesystem>

#include <gmock/gmock.h>

#include "testing/temp_dir.h"

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A root folder that looks like a machine.
class CgroupTest : public ::testing::Test {
 protected:
  void Put(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    testing::WriteFile(path, text);
  }
  std::string Root() const { return root_.path().string(); }

 private:
  testing::TempDir root_;
};

TEST_F(CgroupTest, NamesEachParent) {
  Put("proc/self/cgroup", "9:name=systemd:/\n2:cpu,cpuacct:/docker/x\n1:cpuset:/\n0::/\n");
  EXPECT_THAT(CgroupFolders(Root(), "cpu"),
              ElementsAre(Root() + "/sys/fs/cgroup/cpu,cpuacct/docker/x",
                          Root() + "/sys/fs/cgroup/cpu,cpuacct/docker",
                          Root() + "/sys/fs/cgroup/cpu,cpuacct", Root() + "/sys/fs/cgroup"));
  EXPECT_THAT(CgroupFolders(Root() + "/none", "cpu"), IsEmpty());
}

TEST_F(CgroupTest, CountsKillsOfTheNewGroups) {
  Put("proc/self/cgroup", "0::/a/b\n");
  EXPECT_EQ(OomKills(Root()), std::nullopt);
  Put("sys/fs/cgroup/a/memory.events", "low 0\nhigh 2\nmax 5\noom 3\noom_kill 7\n");
  EXPECT_EQ(OomKills(Root()), 7);
  Put("sys/fs/cgroup/a/b/memory.events", "oom 0\noom_kill 0\n");  // the innermost knows best
  EXPECT_EQ(OomKills(Root()), 0);
}

TEST_F(CgroupTest, CountsKillsOfTheOldGroups) {
  Put("proc/self/cgroup", "4:memory:/x\n0::/\n");
  Put("sys/fs/cgroup/memory/x/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  EXPECT_EQ(OomKills(Root()), 2);
}

TEST_F(CgroupTest, GarbageIsUnknown) {
  Put("proc/self/cgroup", "0::/\n");
  Put("sys/fs/cgroup/memory.events", "oom_kill lots\n");
  EXPECT_EQ(OomKills(Root()), std::nullopt);
}

}  // namespace
}  // namespace paceline::job
