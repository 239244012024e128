#include "job/lease_taker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "job/group.h"
#include "net/endpoint.h"

namespace paceline::job {

namespace {

constexpr std::chrono::milliseconds kLeaveTime(5'000);

}  // namespace

Result<std::unique_ptr<LeaseTaker>> LeaseTaker::Join(const LeaseTakerOptions& options,
                                                     const Clock& clock) {
  std::unique_ptr<LeaseTaker> taker(new LeaseTaker(options));
  PACELINE_ASSIGN(const net::Endpoint coordinator, net::ParseEndpoint(options.coordinator));
  PACELINE_ASSIGN(taker->agent_,
                  member::Agent::Join(
                      taker->loop_, clock,
                      {.coordinator = coordinator,
                       .secret = options.secret,
                       .self = {Rank(0), HostName(), "nobody calls", MachineId()},
                       .fingerprint = options.fingerprint,
                       .samples = options.samples,
                       .join_deadline = std::chrono::steady_clock::now() + options.join_timeout}));
  taker->agent_->SetReady();
  return taker;
}

Result<std::optional<wire::LeaseGrant>> LeaseTaker::Next(const std::function<bool()>& interrupted) {
  return agent_->AwaitLease(options_.patience, interrupted);
}

void LeaseTaker::Leave() {
  agent_->Leave();
  while (agent_->AwaitView(kLeaveTime, [] { return false; }).view) {
  }
}

Result<std::unique_ptr<LeaseTaker>> JoinLender(const TrainConfig& config,
                                               const LaunchEnvironment& launch,
                                               LeaseTakerOptions options, const Clock& clock,
                                               const GetEnv& getenv) {
  if (launch.coordinator.empty() && getenv(kRunComplete) != nullptr) {
    return std::unique_ptr<LeaseTaker>();
  }
  if (launch.coordinator.empty()) {
    return Status::Error(Code::kInvalidArgument,
                         "an elastic run needs a coordinator that lends samples: set "
                         "PACELINE_COORDINATOR=HOST:PORT");
  }
  options.coordinator = launch.coordinator;
  PACELINE_ASSIGN(const auto secret, ReadSecret(getenv));
  if (secret) options.secret = *secret;
  options.patience = std::chrono::milliseconds(std::llround(config.elastic_timeout * 1000));
  return LeaseTaker::Join(options, clock);
}

const wire::Assignment& LeaseTaker::View() {
  if (auto newer = agent_->TakeView()) view_ = *std::move(newer);
  return view_;
}

bool LeaseTaker::Leads() {
  const wire::Assignment& view = View();
  return !view.seats.empty() && view.seats.front().member == agent_->member();
}

std::uint64_t LeaseTaker::trainers() { return std::max<std::uint64_t>(1, View().seats.size()); }

}  // namespace paceline::job
