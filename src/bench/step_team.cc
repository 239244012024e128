#include "bench/step_team.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::bench {

namespace {

Status OfRank(const Status& status, std::size_t rank) {
  return Status::Error(status.code(), fmt::format("rank {}: {}", rank, status.message()));
}

}  // namespace

double TeamTiming::SlowestSeconds() const {
  return seconds.empty() ? 0 : *std::max_element(seconds.begin(), seconds.end());
}

Result<StepTeam> StepTeam::Start(const std::vector<StepServerOptions>& ranks,
                                 std::stop_token stop) {
  PACELINE_CHECK(!ranks.empty(), "a team has a rank");
  StepTeam team;
  for (const StepServerOptions& rank : ranks) {
    PACELINE_ASSIGN(StepServer server, StepServer::Launch(rank));
    team.servers_.push_back(std::move(server));
  }
  for (std::size_t rank = 0; rank < team.servers_.size(); ++rank) {
    const Status ready = team.servers_[rank].FinishLaunch(stop);
    // What is not installed is missing for all ranks alike.
    if (!ready.ok()) return ready.code() == Code::kUnavailable ? ready : OfRank(ready, rank);
    if (team.servers_[rank].info() != team.info()) {
      return Status::Error(Code::kMismatch,
                           fmt::format("{}: rank {} is ready for something else than rank 0",
                                       team.info().system, rank));
    }
  }
  return team;
}

Result<TeamTiming> StepTeam::Run(int steps, const std::stop_token& stop) {
  for (StepServer& server : servers_) server.BeginRun(steps);
  TeamTiming team;
  for (std::size_t rank = 0; rank < servers_.size(); ++rank) {
    const auto timing = servers_[rank].FinishRun(steps, stop);
    if (!timing.ok()) return OfRank(timing.status(), rank);
    team.seconds.push_back(timing->seconds);
    team.step_seconds.push_back(timing->step_seconds);
    team.samples += timing->samples;
    if (rank == 0) team.loss = timing->loss;
  }
  return team;
}

Result<std::int64_t> StepTeam::Quit(const std::stop_token& stop) {
  for (StepServer& server : servers_) server.BeginQuit();
  std::int64_t bytes = 0;
  for (std::size_t rank = 0; rank < servers_.size(); ++rank) {
    const auto used = servers_[rank].FinishQuit(stop);
    if (!used.ok()) return OfRank(used.status(), rank);
    bytes += *used;
  }
  return bytes;
}

}  // namespace paceline::bench
