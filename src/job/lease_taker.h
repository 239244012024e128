#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "job/launch_environment.h"
#include "job/train_config.h"
#include "member/agent.h"
#include "net/loop.h"
#include "net/secret.h"
#include "wire/control.h"

namespace paceline::job {

struct LeaseTakerOptions {
  std::string coordinator;  // "host:port"
  net::Secret secret = net::Secret::Open();
  std::string fingerprint;    // of everything that must be equal on all trainers
  std::uint64_t samples = 0;  // of the run
  std::chrono::milliseconds join_timeout{10'000};  // when it has ended there is nothing to join
  std::chrono::milliseconds patience{600'000};     // with a coordinator that stays away
};

// A trainer's place in a run whose trainers come and go and do not wait for each other: it borrows
// ranges of samples from the coordinator, one at a time. Thread-compatible; one thread of its own.
class LeaseTaker {
 public:
  // Errors as member::Agent::Join.
  static Result<std::unique_ptr<LeaseTaker>> Join(const LeaseTakerOptions& options,
                                                  const Clock& clock);

  // Waits for the next lease; nothing when the run is complete. Errors as
  // member::Agent::AwaitLease.
  Result<std::optional<wire::LeaseGrant>> Next(const std::function<bool()>& interrupted);
  // So many samples of the newest lease, from its first, are applied and durable.
  void Advance(std::uint64_t done) { agent_->Advance(done); }
  // Asks to go, and waits a little for the answer: the lease goes to others at once.
  void Leave();

  // The oldest trainer that lives keeps the run's records.
  bool Leads();
  // So many share the samples now; at least one.
  std::uint64_t trainers();

 private:
  explicit LeaseTaker(const LeaseTakerOptions& options) : options_(options) {}
  const wire::Assignment& View();

  const LeaseTakerOptions options_;
  net::Loop loop_;
  std::unique_ptr<member::Agent> agent_;
  wire::Assignment view_;
};

// In the environment of a trainer that a launcher starts when all samples are done and whoever kept
// the records has died: only the last evaluation is missing.
inline constexpr char kRunComplete[] = "PACELINE_RUN_COMPLETE";

// The lender of the elastic run whose trainer `launch` says this process is; the secret comes from
// the environment. Null for a trainer with kRunComplete.
Result<std::unique_ptr<LeaseTaker>> JoinLender(const TrainConfig& config,
                                               const LaunchEnvironment& launch,
                                               LeaseTakerOptions options, const Clock& clock,
                                               const GetEnv& getenv);

}  // namespace paceline::job
