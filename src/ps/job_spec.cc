#include "ps/job_spec.h"

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "base/fingerprint.h"
#include "wire/bytes.h"

namespace paceline::ps {

namespace {

// Bounds on what a peer can make a server believe, far above what jobs need.
constexpr std::size_t kMaxTables = 4096, kMaxTensors = 65536, kMaxText = 4096, kMaxRank = 16;
constexpr std::uint64_t kMaxTrainers = 65536;
constexpr std::uint64_t kMaxDenseFloats = std::uint64_t{1} << 34;

Status RefuseJob(const std::string& why) {
  return Status::Error(Code::kInvalidArgument, "the job: " + why);
}

Status CheckOptimizer(const RowOptimizerOptions& options, const std::string& whose) {
  for (const float number :
       {options.weight_decay, options.momentum, options.beta1, options.beta2, options.epsilon,
        options.ftrl_beta, options.ftrl_l1, options.ftrl_l2}) {
    if (!std::isfinite(number)) {
      return RefuseJob(fmt::format("{}: a setting of the optimizer is {}", whose, number));
    }
  }
  return {};
}

Status CheckScale(float scale, const std::string& whose) {
  if (std::isfinite(scale) && scale >= 0) return {};
  return RefuseJob(fmt::format("{}: the learning rate times {}", whose, scale));
}

Status CheckTables(const JobSpec& spec) {
  if (spec.tables.size() > kMaxTables) {
    return RefuseJob(fmt::format("{} tables; at most {}", spec.tables.size(), kMaxTables));
  }
  std::set<std::string> names;
  for (const JobTable& table : spec.tables) {
    const std::string whose = fmt::format("table '{}'", table.options.name);
    PACELINE_TRY(CheckTableOptions(table.options).Wrap("the job"));
    PACELINE_TRY(CheckOptimizer(table.options.optimizer, whose));
    PACELINE_TRY(CheckScale(table.learning_rate_scale, whose));
    if (table.options.name.size() > kMaxText) return RefuseJob("the name of a table is too long");
    if (!names.insert(table.options.name).second) return RefuseJob(whose + " is there twice");
  }
  return {};
}

Status CheckShape(const DenseTensor& tensor) {
  std::uint64_t floats = 1;
  for (const std::int64_t size : tensor.shape) {
    const bool fits = size >= 1 && static_cast<std::uint64_t>(size) <= kMaxDenseFloats / floats;
    if (!fits) return RefuseJob(fmt::format("tensor '{}' has a side of {}", tensor.name, size));
    floats *= static_cast<std::uint64_t>(size);
  }
  if (tensor.shape.size() <= kMaxRank && (tensor.shape.empty() || floats == tensor.rows.floats())) {
    return {};
  }
  return RefuseJob(fmt::format("tensor '{}': a shape that does not fit its {} floats", tensor.name,
                               tensor.rows.floats()));
}

Status CheckDense(const JobSpec& spec) {
  if (spec.dense.size() > kMaxTensors) {
    return RefuseJob(fmt::format("{} dense tensors; at most {}", spec.dense.size(), kMaxTensors));
  }
  PACELINE_TRY(CheckOptimizer(spec.dense_optimizer, "dense"));
  std::uint64_t left = kMaxDenseFloats;
  for (const DenseTensor& tensor : spec.dense) {
    const algo::TensorRows& rows = tensor.rows;
    if (tensor.name.size() > kMaxText) return RefuseJob("the name of a tensor is too long");
    if (rows.rows == 0 || rows.row_floats == 0) {
      return RefuseJob(fmt::format("tensor '{}' is empty", tensor.name));
    }
    if (rows.rows > left / rows.row_floats) {
      return RefuseJob(fmt::format("more than {} dense floats", kMaxDenseFloats));
    }
    left -= rows.floats();
    PACELINE_TRY(CheckShape(tensor));
    PACELINE_TRY(CheckScale(tensor.learning_rate_scale, fmt::format("tensor '{}'", tensor.name)));
  }
  return {};
}

class SpecWriter {
 public:
  void Float(float value) { out.Number(std::bit_cast<std::uint32_t>(value)); }
  template <typename Enum>
  void Choice(Enum value) {
    out.Number(static_cast<std::uint8_t>(value));
  }
  void Optimizer(const RowOptimizerOptions& options) {
    Choice(options.kind);
    for (const float number :
         {options.weight_decay, options.momentum, options.beta1, options.beta2, options.epsilon,
          options.ftrl_beta, options.ftrl_l1, options.ftrl_l2}) {
      Float(number);
    }
  }
  void Table(const JobTable& table) {
    const TableOptions& options = table.options;
    out.Text(options.name);
    out.Number(std::uint64_t{options.dim});
    out.Number(options.seed);
    Float(options.init_range);
    Optimizer(options.optimizer);
    Choice(options.admission.rule);
    out.Number(options.admission.touches);
    out.Number(std::bit_cast<std::uint64_t>(options.admission.probability));
    out.Number(options.evict_after);
    out.Number(std::uint64_t{options.stripes});
    Float(table.learning_rate_scale);
  }
  void Tensor(const DenseTensor& tensor) {
    out.Text(tensor.name);
    out.Number(tensor.rows.rows);
    out.Number(tensor.rows.row_floats);
    Choice(tensor.kind);
    Float(tensor.learning_rate_scale);
    out.Number(static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::int64_t size : tensor.shape) out.Number(static_cast<std::uint64_t>(size));
  }

