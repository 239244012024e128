#include "job/doctor.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/unique_fd.h"

namespace paceline::job {

namespace {

using Level = Finding::Level;
using Need = Component::Need;

constexpr std::int64_t kGigabyte = 1'000'000'000;
constexpr std::int64_t kMinMemoryBytes = 4 * kGigabyte;      // VGG16 at batch 64, two workers
constexpr std::int64_t kMinDiskBytes = 1 * kGigabyte;        // a checkpoint with its predecessor
constexpr std::int64_t kGoodDiskBytes = 10 * kGigabyte;      // a build and a benchmark suite
constexpr std::int64_t kMinOpenFiles = 1024;                 // a mesh of 100 processes
constexpr std::int64_t kGoodOpenFiles = 65'536;              // a coordinator of thousands
constexpr std::int64_t kMinSharedMemoryBytes = 256'000'000;  // an arena of two workers

std::string Size(std::int64_t bytes) {
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) / static_cast<double>(kGigabyte));
}

void DiagnoseCpu(const DoctorFacts& facts, std::vector<Finding>& out) {
  const Machine& machine = facts.machine;
  const std::string model = machine.cpu_model.empty() ? "unknown model" : machine.cpu_model;
  if (machine.cores < machine.cores_online) {
    out.push_back(
        {Level::kNote, "cores",
         fmt::format("{} of {} may be used ({})", machine.cores, machine.cores_online, model),
         "raise the container's CPU limit or the affinity mask to use all"});
  } else if (machine.cores == 1) {
    out.push_back({Level::kNote, "cores", fmt::format("one core ({})", model),
                   "two or more let workers compute at the same time"});
  } else {
    out.push_back({Level::kOk, "cores", fmt::format("{} ({})", machine.cores, model), ""});
  }
  if (!facts.x86) {
    out.push_back({Level::kNote, "cpu features", "not an x86 processor: the portable kernels run",
                   "nothing to do; the fast kernels are written for AVX2"});
    return;
  }
  std::string missing, present;
  for (const char* flag : {"avx2", "f16c", "fma"}) {
    if (!machine.HasFlag(flag)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", flag);
  }
  if (!missing.empty()) {
    out.push_back({Level::kProblem, "cpu features", "missing: " + missing,
                   "use a processor of 2013 or later, or let the hypervisor pass the features on "
                   "(CPU model \"host\")"});
    return;
  }
  for (const char* flag : {"avx2", "f16c", "fma", "avx512f", "avx512_vnni", "amx_bf16"}) {
    if (machine.HasFlag(flag)) present += fmt::format("{}{}", present.empty() ? "" : ", ", flag);
  }
  out.push_back({Level::kOk, "cpu features", present, ""});
}

void DiagnoseMemory(const DoctorFacts& facts, std::vector<Finding>& out) {
  const Machine& machine = facts.machine;
  const std::string what = fmt::format("{}, {} available", Size(machine.memory_bytes),
                                       Size(machine.memory_available_bytes));
  if (machine.memory_bytes < kMinMemoryBytes) {
    out.push_back(
        {Level::kProblem, "memory", what,
         fmt::format("give the machine or container at least {}", Size(kMinMemoryBytes))});
  } else if (machine.memory_available_bytes < kMinMemoryBytes / 2) {
    out.push_back({Level::kNote, "memory", what, "stop other programs before training"});
  } else {
    out.push_back({Level::kOk, "memory", what, ""});
  }
  if (machine.swap_on) {
    out.push_back({Level::kNote, "swap", "on: a worker that swaps looks slow, not short of memory",
                   "swapoff -a for the time of a benchmark"});
  }
  if (facts.memfd) {
    out.push_back({Level::kOk, "shared memory", "memfd works", ""});
  } else if (facts.shm_free_bytes >= kMinSharedMemoryBytes) {
    out.push_back({Level::kNote, "shared memory",
                   fmt::format("no memfd; /dev/shm has {} free", Size(facts.shm_free_bytes)),
                   "allow memfd_create in the container's seccomp profile"});
  } else {
    out.push_back(
        {Level::kProblem, "shared memory", "neither memfd nor a usable /dev/shm",
         "allow memfd_create in the container's seccomp profile, or give it --shm-size=1g"});
  }
}

void DiagnoseLimits(const DoctorFacts& facts, std::vector<Finding>& out) {
  const std::string remedy = fmt::format(
      "ulimit -n {}; a service: LimitNOFILE={}; for good: /etc/security/limits.conf",
      std::min(kGoodOpenFiles, std::max(facts.open_files_hard, kMinOpenFiles)), kGoodOpenFiles);
  const std::string what = fmt::format("{} open files", facts.open_files_soft);
  if (facts.open_files_soft < 0) {
    out.push_back({Level::kNote, "limits", "cannot be read", "check ulimit -n"});
  } else if (facts.open_files_soft < kMinOpenFiles) {
    out.push_back({Level::kProblem, "limits", what, remedy});
  } else if (facts.open_files_soft < kGoodOpenFiles) {
    out.push_back({Level::kNote, "limits", what + ", enough for about 100 processes", remedy});
  } else {
    out.push_back({Level::kOk, "limits", what, ""});
  }
  if (facts.disk_free_bytes < 0) {
    out.push_back({Level::kNote, "disk", "free space of this folder cannot be read", "check df ."});
    return;
  }
  const std::string free = Size(facts.disk_free_bytes) + " free in this folder";
  if (facts.disk_free_bytes < kMinDiskBytes) {
    out.push_back(
        {Level::kProblem, "disk", free, "free some space or use --run and --out elsewhere"});
  } else if (facts.disk_free_bytes < kGoodDiskBytes) {
    out.push_back({Level::kNote, "disk", free, "large checkpoints may need more"});
  } else {
    out.push_back({Level::kOk, "disk", free, ""});
  }
}

void DiagnoseBlas(const DoctorFacts& facts, std::vector<Finding>& out) {
  const bool openblas = facts.blas.find("openblas") != std::string::npos;
  const bool vendor = openblas || facts.blas.find("mkl") != std::string::npos ||
                      facts.blas.find("blis") != std::string::npos ||
                      facts.blas.find("atlas") != std::string::npos;
  if (facts.blas.empty()) {
    out.push_back({Level::kNote, "blas", "libblas.so.3 not found in the usual place",
                   "apt-get install libopenblas0-openmp, unless libtorch brings its own"});
  } else if (!vendor) {
    out.push_back({Level::kProblem, "blas", facts.blas + ": linear layers are 20 times slower",
                   "apt-get install libopenblas0-openmp"});
  } else if (openblas && facts.blas.find("pthread") != std::string::npos) {
    out.push_back({Level::kNote, "blas",
                   facts.blas + ": its threads compete with libtorch's OpenMP",
                   "apt-get install libopenblas0-openmp && update-alternatives --config "
                   "libblas.so.3-$(uname -m)-linux-gnu"});
  } else {
    out.push_back({Level::kOk, "blas", facts.blas, ""});
  }
}

void DiagnoseComponents(const DoctorFacts& facts, std::vector<Finding>& out) {
  if (!facts.dpkg) {
    out.push_back({Level::kNote, "packages", "no dpkg here: cannot tell what is installed",
                   "deps/debian.txt lists what is needed"});
    return;
  }
  for (const Component& component : facts.components) {
    const std::string install = "apt-get install " + component.name;
    if (component.present) {
      out.push_back({Level::kOk, component.name, component.purpose, ""});
    } else if (component.need == Need::kRun) {
      out.push_back(
          {Level::kProblem, component.name, "not installed: " + component.purpose, install});
    } else if (component.need == Need::kBench) {
      out.push_back({Level::kNote, component.name, "not installed: " + component.purpose,
                     install + " to compare with it"});
    } else {
      out.push_back({Level::kNote, component.name, "optional, not installed: " + component.purpose,
                     install + " to use it later"});
    }
  }
}

void DiagnoseNoise(const DoctorFacts& facts, std::vector<Finding>& out) {
  const Machine& machine = facts.machine;
  if (!machine.governor.empty() && machine.governor != "performance") {
    out.push_back({Level::kNote, "governor",
                   machine.governor + ": speed changes during a benchmark",
                   "cpupower frequency-set -g performance"});
  }
  const std::string load = fmt::format("{:.2f} on {} cores", machine.load_average, machine.cores);
  if (machine.load_average > 0.5 * machine.cores) {
    out.push_back({Level::kNote, "load", load + ": something else is running",
                   "wait for it before you trust a measurement"});
  } else {
    out.push_back({Level::kOk, "load", load, ""});
  }
}

const char* LevelName(Level level) {
  switch (level) {
    case Level::kOk: return "ok";
    case Level::kNote: return "note";
    case Level::kProblem: return "problem";
  }
  return "unknown";
}

std::vector<Component> KnownComponents() {
  return {
      {"libtorch1.13", "paceline-worker cannot start without it", Need::kRun},
      {"python3-torch", "PyTorch, the peer of the benchmarks", Need::kBench},
      {"libgloo-dev", "collective engine gloo", Need::kOptional},
      {"openmpi-bin", "collective engine mpi", Need::kOptional},
      {"etcd-server", "coordinator state outside of the coordinator", Need::kOptional},
  };
}

std::int64_t AsInteger(rlim_t limit) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  return limit >= static_cast<rlim_t>(kMax) ? kMax : static_cast<std::int64_t>(limit);
}

