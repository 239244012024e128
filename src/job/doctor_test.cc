#include "job/doctor.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace paceline::job {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Level = Finding::Level;

// A machine without anything to complain about.
DoctorFacts Healthy() {
  DoctorFacts facts;
  facts.machine = {.cpu_model = "Fast CPU",
                   .cpu_flags = {"avx2", "f16c", "fma"},
                   .cores = 8,
                   .cores_online = 8,
                   .memory_bytes = 32'000'000'000,
                   .memory_available_bytes = 30'000'000'000,
                   .governor = "performance"};
  facts.open_files_soft = facts.open_files_hard = 1 << 20;
  facts.memfd = true;
  facts.dpkg = true;
  facts.components = {{"libtorch1.13", "runs models", Component::Need::kRun, true},
                      {"python3-torch", "the peer", Component::Need::kBench, true},
                      {"openmpi-bin", "engine mpi", Component::Need::kOptional, true}};
  facts.blas = "/usr/lib/x86_64-linux-gnu/openblas-openmp/libblas.so.3";
  facts.disk_free_bytes = 100'000'000'000;
  return facts;
}

Finding Find(const DoctorFacts& facts, const std::string& subject) {
  for (const Finding& finding : Diagnose(facts)) {
    if (finding.subject == subject) return finding;
  }
  ADD_FAILURE() << "nothing about " << subject;
  return {};
}

Level LevelOf(const DoctorFacts& facts, const std::string& subject) {
  return Find(facts, subject).level;
}

TEST(Doctor, AHealthyMachineHasNothingToDo) {
  const std::vector<Finding> findings = Diagnose(Healthy());
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.level, Level::kOk) << finding.subject << ": " << finding.what;
    EXPECT_THAT(finding.remedy, IsEmpty());
  }
  EXPECT_EQ(DoctorExitCode(findings), 0);
}

TEST(Doctor, EveryProblemAndEveryNoteSaysWhatToDo) {
  DoctorFacts facts;  // everything unknown or missing
  facts.dpkg = true;
  facts.components = {{"a", "x", Component::Need::kRun}, {"b", "y", Component::Need::kOptional}};
  facts.open_files_soft = 0;
  facts.disk_free_bytes = 0;
  facts.blas = "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0";
  facts.machine.swap_on = true;
  facts.machine.governor = "powersave";
  facts.machine.load_average = 3;
  const std::vector<Finding> findings = Diagnose(facts);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.remedy.empty(), finding.level == Level::kOk) << finding.subject;
  }
  EXPECT_EQ(std::count_if(findings.begin(), findings.end(),
                          [](const Finding& f) { return f.level == Level::kProblem; }),
            7);  // features, memory, shared memory, files, disk, BLAS, package
  EXPECT_EQ(DoctorExitCode(findings), 1);
}

TEST(Doctor, Avx2FmaAndF16cAreRequiredOnX86Only) {
  DoctorFacts facts = Healthy();
  facts.machine.cpu_flags = {"avx2", "fma"};
  EXPECT_EQ(LevelOf(facts, "cpu features"), Level::kProblem);
  EXPECT_THAT(Find(facts, "cpu features").what, EndsWith("missing: f16c"));
  facts.machine.cpu_flags = {"avx2", "f16c"};
  EXPECT_THAT(Find(facts, "cpu features").what, EndsWith("missing: fma"));
  facts.x86 = false;
  EXPECT_EQ(LevelOf(facts, "cpu features"), Level::kNote);
}

TEST(Doctor, MemoryBelowFourGigabytesIsAProblem) {
  DoctorFacts facts = Healthy();
  facts.machine.memory_bytes = 3'999'999'999;
  EXPECT_EQ(LevelOf(facts, "memory"), Level::kProblem);
  facts.machine.memory_bytes = 4'000'000'000;
  EXPECT_EQ(LevelOf(facts, "memory"), Level::kOk);
  facts.machine.memory_available_bytes = 1'000'000'000;
  EXPECT_EQ(LevelOf(facts, "memory"), Level::kNote);
}

