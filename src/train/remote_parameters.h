#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "algo/trainer_share.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "ps/job_spec.h"
#include "ps/store.h"
#include "train/arriving_parameters.h"
#include "train/optimizer.h"
#include "train/parameters.h"

namespace paceline::train {

// docs/parameter-server.md says what each promises.
enum class RemoteMode {
  kSync,       // a step ends when every trainer has pushed it
  kAsync,      // a step ends when this trainer has; bounded by a staleness, or not
  kHalfAsync,  // as kAsync, with the mean gradient of several steps on the same parameters
  kGeo,        // plain SGD on the module's own copy; differences are exchanged now and then
};

struct RemoteOptions {
  RemoteMode mode = RemoteMode::kSync;
  std::uint64_t trainers = 1;  // 0: they come and go, and samples are lent
  // Of kAsync: steps that this trainer may be ahead of the slowest. kUnbounded: any.
  static constexpr std::uint64_t kUnbounded = ~std::uint64_t{0};
  std::uint64_t staleness = kUnbounded;
  double delay_compensation = 0;
  std::string fingerprint;  // what trainers must agree on besides
  OptimizerOptions optimizer;
};

// What a step came to: of this trainer when given, of all trainers of a sync step afterwards.
struct RemoteReport {
  double loss = 0;  // sum over samples
  double correct = 0;
  double predictions = 0;
  double samples = 0;
  bool stop = false;   // somebody was asked to stop
  bool finite = true;  // false: somebody's gradient was not, and counts as zero
};

// The parameters and running statistics of a module, kept and updated by parameter servers; the
// module's own are a copy. Thread-compatible; borrows everything.
class RemoteParameters {
 public:
  static ps::JobSpec MakeJob(const FlatTensors& params, const FlatTensors& buffers,
                             const RemoteOptions& options);

  RemoteParameters(ps::Store& store, FlatTensors& params, FlatTensors& buffers,
                   const RemoteOptions& options, const Clock& clock);

  // Gives the servers the module's values unless they have some.
  Status Initialise() { return store_.Initialise(CopyDense()); }
  // From now on the samples of `share` are trained on, by one of so many trainers, with the
  // servers' values. Returns the step of the share with which this trainer goes on: the servers
  // know which rounds they have.
  Result<Step> Begin(const algo::TrainerShare& share, std::uint64_t trainers);

  // Rounds of the share that are pushed.
  std::uint64_t rounds() const { return step_ / share_.steps_per_round; }
  // Pushes of all trainers that the servers have applied, as far as is known: the own ones count.
  std::uint64_t pushes() const { return known_pushes_; }

  // The module's parameters may still be on their way, its statistics not. Everybody but a forward
  // pass through the gate waits here before using them.
  Status Await() { return arriving_.AwaitAll(); }
  ArrivingParameters& arriving() { return arriving_; }

  // Of Exchange() that follows: the gradient of one tensor, from the last to the first, when it is
  // known: it is sent while the others are computed. Does nothing in modes that send something else
  // than the gradient of a step. An error is returned by Exchange().
  void HandIn(double learning_rate, std::span<const float> gradient);
  // The step has failed: what was handed in of it does not count.
  void Abandon() {
    open_.reset();
    hand_in_failed_ = {};
  }

  // Hands in the gradient and statistics of the next step of the share and begins to take the
  // parameters for the one after. Without samples only the step counts. Sends all of `gradient`
  // unless all of it was handed in and it counts.
  Status Exchange(double learning_rate, const GradientSpans& gradient,
                  std::span<const float> statistics, RemoteReport& report);

  // Everything handed in is durable and applied, of all trainers if asked for; the module has the
  // result.
  Status Finish(bool of_all_trainers);

 private:
  bool BeginsRound() const { return step_ == share_.FirstStep(rounds()); }
  bool EndsRound() const { return step_ + 1 == share_.EndStep(rounds()); }

  static std::vector<float> Gather(const GradientSpans& gradient, std::span<const float> tail);
  void Accumulate(std::span<const float> dense, double samples);
  ps::Push PushOf(double learning_rate) const;
  Status OpenPush(double learning_rate);
  // What comes after the gradient in every push.
  std::vector<float> Tail(std::span<const float> statistics, const RemoteReport& report) const;
  // Ends the push that HandIn() has begun, or makes one.
  Status PushAll(ps::Push push, const GradientSpans& gradient, std::span<const float> tail);
  Status PullAfter(std::uint64_t batch);
  Status ExchangeStep(const GradientSpans& gradient, std::span<const float> statistics,
                      ps::Push push, RemoteReport& report);
  Status ExchangeSync(const ps::Push& push, const GradientSpans& gradient,
                      std::span<const float> statistics, RemoteReport& report);
  void StepOwnCopy(float learning_rate, const GradientSpans& gradient);
  Status ExchangeDifferences(ps::Push push);
  ps::PullRequest RequestOf(std::uint64_t min_version, std::uint64_t own_batches) const;
  // Begins to fill the module, of which nothing is on its way.
  void StartPull(std::uint64_t min_version, std::uint64_t own_batches);
  Status PullDense(std::uint64_t min_version, std::uint64_t own_batches);
  // The servers' values for whatever comes next.
  Status TakeValues(std::uint64_t min_version);
  std::vector<float> CopyDense() const;

  ps::Store& store_;
  FlatTensors& params_;
  FlatTensors& buffers_;
  const RemoteOptions options_;
  algo::TrainerShare share_;
  std::uint64_t trainers_ = 1;         // who share the samples
  std::uint64_t step_ = 0;             // next one of the share
  std::vector<float> dense_;           // as the servers had it last, without padding
  std::vector<float> sum_;             // of the gradients of this round, weighted by samples
  double summed_ = 0;                  // samples in the sum, in units of those of its first step
  double unit_ = 0;                    // those
  float round_rate_ = 0;               // learning rate of the round's first step
  std::vector<std::uint64_t> pushes_;  // of the last pull, when it has ended
  std::uint64_t known_pushes_ = 0;
  std::unique_ptr<ps::OpenPush> open_;  // of this step; null: nothing was handed in
  std::size_t handed_in_ = 0;           // tensors
  Status hand_in_failed_;
  std::vector<float> report_;    // of the last pull
  ArrivingParameters arriving_;  // last: its thread uses the others
};

}  // namespace paceline::train
