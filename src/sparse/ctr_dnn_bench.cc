// A step server (bench/peers/README.md) that trains CTR-DNN in one thread with all parameters in
// its own memory: what the passes and the optimiser can do when nothing is sent anywhere.
// Usage: ctr_dnn_bench [--batch N] [--optimizer adagrad|adam], then "run K" and "quit" on standard
// input.
#include <sys/resource.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "data/synthetic_ctr.h"
#include "sparse/ctr_dnn.h"
#include "sparse/local_training_test_util.h"

namespace paceline::sparse {
namespace {

constexpr std::uint64_t kPool = 65'536;  // samples kept in memory, as the peer does

// Samples made in advance, so that making them is not measured.
class Pool final : public data::CtrDataset {
 public:
  explicit Pool(const data::CtrDataset& source) : samples_(source.size()) {
    for (std::uint64_t i = 0; i < samples_.size(); ++i) {
      const Status status = source.Read(i, samples_[i]);
      PACELINE_CHECK(status.ok(), "an index within the data set");
    }
  }
  std::uint64_t size() const override { return samples_.size(); }
  Status Read(std::uint64_t index, data::CtrSample& sample) const override {
    sample = samples_[index];
    return {};
  }
  std::string Fingerprint() const override { return "pool"; }

 private:
  std::vector<data::CtrSample> samples_;
};

void Serve(std::uint64_t batch, const LocalTraining::Options& options) {
  const Clock& clock = SystemClock();
  auto model =
      CtrDnn::Create({}, std::make_shared<Pool>(data::SyntheticCtr({.seed = 1, .size = kPool})));
  PACELINE_CHECK(model.ok(), "the full table has a row for each id");
  LocalTraining training(**model, options);
  const std::uint64_t params =
      training.dense().size() + (*model)->tables()[0].rows * (*model)->tables()[0].dim;
  std::cout << JsonObject()
                   .Add("ready", true)
                   .Add("system", "Paceline")
                   .Add("version", PACELINE_VERSION)
                   .Add("model", "ctr-dnn")
                   .Add("params", params)
                   .Add("tensors", (*model)->dense().size() + 1)
                   .Add("batch", batch)
                   .Add("threads", 1)
                   .Text()
            << std::endl;
  std::uint64_t position = 0;
  std::string line;
  while (std::getline(std::cin, line) && line != "quit") {
    std::istringstream words(line);
    std::string command;
    std::uint64_t steps = 0;
    words >> command >> steps;
    const Instant started = clock.Now();
    StepLoss loss;
    for (std::uint64_t i = 0; i < steps; ++i, position += batch) {
      loss = training.Step({position, batch});
    }
    std::cout << JsonObject()
                     .Add("seconds", ToSeconds(clock.Now() - started))
                     .Add("samples", steps * batch)
                     .Add("loss", loss.sum / static_cast<double>(batch))
                     .Text()
              << std::endl;
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::cout << JsonObject().Add("max_rss_bytes", std::int64_t{usage.ru_maxrss} * 1024).Text()
            << std::endl;
}

// Rates as the peer has them.
std::optional<LocalTraining::Options> OptimizerNamed(std::string_view name) {
  if (name == "adagrad") return LocalTraining::Options{.learning_rate = 0.01F};
  if (name != "adam") return std::nullopt;
  return LocalTraining::Options{.optimizer = LocalTraining::Optimizer::kAdam,
                                .learning_rate = 1e-4F};
}

int Main(std::span<char*> arguments) {
  long batch = 1000;
  auto options = OptimizerNamed("adagrad");
  bool understood = arguments.size() % 2 == 0;
  for (std::size_t i = 0; understood && i < arguments.size(); i += 2) {
    const std::string_view flag = arguments[i];
    if (flag == "--batch") batch = std::atol(arguments[i + 1]);
    if (flag == "--optimizer") options = OptimizerNamed(arguments[i + 1]);
    understood = flag == "--batch" || flag == "--optimizer";
  }
  if (!understood || batch <= 0 || !options) {
    std::cerr << "usage: ctr_dnn_bench [--batch N] [--optimizer adagrad|adam]\n";
    return 2;
  }
  Serve(static_cast<std::uint64_t>(batch), *options);
  return 0;
}

}  // namespace
}  // namespace paceline::sparse

int main(int argc, char** argv) {
  return paceline::sparse::Main(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
}