TEST(Doctor, OpenFilesHaveAMinimumAndARecommendation) {
  DoctorFacts facts = Healthy();
  facts.open_files_hard = 4096;
  facts.open_files_soft = 1023;
  EXPECT_EQ(LevelOf(facts, "limits"), Level::kProblem);
  EXPECT_THAT(Find(facts, "limits").remedy, HasSubstr("ulimit -n 4096;"));
  facts.open_files_soft = 1024;
  EXPECT_EQ(LevelOf(facts, "limits"), Level::kNote);
  facts.open_files_soft = 65'536;
  EXPECT_EQ(LevelOf(facts, "limits"), Level::kOk);
}

TEST(Doctor, SharedMemoryNeedsMemfdOrDevShm) {
  DoctorFacts facts = Healthy();
  facts.memfd = false;
  EXPECT_EQ(LevelOf(facts, "shared memory"), Level::kProblem);
  facts.shm_free_bytes = 64'000'000;  // a container's default
  EXPECT_EQ(LevelOf(facts, "shared memory"), Level::kProblem);
  facts.shm_free_bytes = 1'000'000'000;
  EXPECT_EQ(LevelOf(facts, "shared memory"), Level::kNote);
}

TEST(Doctor, ReferenceBlasIsAProblem) {
  DoctorFacts facts = Healthy();
  facts.blas = "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0";
  EXPECT_EQ(LevelOf(facts, "blas"), Level::kProblem);
  EXPECT_THAT(Find(facts, "blas").remedy, HasSubstr("libopenblas0-openmp"));
  facts.blas = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3";
  EXPECT_EQ(LevelOf(facts, "blas"), Level::kNote);
}

TEST(Doctor, AMissingPackageWeighsAsMuchAsItsUse) {
  DoctorFacts facts = Healthy();
  for (Component& component : facts.components) component.present = false;
  EXPECT_EQ(LevelOf(facts, "libtorch1.13"), Level::kProblem);
  EXPECT_EQ(LevelOf(facts, "python3-torch"), Level::kNote);
  EXPECT_EQ(LevelOf(facts, "openmpi-bin"), Level::kNote);
  EXPECT_THAT(Find(facts, "openmpi-bin").remedy, HasSubstr("apt-get install openmpi-bin"));
  facts.dpkg = false;  // then nothing is known
  EXPECT_EQ(LevelOf(facts, "packages"), Level::kNote);
}

TEST(Doctor, ReadsThePackageDatabase) {
  EXPECT_THAT(InstalledPackages("Package: a\nStatus: install ok installed\nVersion: 1\n\n"
                                "Package: b\nStatus: deinstall ok config-files\n\n"
                                "Package: c\nStatus: install ok half-installed\n\n"
                                "Package: d\nStatus: hold ok installed"),
              ElementsAre("a", "d"));
  EXPECT_THAT(InstalledPackages(""), IsEmpty());
}

TEST(Doctor, TextPutsProblemsLast) {
  const std::vector<Finding> findings = {{Level::kProblem, "memory", "1 GB", "buy some"},
                                         {Level::kOk, "cores", "8", ""}};
  EXPECT_EQ(DoctorText(findings),
            "ok       cores          8\n"
            "problem  memory         1 GB\n"
            "                        -> buy some\n"
            "1 problem found.\n");
  EXPECT_EQ(DoctorText({}), "No problem found.\n");
}

TEST(Doctor, JsonIsOneLineAndSurvivesStrangeBytes) {
  DoctorFacts facts = Healthy();
  facts.machine.cpu_model = "CPU \xff";
  const std::string text = DoctorJson(facts, Diagnose(facts));
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["machine"]["cores"], 8);
  EXPECT_EQ(json["findings"].size(), Diagnose(facts).size());
  EXPECT_EQ(json["findings"][0]["level"], "ok");
}

TEST(Doctor, LooksAtThisMachine) {
  const DoctorFacts facts = GatherFacts();
  EXPECT_GE(facts.open_files_soft, 0);
  EXPECT_GT(facts.disk_free_bytes, 0);
  EXPECT_THAT(DoctorText(Diagnose(facts)), HasSubstr("memory"));
}

}  // namespace
}  // namespace paceline::job
