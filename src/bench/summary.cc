#include "bench/summary.h"

#include <fmt/format.h>

namespace paceline::bench {

namespace {

std::vector<double> Rates(const SystemRuns& runs) {
  std::vector<double> rates;
  for (const double seconds : runs.seconds) {
    if (seconds > 0) rates.push_back(static_cast<double>(runs.samples) / seconds);
  }
  return rates;
}

Cell MakeCell(const SystemRuns& runs, const SystemRuns* ours) {
  Cell cell;
  const std::vector<double> rates = Rates(runs);
  if (rates.empty()) return cell;
  cell.samples_per_second = paceline::Summarize(rates);
  // The deviation of very few rounds is close to zero by chance and everything would stand out.
  constexpr std::size_t kEnoughToJudge = 5;
  if (rates.size() >= kEnoughToJudge) cell.outliers = CountOutliers(rates);
  if (runs.max_rss_bytes > 0) cell.max_rss_bytes = runs.max_rss_bytes;
  if (ours == nullptr) return cell;
  const Summary speedup = PairedRatio(Rates(*ours), rates);
  if (speedup.count > 0) cell.speedup = speedup;
  if (ours->max_rss_bytes > 0 && runs.max_rss_bytes > 0) {
    cell.memory_ratio =
        static_cast<double>(ours->max_rss_bytes) / static_cast<double>(runs.max_rss_bytes);
  }
  return cell;
}

}  // namespace

std::vector<BatchSummary> Summarize(const SingleNodeResults& results) {
  std::vector<BatchSummary> summaries;
  for (const BatchRuns& batch : results.batches) {
    BatchSummary summary{.batch = batch.batch};
    for (std::size_t i = 0; i < batch.systems.size(); ++i) {
      summary.cells.push_back(MakeCell(batch.systems[i], i == 0 ? nullptr : &batch.systems[0]));
    }
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

std::vector<std::string> MachineWarnings(const job::Machine& machine) {
  std::vector<std::string> warnings;
  constexpr double kBusyPerCore = 0.5;
  const int cores = machine.cores_online > 0 ? machine.cores_online : machine.cores;
  if (cores > 0 && machine.load_average > kBusyPerCore * cores) {
    warnings.push_back(
        fmt::format("The machine was busy before the start: load average {:.2f} on {} cores.",
                    machine.load_average, cores));
  }
  if (!machine.governor.empty() && machine.governor != "performance") {
    warnings.push_back(fmt::format(
        "The CPU frequency governor is \"{}\", not \"performance\": the clock may vary.",
        machine.governor));
  }
  if (machine.swap_on) warnings.emplace_back("Swap is on: a step may wait for the disk.");
  return warnings;
}

std::vector<std::string> Warnings(const SingleNodeResults& results) {
  constexpr double kWideSpread = 0.05;
  std::vector<std::string> warnings = MachineWarnings(results.machine);
  for (const BatchSummary& batch : Summarize(results)) {
    for (std::size_t i = 0; i < batch.cells.size() && i < results.systems.size(); ++i) {
      const Cell& cell = batch.cells[i];
      const std::string& name = results.systems[i].name;
      if (cell.outliers > 0) {
        warnings.push_back(fmt::format("{}, batch {}: {} of {} rounds are outliers.", name,
                                       batch.batch, cell.outliers, cell.samples_per_second->count));
      }
      if (cell.samples_per_second && cell.samples_per_second->RelativeSpread() > kWideSpread) {
        warnings.push_back(fmt::format("{}, batch {}: the spread is {:.0f} % of the median.", name,
                                       batch.batch,
                                       cell.samples_per_second->RelativeSpread() * 100));
      }
    }
  }
  return warnings;
}

}  // namespace paceline::bench
