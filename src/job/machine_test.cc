#include "job/machine.h"

#include <filesystem>

#include <gmock/gmock.h>

#include "testing/temp_dir.h"

namespace paceline::job {

namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A root folder that looks like a machine.
class MachineTest : public ::testing::Test {
 protected:
  void Put(const std::string& name, const std::string& text) {
    const std::string path = root_ / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    testing::WriteFile(path, text);
  }
  Machine Read(int affinity_cores = 8) {
    return ReadMachineBelow(root_.path().string(), affinity_cores);
  }

 private:
  testing::TempDir root_;
};

TEST_F(MachineTest, ReadsTheKernelsFiles) {
  Put("proc/cpuinfo",
      "processor\t: 0\nmodel name\t: Fast CPU @ 3.00GHz\nflags\t\t: fpu avx2 f16c\n\n"
      "processor\t: 1\nmodel name\t: Other CPU\nflags\t\t: fpu\n");
  Put("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 7 kB\nMemAvailable:    8192 kB\n");
  Put("proc/loadavg", "1.25 0.50 0.10 1/200 4711\n");
  Put("proc/swaps", "Filename\tType\n/dev/sda2 partition 1 0 -2\n");
  Put("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  Put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  const Machine machine = Read();
  EXPECT_EQ(machine.cpu_model, "Fast CPU @ 3.00GHz");
  EXPECT_THAT(machine.cpu_flags, ElementsAre("fpu", "avx2", "f16c"));
  EXPECT_TRUE(machine.HasFlag("avx2"));
  EXPECT_FALSE(machine.HasFlag("avx"));
  EXPECT_EQ(machine.cores_online, 2);
  EXPECT_EQ(machine.memory_bytes, 16384 * 1024);
  EXPECT_EQ(machine.memory_available_bytes, 8192 * 1024);
  EXPECT_EQ(machine.load_average, 1.25);
  EXPECT_TRUE(machine.swap_on);
  EXPECT_EQ(machine.os, "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(machine.governor, "powersave");
}

TEST_F(MachineTest, WithoutFilesEverythingIsUnknown) {
  const Machine machine = Read(4);
  EXPECT_THAT(machine.cpu_model, IsEmpty());
  EXPECT_THAT(machine.cpu_flags, IsEmpty());
  EXPECT_EQ(machine.cores, 4);
  EXPECT_EQ(machine.memory_bytes, 0);
  EXPECT_FALSE(machine.swap_on);
}

TEST_F(MachineTest, ArmCallsItsFlagsFeatures) {
  Put("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd sve\n");
  EXPECT_THAT(Read().cpu_flags, ElementsAre("fp", "asimd", "sve"));
}

TEST_F(MachineTest, GarbageIsUnknownNotFatal) {
  Put("proc/cpuinfo", std::string("\0\xff:::\n\n:", 8));
  Put("proc/meminfo", "MemTotal: lots\nMemAvailable:\nMem");
  Put("proc/loadavg", "high");
  Put("proc/self/cgroup", "0\n::\n1:cpu\n2:cpu:\n3:cpu:x");
  const Machine machine = Read();
  EXPECT_EQ(machine.memory_bytes, 0);
  EXPECT_EQ(machine.load_average, 0);
  EXPECT_EQ(machine.cores, 8);
}

TEST_F(MachineTest, QuotaOfTheNewControlGroups) {
  Put("proc/self/cgroup", "0::/a/b\n");
  Put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(Read().cores, 8);
  Put("sys/fs/cgroup/a/cpu.max", "250000 100000\n");  // a parent limits as well
  EXPECT_EQ(Read().cores, 2);
  Put("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(Read().cores, 1);
}

TEST_F(MachineTest, QuotaOfTheOldControlGroups) {
  Put("proc/self/cgroup", "9:name=systemd:/\n2:cpu,cpuacct:/docker/x\n");
  Put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");  // a container's own root
  Put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().cores, 3);
  Put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Read().cores, 8);
}

TEST_F(MachineTest, MemoryLimitOfAContainerCounts) {
  Put("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n");
  Put("proc/self/cgroup", "4:memory:/x\n0::/\n");
  Put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Read().memory_bytes, 1'024'000'000);
  Put("sys/fs/cgroup/memory.max", "700000000\n");
  EXPECT_EQ(Read().memory_bytes, 700'000'000);
  EXPECT_EQ(Read().memory_available_bytes, 512'000'000);
}

TEST(ReadMachine, DescribesThisMachine) {
  const Machine machine = ReadMachine();
  EXPECT_THAT(machine.cores, Gt(0));
  EXPECT_THAT(machine.memory_bytes, Gt(0));
  EXPECT_THAT(machine.kernel, StartsWith("Linux "));
}

}  // namespace
}  // namespace paceline::job
