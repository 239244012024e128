#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "ps/job_spec.h"
#include "ps/store.h"
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
  std::uint64_t rank = 0;
  std::uint64_t trainers = 1;
  // Of kAsync: steps that this trainer may be ahead of the slowest. kUnbounded: any.
  static constexpr std::uint64_t kUnbounded = ~std::uint64_t{0};
  std::uint64_t staleness = kUnbounded;
  std::uint64_t steps_per_round = 1;  // of kHalfAsync and kGeo
  std::uint64_t total_steps = 0;      // the last round may be shorter
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
                   const RemoteOptions& options);

  std::uint64_t steps_per_push() const { return options_.steps_per_round; }

  // Gives the servers the module's values unless they have some, and takes theirs. Returns the step
  // with which this trainer goes on.
  Result<Step> Start();

  // Of Exchange() that follows: the gradient of one tensor, from the last to the first, when it is
  // known: it is sent while the others are computed. Does nothing in modes that send something else
  // than the gradient of a step. An error is returned by Exchange().
  void HandIn(Step step, double learning_rate, std::span<const float> gradient);
  // The step has failed: what was handed in of it does not count.
  void Abandon() {
    open_.reset();
    hand_in_failed_ = {};
  }

  // Hands in the gradient and statistics of a step and takes the parameters for the next one.
  // Without samples only the step counts. Sends all of `gradient` unless all of it was handed in
  // and it counts.
  Status Exchange(Step step, double learning_rate, const GradientSpans& gradient,
                  std::span<const float> statistics, RemoteReport& report);

  // Everything handed in is durable and applied, of all trainers if asked for; the module has the
  // result.
  Status Finish(bool of_all_trainers);

 private:
  // One push and what is taken after it: a step, or several.
  std::uint64_t RoundOf(std::uint64_t step) const { return step / options_.steps_per_round; }
  bool EndsRound(Step step) const;
  std::uint64_t Rounds() const;

  static std::vector<float> Gather(const GradientSpans& gradient, std::span<const float> tail);
  void Accumulate(std::span<const float> dense);
  ps::Push PushOf(Step step, double learning_rate) const;
  // What comes after the gradient in every push.
  std::vector<float> Tail(std::span<const float> statistics, const RemoteReport& report) const;
  // Ends the push that HandIn() has begun, or makes one.
  Status PushAll(ps::Push push, const GradientSpans& gradient, std::span<const float> tail);
  Status PullAfter(std::uint64_t batch);
  Status ExchangeSync(const ps::Push& push, const GradientSpans& gradient,
                      std::span<const float> statistics, RemoteReport& report);
  void StepOwnCopy(float learning_rate, const GradientSpans& gradient);
  Status ExchangeDifferences(ps::Push push);
  Status Pull(std::uint64_t min_version, std::uint64_t own_batches);
  void TakeDense();
  std::vector<float> CopyDense() const;

  ps::Store& store_;
  FlatTensors& params_;
  FlatTensors& buffers_;
  const RemoteOptions options_;
  std::vector<float> dense_;  // as the servers had it last, without padding
  std::vector<float> sum_;    // of the gradients of this round
  std::uint64_t summed_ = 0;
  std::vector<std::uint64_t> pushes_;   // of the last pull
  std::unique_ptr<ps::OpenPush> open_;  // of this step; null: nothing was handed in
  std::size_t handed_in_ = 0;           // tensors
  Status hand_in_failed_;
};

}  // namespace paceline::train
