#include "train/attention.h"

#include <algorithm>

#include <torch/torch.h>

#include "kernel/attention.h"

namespace paceline::train {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Which part of which tensor holds queries, keys and values.
struct Part {
  at::Tensor tensor;
  std::int64_t column = 0;
};
struct Parts {
  Part query, key, value;
  std::int64_t width = 0;
};

Parts PartsOf(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  if (!key.defined()) {
    const std::int64_t width = query.size(1) / 3;
    return {{query, 0}, {query, width}, {query, 2 * width}, width};
  }
  const std::int64_t width = query.size(1);
  if (!value.defined()) return {{query, 0}, {key, 0}, {key, width}, width};
  return {{query, 0}, {key, 0}, {value, 0}, width};
}

struct Layout {
  std::int64_t heads = 1;
  bool causal = false;
  Lengths query_lengths, key_lengths;

  std::int64_t Samples() const { return static_cast<std::int64_t>(query_lengths.size()); }
};

// One head of one sample in each of the tensors.
class Heads {
 public:
  Heads(const Parts& parts, const Layout& layout)
      : parts_(parts),
        layout_(layout),
        queries_(parts.query.tensor.size(0) / layout.Samples()),
        keys_(parts.key.tensor.size(0) / layout.Samples()),
        width_(parts.width / layout.heads) {}

  std::int64_t Count() const { return layout_.Samples() * layout_.heads; }
  std::int64_t Cells() const { return queries_ * keys_; }
  // A mask starts at a multiple of what dropout draws at once.
  std::int64_t MaskBytes() const {
    constexpr std::int64_t kGroup = kernel::kDropoutGroup;
    return (Cells() + kGroup - 1) / kGroup * kGroup;
  }

  kernel::HeadShape Shape(std::int64_t head) const {
    const auto sample = static_cast<std::size_t>(head / layout_.heads);
    return {.queries = static_cast<std::size_t>(layout_.query_lengths[sample]),
            .keys = static_cast<std::size_t>(layout_.key_lengths[sample]),
            .width = static_cast<std::size_t>(width_),
            .causal = layout_.causal};
  }
  kernel::HeadInput Input(std::int64_t head) const {
    const auto rows = [](kernel::HeadGradientRows r) { return kernel::HeadRows{r.first, r.step}; };
    return {rows(Rows(parts_.query, queries_, head)), rows(Rows(parts_.key, keys_, head)),
            rows(Rows(parts_.value, keys_, head))};
  }
  kernel::HeadGradientRows QueryRows(const Part& part, std::int64_t head) const {
    return Rows(part, queries_, head);
  }
  kernel::HeadGradientRows KeyRows(const Part& part, std::int64_t head) const {
    return Rows(part, keys_, head);
  }
  static std::span<float> Floats(const at::Tensor& tensor, std::int64_t head, std::int64_t stride,
                                 std::size_t count) {
    return {tensor.data_ptr<float>() + head * stride, count};
  }
  kernel::HeadDropout Dropout(const at::Tensor& mask, float scale, std::int64_t head) const {
    if (!mask.defined()) return {};
    const kernel::HeadShape shape = Shape(head);
    return {{mask.data_ptr<std::uint8_t>() + head * MaskBytes(), shape.queries * shape.keys},
            scale};
  }

 private:
  kernel::HeadGradientRows Rows(const Part& part, std::int64_t rows, std::int64_t head) const {
    const std::int64_t step = part.tensor.size(1);
    const std::int64_t sample = head / layout_.heads, column = head % layout_.heads * width_;
    return {part.tensor.data_ptr<float>() + sample * rows * step + part.column + column,
            static_cast<std::size_t>(step)};
  }