std::int64_t FreeBytes(const std::string& path) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path, error);
  return error ? -1 : AsInteger(space.available);
}

std::string BlasFile() {
  for (const char* machine : {"x86_64-linux-gnu", "aarch64-linux-gnu"}) {
    std::error_code error;
    const auto link = fmt::format("/usr/lib/{}/libblas.so.3", machine);
    const std::filesystem::path file = std::filesystem::canonical(link, error);
    if (!error) return file.string();
  }
  return {};
}

}  // namespace

std::vector<std::string> InstalledPackages(const std::string& dpkg_status) {
  constexpr std::string_view kPackage = "Package: ", kInstalled = " installed";
  std::vector<std::string> installed;
  std::string_view rest = dpkg_status, package;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.starts_with(kPackage)) {
      package = line.substr(kPackage.size());
    } else if (line.starts_with("Status: ") && line.ends_with(kInstalled)) {
      installed.emplace_back(package);
    }
  }
  return installed;
}

DoctorFacts GatherFacts() {
  DoctorFacts facts;
  facts.machine = ReadMachine();
  facts.x86 = facts.machine.kernel.ends_with("x86_64");
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    facts.open_files_soft = AsInteger(files.rlim_cur);
    facts.open_files_hard = AsInteger(files.rlim_max);
  }
  facts.memfd = UniqueFd(::memfd_create("paceline-doctor", MFD_CLOEXEC)).valid();
  facts.shm_free_bytes = FreeBytes("/dev/shm");
  facts.disk_free_bytes = FreeBytes(".");
  facts.blas = BlasFile();
  std::ifstream status("/var/lib/dpkg/status", std::ios::binary);
  facts.dpkg = status.good();
  facts.components = KnownComponents();
  const std::vector<std::string> installed =
      InstalledPackages({std::istreambuf_iterator<char>(status), std::istreambuf_iterator<char>()});
  for (Component& component : facts.components) {
    component.present =
        std::find(installed.begin(), installed.end(), component.name) != installed.end();
  }
  return facts;
}

