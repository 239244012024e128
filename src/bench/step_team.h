#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/step_server.h"

namespace paceline::bench {

// The same steps on all ranks of a team.
struct TeamTiming {
  std::vector<double> seconds;                    // of each rank
  std::vector<std::vector<double>> step_seconds;  // of each rank; see StepTiming
  std::int64_t samples = 0;                       // of all ranks
  std::optional<double> loss;                     // of rank 0

  // The team is done when its last rank is.
  double SlowestSeconds() const;
};

// Step servers that work at the same time, alone or with each other: every command is written to
// all of them before the first answer is read. Thread-compatible. All processes end with this
// object. Errors name the rank.
class StepTeam {
 public:
  // Ranks may wait for each other before they are ready. kUnavailable as StepServer::Start;
  // kMismatch when the ranks differ in what they train.
  static Result<StepTeam> Start(const std::vector<StepServerOptions>& ranks, std::stop_token stop);

  const ServerInfo& info() const { return servers_.front().info(); }

  Result<TeamTiming> Run(int steps, const std::stop_token& stop);

  // Ends all of them; the sum of the most memory that each used.
  Result<std::int64_t> Quit(const std::stop_token& stop);

 private:
  StepTeam() = default;

  std::vector<StepServer> servers_;  // by rank
};

}  // namespace paceline::bench