  const Parts& parts_;
  const Layout& layout_;
  std::int64_t queries_, keys_, width_;
};

// Padding is not computed, so somebody must clear it.
void ClearPadding(const at::Tensor& rows, const Lengths& lengths) {
  const std::int64_t longest = rows.size(0) / static_cast<std::int64_t>(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    float* first = rows.data_ptr<float>() + static_cast<std::int64_t>(i) * longest * rows.size(1);
    std::fill(first + lengths[i] * rows.size(1), first + longest * rows.size(1), 0.0F);
  }
}

template <typename Body>
void ForEachHead(const Heads& heads, std::int64_t scratch_floats, const Body& body) {
  at::parallel_for(0, heads.Count(), 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scratch(static_cast<std::size_t>(scratch_floats));
    for (std::int64_t head = begin; head < end; ++head) body(head, std::span<float>(scratch));
  });
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  // Autograd takes what may be undefined only as optional.
  using Maybe = c10::optional<at::Tensor>;

  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const Maybe& maybe_key, const Maybe& maybe_value,
                            const Maybe& maybe_mask, double scale, const Layout& layout) {
    const at::Tensor &key = *maybe_key, &value = *maybe_value, &mask = *maybe_mask;
    const Parts parts = PartsOf(query, key, value);
    const Heads heads(parts, layout);
    const at::Tensor probabilities = at::empty({heads.Count(), heads.Cells()}, query.options());
    const at::Tensor output = at::empty({query.size(0), parts.width}, query.options());
    ClearPadding(output, layout.query_lengths);
    ForEachHead(heads, heads.Cells(), [&](std::int64_t head, std::span<float> scratch) {
      const kernel::HeadShape shape = heads.Shape(head);
      kernel::Attend(shape, heads.Input(head), heads.Dropout(mask, static_cast<float>(scale), head),
                     {heads.Floats(probabilities, head, heads.Cells(), shape.queries * shape.keys),
                      scratch, heads.QueryRows({output, 0}, head)});
    });
    context->save_for_backward({query, key, value, mask, probabilities});
    context->saved_data["scale"] = scale;
    context->saved_data["heads"] = layout.heads;
    context->saved_data["causal"] = layout.causal;
    context->saved_data["query_lengths"] = layout.query_lengths;
    context->saved_data["key_lengths"] = layout.key_lengths;
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &query = saved[0], &key = saved[1], &value = saved[2], &mask = saved[3],
                     &probabilities = saved[4];
    auto& data = context->saved_data;
    const Layout layout{data["heads"].toInt(), data["causal"].toBool(),
                        data["query_lengths"].toIntVector(), data["key_lengths"].toIntVector()};
    const auto scale = static_cast<float>(data["scale"].toDouble());
    const Parts parts = PartsOf(query, key, value);
    const Heads heads(parts, layout);
    const at::Tensor output_gradient = gradients[0].contiguous();
    variable_list result{Cleared(query, layout.query_lengths),
                         Cleared(key, layout.key_lengths),
                         Cleared(value, layout.key_lengths),
                         at::Tensor(),
                         at::Tensor(),
                         at::Tensor()};
    const Parts into = PartsOf(result[0], result[1], result[2]);
    ForEachHead(heads, 2 * heads.Cells(), [&](std::int64_t head, std::span<float> scratch) {
      const kernel::HeadShape shape = heads.Shape(head);
      const kernel::HeadGradientRows above = heads.QueryRows({output_gradient, 0}, head);
      kernel::AttendBackward(shape, heads.Input(head), heads.Dropout(mask, scale, head),
                             {.probabilities = heads.Floats(probabilities, head, heads.Cells(),
                                                            shape.queries * shape.keys),
                              .scratch = scratch,
                              .output_gradient = {above.first, above.step},
                              .query = heads.QueryRows(into.query, head),
                              .key = heads.KeyRows(into.key, head),
                              .value = heads.KeyRows(into.value, head)});
    });
    return result;
  }

 private:
  static at::Tensor Cleared(const at::Tensor& like, const Lengths& lengths) {
    if (!like.defined()) return {};
    at::Tensor gradient = at::empty_like(like);
    ClearPadding(gradient, lengths);
    return gradient;
  }
};

}  // namespace

Lengths LengthsOf(const at::Tensor& ids) {
  const at::Tensor rows = ids.contiguous();
  const std::int64_t longest = rows.size(1);
  Lengths lengths;
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const std::int64_t* row = rows.data_ptr<std::int64_t>() + i * longest;
    std::int64_t length = longest;
    while (length > 1 && row[length - 1] == 0) --length;
    lengths.push_back(length);
  }
  return lengths;
}

at::Tensor Attention(const AttentionInput& input, float probability, const ForwardContext& context,
                     std::uint64_t layer) {
  const at::Tensor query = input.query.contiguous();
  const auto contiguous = [](const at::Tensor& t) { return t.defined() ? t.contiguous() : t; };
  const at::Tensor key = contiguous(input.key), value = contiguous(input.value);
  const Layout layout{input.heads, input.causal, input.query_lengths, input.key_lengths};
  at::Tensor mask;
  double scale = 1;
  if (context.training && probability > 0) {
    const kernel::DropoutOptions options = context.Dropout(layer, probability);
    const Parts parts = PartsOf(query, key, value);
    const Heads heads(parts, layout);
    mask = DropoutMask({heads.Count(), heads.MaskBytes()}, options);
    scale = double{kernel::DropoutScale(options)};
  }
  using Maybe = AttentionFunction::Maybe;
  return AttentionFunction::apply(query, Maybe(key), Maybe(value), Maybe(mask), scale, layout);
}

}  // namespace paceline::train