  wire::ByteWriter out;
};

class SpecReader {
 public:
  explicit SpecReader(std::span<const std::byte> bytes) : in(bytes) {}

  float Float() { return std::bit_cast<float>(in.Number<std::uint32_t>()); }
  template <typename Enum>
  Enum Choice(Enum last) {
    const auto value = in.Number<std::uint8_t>();
    if (value > static_cast<std::uint8_t>(last)) in.Fail();
    return static_cast<Enum>(value);
  }
  // How many entries follow; each has at least one byte.
  std::size_t Count(std::size_t limit) {
    const auto count = in.Number<std::uint32_t>();
    if (count <= limit && count <= in.left()) return count;
    in.Fail();
    return 0;
  }
  RowOptimizerOptions Optimizer() {
    RowOptimizerOptions options;
    options.kind = Choice(kLastRowOptimizer);
    for (float* number :
         {&options.weight_decay, &options.momentum, &options.beta1, &options.beta2,
          &options.epsilon, &options.ftrl_beta, &options.ftrl_l1, &options.ftrl_l2}) {
      *number = Float();
    }
    return options;
  }
  JobTable Table() {
    JobTable table;
    TableOptions& options = table.options;
    options.name = in.Text(kMaxText);
    options.dim = in.Number<std::uint64_t>();
    options.seed = in.Number<std::uint64_t>();
    options.init_range = Float();
    options.optimizer = Optimizer();
    options.admission.rule = Choice(AdmissionRule::kByChance);
    options.admission.touches = in.Number<std::uint32_t>();
    options.admission.probability = std::bit_cast<double>(in.Number<std::uint64_t>());
    options.evict_after = in.Number<std::uint32_t>();
    options.stripes = in.Number<std::uint64_t>();
    table.learning_rate_scale = Float();
    return table;
  }
  DenseTensor Tensor() {
    DenseTensor tensor;
    tensor.name = in.Text(kMaxText);
    tensor.rows.rows = in.Number<std::uint64_t>();
    tensor.rows.row_floats = in.Number<std::uint64_t>();
    tensor.kind = Choice(DenseKind::kWithoutDecay);
    tensor.learning_rate_scale = Float();
    tensor.shape.resize(Count(kMaxRank));
    for (std::int64_t& size : tensor.shape) {
      size = static_cast<std::int64_t>(in.Number<std::uint64_t>());
    }
    return tensor;
  }

