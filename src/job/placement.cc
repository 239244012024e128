#include "job/placement.h"

#include <sched.h>

#include <algorithm>

#include <fmt/format.h>

#include "job/machine.h"

namespace paceline::job {

namespace {

std::string Plural(std::uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Why the workers get in each other's way; empty when they do not.
std::string Crowding(std::uint64_t workers, std::uint64_t threads, std::uint64_t cores) {
  if (workers > cores) {
    return fmt::format("{} share {}", Plural(workers, "worker"), Plural(cores, "core"));
  }
  if (workers * threads > cores) {
    return fmt::format("{} with {} each share {}", Plural(workers, "worker"),
                       Plural(threads, "thread"), Plural(cores, "core"));
  }
  return {};
}

}  // namespace

AvailableCpus ReadAvailableCpus() {
  AvailableCpus available;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) available.cpus.push_back(cpu);
    }
  }
  available.cores = ReadMachine().cores;
  return available;
}

Result<PlacementPolicy> ParsePlacementPolicy(const std::string& text) {
  if (text == "auto") return PlacementPolicy::kAuto;
  if (text == "none") return PlacementPolicy::kNone;
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("--placement {}: must be auto or none", text));
}

Placement PlanPlacement(const PlacementRequest& request) {
  if (request.workers == 0) return {};
  const std::vector<int>& cpus = request.available.cpus;
  const auto cores = static_cast<std::uint64_t>(std::max(1, request.available.cores));
  const int share = static_cast<int>(std::max<std::uint64_t>(1, cores / request.workers));
  const int threads = request.threads_per_worker.value_or(share);
  Placement placement;
  placement.warning = Crowding(request.workers, static_cast<std::uint64_t>(threads), cores);
  placement.workers.assign(static_cast<std::size_t>(request.workers), {{}, threads});
  const bool pin =
      request.policy == PlacementPolicy::kAuto && placement.warning.empty() && cpus.size() == cores;
  if (!pin) return placement;
  std::size_t next = 0;
  const std::size_t each = cpus.size() / placement.workers.size();
  const std::size_t left_over = cpus.size() % placement.workers.size();
  for (std::size_t i = 0; i < placement.workers.size(); ++i) {
    const std::size_t count = each + (i < left_over ? 1 : 0);
    const auto begin = cpus.begin() + static_cast<std::ptrdiff_t>(next);
    placement.workers[i].cpus.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    next += count;
  }
  return placement;
}

std::string RenderCpuSet(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    if (last > i) text += fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

std::vector<std::string> Placement::Describe() const {
  std::vector<std::string> lines;
  lines.reserve(workers.size());
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const WorkerPlacement& worker = workers[i];
    const std::string where = worker.cpus.empty()
                                  ? "not pinned"
                                  : fmt::format("CPU{} {}", worker.cpus.size() == 1 ? "" : "s",
                                                RenderCpuSet(worker.cpus));
    lines.push_back(fmt::format("worker {}: {}, {}", i, where,
                                Plural(static_cast<std::uint64_t>(worker.threads), "thread")));
  }
  return lines;
}

}  // namespace paceline::job
