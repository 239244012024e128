#include "fused/held_out.h"

#include <utility>

#include <fmt/format.h>

namespace paceline::fused {

namespace {

constexpr std::uint64_t kHeldOutShare = 10;

// Base: an interface of samples that are read by index.
template <typename Base, typename Sample>
class Part : public Base {
 public:
  Part(std::shared_ptr<const Base> all, const algo::PositionRange& part)
      : all_(std::move(all)), part_(part) {}

  std::uint64_t size() const final { return part_.count; }
  Status Read(std::uint64_t index, Sample& sample) const final {
    if (index >= part_.count) {
      return Status::Error(Code::kInvalidArgument,
                           fmt::format("sample {} of {}", index, part_.count));
    }
    return all_->Read(part_.begin + index, sample);
  }
  std::string Fingerprint() const final {
    return fmt::format("{}[{}+{}]", all_->Fingerprint(), part_.begin, part_.count);
  }

 protected:
  std::shared_ptr<const Base> all_;
  algo::PositionRange part_;
};

class CtrPart final : public Part<data::CtrDataset, data::CtrSample> {
 public:
  using Part::Part;
  std::uint32_t ids() const override { return all_->ids(); }
  std::uint64_t BadRecords() const override { return all_->BadRecords(); }
};

class SimnetPart final : public Part<data::SimnetSource, data::SimnetSample> {
 public:
  using Part::Part;
  std::uint64_t dictionary() const override { return all_->dictionary(); }
};

}  // namespace

Result<std::uint64_t> HeldOutSamples(std::uint64_t size, std::uint64_t asked) {
  const std::uint64_t held_out = asked == 0 ? size / kHeldOutShare : asked;
  if (held_out < size) return held_out;
  return Status::Error(
      Code::kInvalidArgument,
      fmt::format("--eval-samples {} of {} samples leave none to train on", asked, size));
}

std::shared_ptr<const data::CtrDataset> PartOf(std::shared_ptr<const data::CtrDataset> all,
                                               const algo::PositionRange& part) {
  return std::make_shared<CtrPart>(std::move(all), part);
}

std::shared_ptr<const data::SimnetSource> PartOf(std::shared_ptr<const data::SimnetSource> all,
                                                 const algo::PositionRange& part) {
  return std::make_shared<SimnetPart>(std::move(all), part);
}

}  // namespace paceline::fused
