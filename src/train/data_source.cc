#include "train/data_source.h"

#include <algorithm>

#include <fmt/format.h>

#include "data/cifar10.h"
#include "data/synthetic.h"

namespace paceline::train {

namespace {

constexpr std::uint64_t kSyntheticHeldOut = 2'000;

// The first `size` samples of another data set.
class FirstSamples final : public data::Dataset {
 public:
  FirstSamples(std::unique_ptr<data::Dataset> all, std::uint64_t size)
      : all_(std::move(all)), size_(size) {}
  std::uint64_t size() const override { return size_; }
  std::int64_t classes() const override { return all_->classes(); }
  Status Read(std::uint64_t index, std::span<std::uint8_t> image,
              std::int64_t& label) const override {
    return all_->Read(index, image, label);
  }
  std::string Fingerprint() const override {
    return fmt::format("{}[0..{}]", all_->Fingerprint(), size_);
  }
  std::uint64_t BadRecords() const override { return all_->BadRecords(); }

 private:
  std::unique_ptr<data::Dataset> all_;
  std::uint64_t size_;
};

DataSource OpenSynthetic(const job::TrainConfig& config) {
  const std::uint64_t held_out = config.eval_samples == 0 ? kSyntheticHeldOut : config.eval_samples;
  DataSource source;
  source.train = std::make_unique<data::Synthetic>(data::SyntheticOptions{
      .seed = config.seed, .size = config.train_samples, .split = data::Split::kTrain});
  source.held_out = std::make_unique<data::Synthetic>(
      data::SyntheticOptions{.seed = config.seed, .size = held_out, .split = data::Split::kTest});
  return source;
}

}  // namespace

Result<DataSource> OpenData(const job::TrainConfig& config) {
  if (config.Synthetic()) return OpenSynthetic(config);
  const auto policy = config.bad_record == "skip" ? data::BadRecord::kSkip : data::BadRecord::kFail;
  PACELINE_ASSIGN(auto train, data::Cifar10::Open(config.data, data::Split::kTrain, policy));
  PACELINE_ASSIGN(auto test, data::Cifar10::Open(config.data, data::Split::kTest, policy));
  DataSource source;
  source.warnings = train->warnings();
  source.warnings.insert(source.warnings.end(), test->warnings().begin(), test->warnings().end());
  source.train = std::move(train);
  source.held_out = std::move(test);
  if (config.eval_samples > 0 && config.eval_samples < source.held_out->size()) {
    source.held_out =
        std::make_unique<FirstSamples>(std::move(source.held_out), config.eval_samples);
  }
  return source;
}

}  // namespace paceline::train