  wire::ByteReader in;
};

}  // namespace

bool operator==(const DenseTensor& a, const DenseTensor& b) {
  return a.name == b.name && a.rows.rows == b.rows.rows && a.rows.row_floats == b.rows.row_floats &&
         a.kind == b.kind && a.learning_rate_scale == b.learning_rate_scale && a.shape == b.shape;
}

std::uint64_t JobSpec::DenseFloats() const {
  std::uint64_t floats = 0;
  for (const DenseTensor& tensor : dense) floats += tensor.rows.floats();
  return floats;
}

RowOptimizerOptions JobSpec::OptimizerOf(DenseKind kind) const {
  RowOptimizerOptions options = dense_optimizer;
  if (kind == DenseKind::kWithoutDecay) options.weight_decay = options.ftrl_l2 = 0;
  return options;
}

Status CheckJobSpec(const JobSpec& spec) {
  if (spec.fingerprint.size() > kMaxText) return RefuseJob("the fingerprint is too long");
  if (spec.trainers > kMaxTrainers) {
    return RefuseJob(fmt::format("{} trainers; at most {}", spec.trainers, kMaxTrainers));
  }
  if (spec.apply == Apply::kTogether && spec.trainers == 0) {
    return RefuseJob("whoever waits for all trainers has to know how many there are");
  }
  if (!std::isfinite(spec.delay_compensation) || spec.delay_compensation < 0) {
    return RefuseJob(fmt::format("a delay compensation of {}", spec.delay_compensation));
  }
  if (spec.delay_compensation > 0 && (spec.apply == Apply::kTogether || spec.trainers == 0)) {
    return RefuseJob("delay compensation is for a known number of trainers that do not wait");
  }
  PACELINE_TRY(CheckTables(spec));
  return CheckDense(spec);
}

std::string JobDifference(const JobSpec& a, const JobSpec& b) {
  if (a.fingerprint != b.fingerprint) {
    return FingerprintDifference(a.fingerprint, b.fingerprint);
  }
  if (a.apply != b.apply) return "when pushes are applied";
  if (a.trainers != b.trainers) return fmt::format("{} and {} trainers", a.trainers, b.trainers);
  if (a.tables.size() != b.tables.size()) {
    return fmt::format("{} and {} tables", a.tables.size(), b.tables.size());
  }
  for (std::size_t i = 0; i < a.tables.size(); ++i) {
    if (a.tables[i] != b.tables[i]) return fmt::format("table '{}'", a.tables[i].options.name);
  }
  if (a.dense.size() != b.dense.size()) {
    return fmt::format("{} and {} dense tensors", a.dense.size(), b.dense.size());
  }
  for (std::size_t i = 0; i < a.dense.size(); ++i) {
    if (!(a.dense[i] == b.dense[i])) return fmt::format("tensor '{}'", a.dense[i].name);
  }
  if (a.dense_optimizer != b.dense_optimizer) return "the optimizer of dense tensors";
  if (a.delay_compensation != b.delay_compensation) return "the delay compensation";
  return {};
}

std::vector<std::byte> EncodeJobSpec(const JobSpec& spec) {
  SpecWriter writer;
  writer.out.Text(spec.fingerprint);
  writer.Choice(spec.apply);
  writer.out.Number(spec.trainers);
  writer.Optimizer(spec.dense_optimizer);
  writer.Float(spec.delay_compensation);
  writer.out.Number(static_cast<std::uint32_t>(spec.tables.size()));
  for (const JobTable& table : spec.tables) writer.Table(table);
  writer.out.Number(static_cast<std::uint32_t>(spec.dense.size()));
  for (const DenseTensor& tensor : spec.dense) writer.Tensor(tensor);
  return writer.out.Take();
}

Result<JobSpec> DecodeJobSpec(std::span<const std::byte> bytes) {
  SpecReader reader(bytes);
  JobSpec spec;
  spec.fingerprint = reader.in.Text(kMaxText);
  spec.apply = reader.Choice(Apply::kAtOnce);
  spec.trainers = reader.in.Number<std::uint64_t>();
  spec.dense_optimizer = reader.Optimizer();
  spec.delay_compensation = reader.Float();
  const std::size_t tables = reader.Count(kMaxTables);
  spec.tables.reserve(tables);
  for (std::size_t i = 0; i < tables; ++i) spec.tables.push_back(reader.Table());
  const std::size_t tensors = reader.Count(kMaxTensors);
  spec.dense.reserve(tensors);
  for (std::size_t i = 0; i < tensors; ++i) spec.dense.push_back(reader.Tensor());
  PACELINE_TRY(reader.in.Finish("a job"));
  if (const Status status = CheckJobSpec(spec); !status.ok()) {
    return Status::Error(Code::kProtocol, status.message());
  }
  return spec;
}

std::vector<DensePiece> DensePiecesOf(const JobSpec& spec, std::size_t servers, std::size_t index) {
  std::vector<algo::TensorRows> tensors;
  std::vector<std::uint64_t> begins;
  tensors.reserve(spec.dense.size());
  begins.reserve(spec.dense.size());
  std::uint64_t begin = 0;
  for (const DenseTensor& tensor : spec.dense) {
    tensors.push_back(tensor.rows);
    begins.push_back(begin);
    begin += tensor.rows.floats();
  }
  std::vector<DensePiece> pieces;
  for (const algo::DenseBlock& block : algo::PlaceDense(tensors, servers)) {
    if (block.server != index) continue;
    const std::uint64_t at = begins[block.tensor] + block.begin;
    DensePiece* const last = pieces.empty() ? nullptr : &pieces.back();
    if (last != nullptr && last->tensor == block.tensor && last->begin + last->count == at) {
      last->count += block.count;
    } else {
      pieces.push_back({.tensor = block.tensor, .begin = at, .count = block.count});
    }
  }
  return pieces;
}

}  // namespace paceline::ps
