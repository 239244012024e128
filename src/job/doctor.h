#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/machine.h"

namespace paceline::job {

// One thing that `paceline doctor` has to say.
struct Finding {
  enum class Level {
    kOk,       // as it should be
    kNote,     // works; could be better, or is optional
    kProblem,  // training or measuring would fail or mislead
  };
  Level level = Level::kOk;
  std::string subject;  // "memory"
  std::string what;     // "23.4 GB"
  std::string remedy;   // what to do; never empty for a problem
};

// A package or a program that Paceline can use.
struct Component {
  enum class Need { kRun, kBench, kOptional };
  std::string name;     // Debian's package
  std::string purpose;  // "the peer of the benchmarks"
  Need need = Need::kRun;
  bool present = false;
};

// Everything that a diagnosis depends on. Unknown texts are empty, unknown numbers -1.
struct DoctorFacts {
  Machine machine;
  bool x86 = true;
  std::int64_t open_files_soft = -1;  // RLIMIT_NOFILE
  std::int64_t open_files_hard = -1;
  bool memfd = false;                // memfd_create works
  std::int64_t shm_free_bytes = -1;  // below /dev/shm
  bool dpkg = false;                 // else nothing is known about packages
  std::vector<Component> components;
  std::string blas;                   // the file behind libblas.so.3
  std::int64_t disk_free_bytes = -1;  // for this user, below the working directory
};

// Looks at this machine. Reads files and limits only; starts no process.
DoctorFacts GatherFacts();

// Judges the facts. Pure.
std::vector<Finding> Diagnose(const DoctorFacts& facts);

// Packages with status "installed" in the text of /var/lib/dpkg/status. Pure.
std::vector<std::string> InstalledPackages(const std::string& dpkg_status);

// One line a finding, problems last, then a sentence that sums up. Ends with a newline.
std::string DoctorText(const std::vector<Finding>& findings);

// One object on one line: {"ok": bool, "machine": {...}, "findings": [{level, subject, what,
// remedy}]}.
std::string DoctorJson(const DoctorFacts& facts, const std::vector<Finding>& findings);

// 0 without a problem, else 1.
int DoctorExitCode(const std::vector<Finding>& findings);

}  // namespace paceline::job
