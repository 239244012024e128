// A model of your own: two classes of points on spirals. docs/own-models.md says how to run it.
#include <cmath>

#include <paceline/paceline.h>

struct Net : torch::nn::Module {
  Net() {
    hidden = register_module("hidden", torch::nn::Linear(2, 64));
    second = register_module("second", torch::nn::Linear(64, 64));
    out = register_module("out", torch::nn::Linear(64, 2));
  }
  torch::Tensor forward(torch::Tensor x) {
    return out->forward(torch::tanh(second->forward(torch::tanh(hidden->forward(x)))));
  }
  torch::nn::Linear hidden{nullptr}, second{nullptr}, out{nullptr};
};

// Sample i is a pure function of i: any worker can make any sample.
class Spirals final : public paceline::data::BatchSource {
 public:
  Spirals(std::uint64_t size, double shift) : size_(size), shift_(shift) {}
  std::uint64_t size() const override { return size_; }
  std::string Fingerprint() const override { return "spirals"; }
  paceline::Status Fill(const paceline::data::FillRequest& request,
                        paceline::data::BatchBuffer& buffer) const override {
    const auto n = static_cast<std::int64_t>(request.samples.size());
    PACELINE_ASSIGN(const std::span<float> points, buffer.Floats(0, {n, 2}));
    PACELINE_ASSIGN(const std::span<std::int64_t> labels, buffer.Integers(1, {n}));
    for (std::size_t i = 0; i < request.samples.size(); ++i) {
      const std::uint64_t index = request.samples[i].index;
      const double radius = 0.1 + 0.9 * (static_cast<double>(index / 2) + shift_) / (size_ / 2.0);
      const double angle = 6 * radius + (index % 2 == 0 ? 0 : M_PI);
      points[2 * i] = static_cast<float>(radius * std::cos(angle));
      points[2 * i + 1] = static_cast<float>(radius * std::sin(angle));
      labels[i] = static_cast<std::int64_t>(index % 2);
    }
    return {};
  }

 private:
  std::uint64_t size_;
  double shift_;
};

int main(int argc, char** argv) {
  paceline::OwnModel spirals;
  spirals.card = {.name = "spirals", .batch = 32, .optimizer = "adam", .learning_rate = 0.005};
  spirals.build = [](std::uint64_t seed) {
    torch::manual_seed(seed);
    return paceline::train::Classifier(std::make_shared<Net>(), /*classes=*/2);
  };
  spirals.open_data = [](const auto&) -> paceline::Result<paceline::train::DataSource> {
    return paceline::train::DataSource{std::make_unique<Spirals>(2000, 0.0),
                                       std::make_unique<Spirals>(400, 0.5)};
  };
  return paceline::WorkerMain(argc, argv, {spirals});
}
