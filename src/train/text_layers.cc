#include "train/text_layers.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <vector>

#include <torch/torch.h>

#include "kernel/cross_entropy.h"

namespace paceline::train {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kRowsAtOnce = 64;  // of logits in evaluation: 8 MB of 32,000 words

std::span<float> Floats(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::span<const std::uint8_t> Bytes(const at::Tensor& tensor) {
  return {tensor.data_ptr<std::uint8_t>(), static_cast<std::size_t>(tensor.numel())};
}

class AddDropoutFunction : public torch::autograd::Function<AddDropoutFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& residual,
                            const at::Tensor& values, const at::Tensor& mask, double scale) {
    context->save_for_backward({mask});
    context->saved_data["scale"] = scale;
    at::Tensor output = at::empty_like(values);
    kernel::MaskedScaleAdd(Floats(values), Bytes(mask), static_cast<float>(scale), Floats(residual),
                           Floats(output));
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gradient = gradients[0].contiguous();
    at::Tensor masked = at::empty_like(gradient);
    kernel::MaskedScale(Floats(gradient), Bytes(context->get_saved_variables()[0]),
                        static_cast<float>(context->saved_data["scale"].toDouble()),
                        Floats(masked));
    return {gradient, masked, at::Tensor(), at::Tensor()};
  }
};

class ReluDropoutFunction : public torch::autograd::Function<ReluDropoutFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& values,
                            const at::Tensor& mask, double scale) {
    at::Tensor output = at::relu(values);
    kernel::MaskedScale(Floats(output), Bytes(mask), static_cast<float>(scale), Floats(output));
    context->save_for_backward({output});
    context->saved_data["scale"] = scale;
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor output = context->get_saved_variables()[0];
    const at::Tensor gradient = gradients[0].contiguous();
    at::Tensor result = at::empty_like(gradient);
    kernel::ScaleWherePositive(Floats(gradient), Floats(output),
                               static_cast<float>(context->saved_data["scale"].toDouble()),
                               Floats(result));
    return {result, at::Tensor(), at::Tensor()};
  }
};

at::Tensor Logits(const Predictions& predictions) {
  return predictions.bias.defined()
             ? at::addmm(predictions.bias, predictions.states, predictions.matrix.t())
             : at::mm(predictions.states, predictions.matrix.t());
}

// Loss and hits of rows, each with its own place, so that threads change no bit.
struct RowResults {
  std::vector<kernel::RowLoss> rows;

  template <typename Body>
  RowResults(const at::Tensor& logits, const Body& body)
      : rows(static_cast<std::size_t>(logits.size(0))) {
    const auto width = static_cast<std::size_t>(logits.size(1));
    at::parallel_for(0, logits.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto row = static_cast<std::size_t>(i);
        rows[row] = body(row, Floats(logits).subspan(row * width, width));
      }
    });
  }
};

kernel::RowTarget TargetOf(const Predictions& predictions, std::size_t row, double smoothing) {
  return {.right = static_cast<std::size_t>(predictions.targets.data_ptr<std::int64_t>()[row]),
          .smoothing = static_cast<float>(smoothing),
          .weight = predictions.weights.data_ptr<float>()[row]};
}

