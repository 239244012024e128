// A step server (bench/peers/README.md) that trains CTR-DNN in one thread with all parameters in
// its own memory: what the passes and the optimiser can do when nothing is sent anywhere.
// Usage: ctr_dnn_bench [--batch N], then "run K" and "quit" on standard input.
#include <sys/resource.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
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

void Serve(std::uint64_t batch) {
  const Clock& clock = SystemClock();
  auto model =
      CtrDnn::Create({}, std::make_shared<Pool>(data::SyntheticCtr({.seed = 1, .size = kPool})));
  PACELINE_CHECK(model.ok(), "the full table has a row for each id");
  LocalTraining training(**model, {});
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

}  // namespace
}  // namespace paceline::sparse

int main(int argc, char** argv) {
  const long batch = argc == 3 && std::string(argv[1]) == "--batch" ? std::atol(argv[2]) : 1000;
  if (argc != 1 && (argc != 3 || batch <= 0)) {
    std::cerr << "usage: ctr_dnn_bench [--batch N]\n";
    return 2;
  }
  paceline::sparse::Serve(static_cast<std::uint64_t>(batch));
  return 0;
}
