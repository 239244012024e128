#include "train/data_source.h"

#include <utility>

#include <fmt/format.h>

#include "data/cifar10.h"
#include "data/image_batches.h"
#include "data/synthetic.h"
#include "model/catalog.h"
#include "train/text_source.h"

namespace paceline::train {

namespace {

// The first `size` samples of another source.
class FirstSamples final : public data::BatchSource {
 public:
  FirstSamples(std::unique_ptr<data::BatchSource> all, std::uint64_t size)
      : all_(std::move(all)), size_(size) {}
  std::uint64_t size() const override { return size_; }
  Status Fill(const data::FillRequest& request, data::BatchBuffer& buffer) const override {
    return all_->Fill(request, buffer);
  }
  std::string Fingerprint() const override {
    return fmt::format("{}[0..{}]", all_->Fingerprint(), size_);
  }
  std::uint64_t BadRecords() const override { return all_->BadRecords(); }

 private:
  std::unique_ptr<data::BatchSource> all_;
  std::uint64_t size_;
};

data::Augment AugmentOf(const job::TrainConfig& config) {
  return config.augment == "none" ? data::Augment::kNone : data::Augment::kStandard;
}

DataSource OpenSyntheticImages(const job::TrainConfig& config) {
  const std::uint64_t held_out = config.SyntheticHeldOut();
  DataSource source;
  source.train = std::make_unique<data::ImageBatches>(
      std::make_shared<data::Synthetic>(data::SyntheticOptions{
          .seed = config.seed, .size = config.train_samples, .split = data::Split::kTrain}),
      AugmentOf(config));
  source.held_out = std::make_unique<data::ImageBatches>(std::make_shared<data::Synthetic>(
      data::SyntheticOptions{.seed = config.seed, .size = held_out, .split = data::Split::kTest}));
  return source;
}

Result<DataSource> OpenCifar10(const job::TrainConfig& config) {
  const auto policy = config.bad_record == "skip" ? data::BadRecord::kSkip : data::BadRecord::kFail;
  PACELINE_ASSIGN(auto train, data::Cifar10::Open(config.data, data::Split::kTrain, policy));
  PACELINE_ASSIGN(auto test, data::Cifar10::Open(config.data, data::Split::kTest, policy));
  DataSource source;
  source.warnings = train->warnings();
  source.warnings.insert(source.warnings.end(), test->warnings().begin(), test->warnings().end());
  source.train = std::make_unique<data::ImageBatches>(std::move(train), AugmentOf(config));
  source.held_out = std::make_unique<data::ImageBatches>(std::move(test));
  return source;
}

Result<DataSource> OpenFamily(const job::TrainConfig& config, const model::ModelCard& card) {
  switch (card.family) {
    case model::Family::kTranslation: return OpenTranslation(config, card);
    case model::Family::kMaskedLanguage: return OpenMaskedLanguage(config, card);
    default: break;
  }
  if (config.Synthetic()) return OpenSyntheticImages(config);
  return OpenCifar10(config);
}

}  // namespace

Result<DataSource> OpenData(const job::TrainConfig& config) {
  PACELINE_ASSIGN(const model::ModelCard* card, model::FindModel(config.model));
  PACELINE_ASSIGN(DataSource source, OpenFamily(config, *card));
  if (config.eval_samples > 0 && config.eval_samples < source.held_out->size()) {
    source.held_out =
        std::make_unique<FirstSamples>(std::move(source.held_out), config.eval_samples);
  }
  return source;
}

}  // namespace paceline::train