class CrossEntropyFunction : public torch::autograd::Function<CrossEntropyFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& states,
                            const at::Tensor& matrix, const c10::optional<at::Tensor>& maybe_bias,
                            const Predictions& all, double smoothing, double* correct) {
    const at::Tensor& bias = *maybe_bias;
    const Predictions predictions{states, matrix, bias, all.targets, all.weights};
    const at::Tensor logits = Logits(predictions);
    const RowResults results(logits, [&](std::size_t row, std::span<float> values) {
      return kernel::CrossEntropyGradient(values, TargetOf(predictions, row, smoothing));
    });
    double sum = 0;
    for (std::size_t i = 0; i < results.rows.size(); ++i) {
      sum += double{results.rows[i].smoothed} * double{all.weights.data_ptr<float>()[i]};
      *correct += results.rows[i].correct ? 1 : 0;
    }
    context->save_for_backward({states, matrix, bias, logits});  // logits are gradients by now
    return at::scalar_tensor(sum, states.options());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &states = saved[0], &matrix = saved[1], &bias = saved[2], &logits = saved[3];
    const at::Tensor& factor = gradients[0];
    return {at::mm(logits, matrix).mul_(factor),
            at::mm(logits.t(), states * factor),  // the small factor is scaled, not the table
            bias.defined() ? logits.sum(0).mul_(factor) : at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

// Without the rows that do not count; targets and weights checked and contiguous.
Predictions Counting(const Predictions& all) {
  Predictions result = all;
  result.targets = all.targets.reshape({-1}).contiguous();
  result.weights = all.weights.reshape({-1}).contiguous();
  const at::Tensor rows = result.weights.nonzero().reshape({-1});
  if (rows.numel() != result.weights.numel()) {
    result.states = all.states.index_select(0, rows);
    result.targets = result.targets.index_select(0, rows);
    result.weights = result.weights.index_select(0, rows);
  }
  result.states = result.states.contiguous();
  const auto* ids = result.targets.data_ptr<std::int64_t>();
  const bool known = std::all_of(ids, ids + result.targets.numel(), [&](std::int64_t id) {
    return id >= 0 && id < all.matrix.size(0);
  });
  if (!known) throw std::runtime_error("a target is not in the model's vocabulary");
  return result;
}

}  // namespace

at::Tensor AddDropout(const at::Tensor& residual, const at::Tensor& values, float probability,
                      const ForwardContext& context, std::uint64_t layer) {
  if (!context.training || probability == 0.0F) return residual + values;
  const kernel::DropoutOptions options = context.Dropout(layer, probability);
  return AddDropoutFunction::apply(residual.contiguous(), values.contiguous(),
                                   DropoutMask(values.sizes(), options),
                                   double{kernel::DropoutScale(options)});
}

at::Tensor ReluDropout(const at::Tensor& values, float probability, const ForwardContext& context,
                       std::uint64_t layer) {
  if (!context.training || probability == 0.0F) return at::relu(values);
  const kernel::DropoutOptions options = context.Dropout(layer, probability);
  return ReluDropoutFunction::apply(values, DropoutMask(values.sizes(), options),
                                    double{kernel::DropoutScale(options)});
}

at::Tensor LookUpTied(const at::Tensor& table, const at::Tensor& ids) {
  return at::embedding(table, ids, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false,
                       /*sparse=*/true);
}

VocabularyLoss CrossEntropyOverVocabulary(const Predictions& predictions, double label_smoothing) {
  const Predictions counting = Counting(predictions);
  VocabularyLoss loss;
  loss.rows = static_cast<double>(counting.targets.numel());
  loss.sum = CrossEntropyFunction::apply(counting.states, counting.matrix,
                                         c10::optional<at::Tensor>(counting.bias), counting,
                                         label_smoothing, &loss.correct);
  return loss;
}

VocabularyCounts CountOverVocabulary(const Predictions& predictions) {
  const Predictions all = Counting(predictions);
  VocabularyCounts counts;
  for (std::int64_t first = 0; first < all.targets.numel(); first += kRowsAtOnce) {
    const std::int64_t rows = std::min(kRowsAtOnce, all.targets.numel() - first);
    const Predictions some{all.states.narrow(0, first, rows), all.matrix, all.bias,
                           all.targets.narrow(0, first, rows), all.weights.narrow(0, first, rows)};
    const RowResults results(Logits(some), [&](std::size_t row, std::span<const float> values) {
      return kernel::CrossEntropy(values, TargetOf(some, row, 0));
    });
    for (std::size_t i = 0; i < results.rows.size(); ++i) {
      const double weight = double{some.weights.data_ptr<float>()[i]};
      const double loss = double{results.rows[i].negative_log};
      counts.weighted_loss += weight * loss;
      counts.weight += weight;
      counts.loss += loss;
      counts.correct += results.rows[i].correct ? 1 : 0;
    }
    counts.rows += static_cast<double>(rows);
  }
  return counts;
}

}  // namespace paceline::train
