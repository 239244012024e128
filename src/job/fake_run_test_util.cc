#include "job/fake_run_test_util.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json_writer.h"
#include "testing/status_matchers.h"

namespace paceline::job {

std::string ViewLine(std::uint64_t generation, std::uint64_t base,
                     const std::vector<std::uint64_t>& owned) {
  std::vector<JsonObject> members;
  std::uint64_t shard = 0, rank = 0;
  for (std::size_t i = 0; i < owned.size(); ++i) {
    if (owned[i] == 0) continue;
    members.push_back(JsonObject()
                          .Add("member", fmt::format("w{}", i))
                          .Add("rank", rank++)
                          .Add("host", "node")
                          .Add("pid", 100 + i)
                          .Add("first_shard", shard)
                          .Add("end_shard", shard + owned[i]));
    shard += owned[i];
  }
  return JsonObject()
      .Add("type", "view")
      .Add("time", 0.5)
      .Add("unix", 1000.0 + static_cast<double>(generation))
      .Add("generation", generation)
      .Add("step", base)
      .Add("members", members)
      .Add("why", "test")
      .Text();
}

FakeRun& FakeRun::Event(const std::string& text) {
  events += text + "\n";
  return *this;
}

FakeRun& FakeRun::Member(const std::string& text) {
  members += text + "\n";
  return *this;
}

FakeRun& FakeRun::Torn(const std::string& text) {
  events += text;
  return *this;
}

FakeRun& FakeRun::Start(std::uint64_t step, const algo::BatchPlan& plan, int threads) {
  return Event(JsonObject()
                   .Add("type", "start")
                   .Add("time", 0.0)
                   .Add("unix", 1000.0)
                   .Add("run", "somewhere")
                   .Add("model", "vgg16-small")
                   .Add("step", step)
                   .Add("total_steps", plan.Validate().ok() ? plan.Steps() : 0)
                   .Add("threads", threads)
                   .Add("workers", 1)
                   .Add("seed", plan.seed)
                   .Add("dataset_size", plan.dataset_size)
                   .Add("batch", plan.batch)
                   .Add("shards", plan.shards)
                   .Add("total_samples", plan.total_samples)
                   .Text());
}

FakeRun& FakeRun::View(std::uint64_t generation, std::uint64_t base,
                       const std::vector<std::uint64_t>& owned) {
  return Event(ViewLine(generation, base, owned));
}

FakeRun& FakeRun::Members(std::uint64_t generation, std::uint64_t base,
                          const std::vector<std::uint64_t>& owned) {
  return Member(ViewLine(generation, base, owned));
}

FakeRun& FakeRun::Step(std::uint64_t step, const FakeStep& options) {
  const std::uint64_t samples = std::min(step * kPlan.GlobalBatch(), kPlan.total_samples);
  JsonObject json;
  json.Add("type", "step").Add("time", 1.0).Add("unix", 1000.0 + static_cast<double>(step));
  if (options.generation) json.Add("generation", *options.generation);
  json.Add("step", step)
      .Add("samples", options.samples.value_or(samples))
      .Add("loss", 0.5)
      .Add("accuracy", 0.25)
      .Add("lr", 0.1)
      .Add("applied", true)
      .Add("seconds", 0.1);
  if (!options.busy_seconds.empty()) {
    json.AddRaw("busy_seconds", fmt::format("[{}]", fmt::join(options.busy_seconds, ", ")));
  }
  if (!options.state.empty()) {
    json.Add("state", fmt::format("{}-{}", options.state, step))
        .Add("tensors",
             JsonObject().Add("z.weight", "00").Add("a.weight", options.state).Add("a.bias", "11"));
  }
  return Event(json.Text());
}

FakeRun& FakeRun::Steps(std::uint64_t first, std::uint64_t last, const FakeStep& options) {
  for (std::uint64_t step = first; step <= last; ++step) Step(step, options);
  return *this;
}

FakeRun& FakeRun::End(std::uint64_t step, bool interrupted) {
  return Event(JsonObject()
                   .Add("type", "end")
                   .Add("time", 2.0)
                   .Add("unix", 1100.0)
                   .Add("step", step)
                   .Add("params_hash", "00")
                   .Add("interrupted", interrupted)
                   .Text());
}

void FakeRun::Write() const {
  std::filesystem::create_directories(Path());
  testing::WriteFile(Path() + "/events.jsonl", events);
  if (!members.empty()) testing::WriteFile(Path() + "/members.jsonl", members);
}

LoadedRun FakeRun::Load() const {
  Write();
  auto run = LoadRun(Path());
  EXPECT_THAT(run, testing::IsOk());
  return run.ok() ? *std::move(run) : LoadedRun{};
}

AuditReport FakeRun::Report() const {
  auto report = Audit(Load());
  EXPECT_THAT(report, testing::IsOk());
  return report.ok() ? *std::move(report) : AuditReport{};
}

std::vector<std::string> FakeRun::Kinds() const {
  std::vector<std::string> kinds;
  const AuditReport report = Report();
  for (const Violation& each : report.violations.kept()) kinds.push_back(each.kind);
  return kinds;
}

}  // namespace paceline::job
