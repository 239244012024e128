#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/audit.h"
#include "testing/temp_dir.h"

namespace paceline::job {

struct FakeStep {
  std::optional<std::uint64_t> generation = {};
  std::optional<std::uint64_t> samples = {};  // default: what the plan says
  std::string state = {};
  std::vector<double> busy_seconds = {};
};

// Writes the records of a run as its processes would, right or wrong.
class FakeRun {
 public:
  // 25 steps of 4 shards of 4 samples: four epochs of 100 samples.
  static constexpr algo::BatchPlan kPlan{
      .seed = 7, .dataset_size = 100, .batch = 4, .shards = 4, .total_samples = 400};

  FakeRun& Start(std::uint64_t step = 0, const algo::BatchPlan& plan = kPlan, int threads = 1);
  // Members w0, w1, ... own as many shards as listed; a rank that owns 0 is left out.
  FakeRun& View(std::uint64_t generation, std::uint64_t base,
                const std::vector<std::uint64_t>& owned);
  FakeRun& Members(std::uint64_t generation, std::uint64_t base,
                   const std::vector<std::uint64_t>& owned);
  FakeRun& Step(std::uint64_t step, const FakeStep& options = {});
  FakeRun& Steps(std::uint64_t first, std::uint64_t last, const FakeStep& options = {});
  FakeRun& End(std::uint64_t step, bool interrupted = false);
  FakeRun& Event(const std::string& text);   // a line of events.jsonl
  FakeRun& Member(const std::string& text);  // a line of members.jsonl
  FakeRun& Torn(const std::string& text);    // without the end of its line

  std::string Path() const { return dir_ / "run"; }
  void Write() const;
  LoadedRun Load() const;
  AuditReport Report() const;  // of an audit that must be possible
  // Kinds of the violations, in order.
  std::vector<std::string> Kinds() const;

  std::string events, members;

 private:
  testing::TempDir dir_;
};

// One line of `view` record.
std::string ViewLine(std::uint64_t generation, std::uint64_t base,
                     const std::vector<std::uint64_t>& owned);

}  // namespace paceline::job
