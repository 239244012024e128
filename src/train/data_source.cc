#include "train/data_source.h"

#include <utility>

#include <fmt/format.h>

#include "data/image_source.h"
#include "job/model_choice.h"
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

data::ImageRequest ImagesFor(const job::TrainConfig& config, const model::ModelCard& card) {
  const bool compression = card.family == model::Family::kCompression;
  const auto extent = [&](std::size_t axis) {
    const bool given = axis > 0 && config.image_size > 0;
    return static_cast<std::size_t>(given ? config.image_size : card.input_shape.at(axis));
  };
  return {.shape = {extent(0), extent(1), extent(2)},
          .classes = compression ? 0 : card.classes,
          .range = compression ? data::PixelRange::kUnit : data::PixelRange::kNormalized,
          .augment = config.augment == "none" ? data::Augment::kNone : data::Augment::kStandard,
          .policy = config.bad_record == "skip" ? data::BadRecord::kSkip : data::BadRecord::kFail};
}

Result<DataSource> OpenImageData(const job::TrainConfig& config, const model::ModelCard& card) {
  const data::ImageRequest request = ImagesFor(config, card);
  data::ImageSources images;
  if (config.Synthetic()) {
    images = data::MakeSyntheticImages(request, {.seed = config.seed,
                                                 .train = config.train_samples,
                                                 .held_out = config.SyntheticHeldOut()});
  } else {
    PACELINE_ASSIGN(images, data::OpenImages(request, config.data, config.data_cache));
  }
  return DataSource{.train = std::move(images.train),
                    .held_out = std::move(images.held_out),
                    .warnings = std::move(images.warnings)};
}

Result<DataSource> OpenFamily(const job::TrainConfig& config, const model::ModelCard& card) {
  switch (card.family) {
    case model::Family::kTranslation: return OpenTranslation(config, card);
    case model::Family::kMaskedLanguage: return OpenMaskedLanguage(config, card);
    default: return OpenImageData(config, card);
  }
}

}  // namespace

Result<DataSource> OpenData(const job::TrainConfig& config) {
  PACELINE_ASSIGN(const model::ModelCard card, job::ChooseModel(config));
  PACELINE_ASSIGN(DataSource source, OpenFamily(config, card));
  if (config.eval_samples > 0 && config.eval_samples < source.held_out->size()) {
    source.held_out =
        std::make_unique<FirstSamples>(std::move(source.held_out), config.eval_samples);
  }
  return source;
}

}  // namespace paceline::train
