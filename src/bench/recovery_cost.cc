#include "bench/recovery_cost.h"

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/stats.h"
#include "base/subprocess.h"
#include "job/record_file.h"

namespace paceline::bench {

namespace {

using namespace std::chrono_literals;

constexpr auto kLongestTurn = 300s;  // for a turn; only against hanging
constexpr std::size_t kWarmUp = 5;   // first steps: memory is touched, buckets are learnt

// Processes whose parent is `parent`.
std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    const std::size_t end_of_name = stat.rfind(')');  // the name may hold anything
    if (end_of_name == std::string::npos) continue;
    char state = 0;
    long of = 0;
    if (std::sscanf(stat.c_str() + end_of_name + 1, " %c %ld", &state, &of) == 2 && of == parent) {
      children.push_back(static_cast<pid_t>(std::stol(name)));
    }
  }
  return children;
}

// A training that runs only when it has a turn.
class TurnTaker {
 public:
  static Result<TurnTaker> Start(const TrainingCommand& command) {
    PACELINE_ASSIGN(Subprocess child, Subprocess::Start({.argv = command.argv, .own_group = true}));
    return TurnTaker(std::move(child), command.run);
  }
  TurnTaker(TurnTaker&&) = default;
  TurnTaker& operator=(TurnTaker&&) = default;
  ~TurnTaker() = default;  // killing the launcher takes its workers along, stopped or not

  void Signal(int signal) const {
    for (const pid_t pid : ChildrenOf(child_.pid())) ::kill(pid, signal);
  }

  // Runs until `steps` whole steps are done, and a part of one before; samples per second by the
  // median step.
  Result<double> Turn(std::size_t steps, const std::stop_token& stop) {
    Signal(SIGCONT);
    Result<double> rate = Await(steps, stop);
    Signal(SIGSTOP);
    return rate;
  }

  Status End() {
    Signal(SIGCONT);
    child_.Signal(SIGINT);
    PACELINE_ASSIGN(const ExitState state, child_.Wait(kLongestTurn));
    if (!state.Success()) return Status::Error(Code::kInternal, "training: " + state.Describe());
    return {};
  }

 private:
  TurnTaker(Subprocess child, const std::string& run)
      : child_(std::move(child)), events_(run + "/events.jsonl") {}

  Result<double> Await(std::size_t steps, const std::stop_token& stop) {
    std::vector<double> seconds;
    std::uint64_t first = 0, last = 0;
    const auto add = [&](const job::Record& record) {
      const auto* step = std::get_if<job::StepRecord>(&record.body);
      if (step == nullptr) return;
      if (seconds.empty()) first = step->samples;
      last = step->samples;
      seconds.push_back(step->seconds);
    };
    const auto deadline = std::chrono::steady_clock::now() + kLongestTurn;
    while (seconds.size() < steps + 1) {
      PACELINE_ASSIGN(const auto change, events_.Poll(add, [] {}));
      (void)change;
      if (stop.stop_requested()) return Status::Error(Code::kAborted, "stopped");
      if (child_.Wait(0ms).ok()) return Status::Error(Code::kInternal, "the training ended");
      if (std::chrono::steady_clock::now() > deadline) {
        return Status::Error(Code::kTimeout,
                             fmt::format("no {} steps within {} s", steps, kLongestTurn.count()));
      }
      std::this_thread::sleep_for(1ms);  // nobody tells us of records
    }
    seconds.erase(seconds.begin());  // it was interrupted by the end of the last turn
    const double samples = static_cast<double>(last - first) / static_cast<double>(seconds.size());
    return samples / paceline::Summarize(seconds).median;
  }

  Subprocess child_;
  job::RecordFile events_;
};

}  // namespace

Status CompareByTurns(const TrainingCommand& fixed, const TrainingCommand& elastic, int rounds,
                      int steps, const std::function<void(const std::string&)>& progress,
                      const std::stop_token& stop, std::vector<CostPair>& pairs) {
  if (rounds == 0) return {};
  PACELINE_ASSIGN(TurnTaker one, TurnTaker::Start(fixed));
  PACELINE_ASSIGN(const double warm_one, one.Turn(kWarmUp, stop));
  PACELINE_ASSIGN(TurnTaker other, TurnTaker::Start(elastic));
  PACELINE_ASSIGN(const double warm_other, other.Turn(kWarmUp, stop));
  progress(fmt::format("warmed up: fixed {:.1f}, elastic {:.1f} samples/s", warm_one, warm_other));
  for (int round = 0; round < rounds; ++round) {
    CostPair pair;
    const bool elastic_first = round % 2 == 1;
    for (const bool turn_of_elastic : {elastic_first, !elastic_first}) {
      TurnTaker& taker = turn_of_elastic ? other : one;
      PACELINE_ASSIGN((turn_of_elastic ? pair.elastic : pair.fixed),
                      taker.Turn(static_cast<std::size_t>(steps), stop));
    }
    pairs.push_back(pair);
    progress(fmt::format("round {}: fixed {:.1f}, elastic {:.1f} samples/s", round + 1, pair.fixed,
                         pair.elastic));
  }
  PACELINE_TRY(one.End());
  return other.End();
}

}  // namespace paceline::bench