std::vector<Finding> Diagnose(const DoctorFacts& facts) {
  std::vector<Finding> findings;
  DiagnoseCpu(facts, findings);
  DiagnoseMemory(facts, findings);
  DiagnoseLimits(facts, findings);
  DiagnoseBlas(facts, findings);
  DiagnoseComponents(facts, findings);
  DiagnoseNoise(facts, findings);
  return findings;
}

std::string DoctorText(const std::vector<Finding>& findings) {
  std::vector<Finding> sorted = findings;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Finding& a, const Finding& b) { return a.level < b.level; });
  std::string text;
  for (const Finding& finding : sorted) {
    text +=
        fmt::format("{:<8} {:<14} {}\n", LevelName(finding.level), finding.subject, finding.what);
    if (!finding.remedy.empty()) text += fmt::format("{:<23} -> {}\n", "", finding.remedy);
  }
  const auto problems = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.level == Level::kProblem;
  });
  if (problems == 0) return text + "No problem found.\n";
  return text + fmt::format("{} problem{} found.\n", problems, problems == 1 ? "" : "s");
}

std::string DoctorJson(const DoctorFacts& facts, const std::vector<Finding>& findings) {
  std::vector<JsonObject> list;
  list.reserve(findings.size());
  for (const Finding& finding : findings) {
    list.push_back(JsonObject()
                       .Add("level", LevelName(finding.level))
                       .Add("subject", finding.subject)
                       .Add("what", finding.what)
                       .Add("remedy", finding.remedy));
  }
  return JsonObject()
      .Add("ok", DoctorExitCode(findings) == 0)
      .Add("machine", facts.machine.Json())
      .Add("findings", list)
      .Text();
}

int DoctorExitCode(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.level == Level::kProblem; })
             ? 1
             : 0;
}

}  // namespace paceline::job
