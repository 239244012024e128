#include "bench/perf_case.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "base/check.h"
#include "base/json_writer.h"
#include "bench/json_reader.h"

namespace paceline::bench {

namespace {

constexpr PerfOp kOps[] = {PerfOp::kAllReduce, PerfOp::kAllGather, PerfOp::kReduceScatter,
                           PerfOp::kBroadcast, PerfOp::kLatency};

Status InvalidCase(std::string message) {
  return Status::Error(Code::kInvalidArgument, std::move(message));
}

template <typename T>
bool ParseNumber(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// The factor of a suffix; 1 without one.
std::size_t TakeSuffix(std::string_view* text) {
  if (text->empty()) return 1;
  std::size_t factor = 1;
  switch (text->back()) {
    case 'K':
    case 'k': factor = std::size_t{1} << 10; break;
    case 'M':
    case 'm': factor = std::size_t{1} << 20; break;
    case 'G':
    case 'g': factor = std::size_t{1} << 30; break;
    default: return 1;
  }
  text->remove_suffix(1);
  return factor;
}

Status SetField(std::string_view field, PerfStep* step) {
  const std::size_t equals = field.find('=');
  const std::string_view name = field.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : field.substr(equals + 1);
  int check = 0;
  bool good = false;
  if (name == "op") {
    PACELINE_ASSIGN(step->op, ParsePerfOp(value));
    good = true;
  } else if (name == "size") {
    good = ParseNumber(value, &step->bytes);
  } else if (name == "iters") {
    good = ParseNumber(value, &step->iterations) && step->iterations >= 1;
  } else if (name == "warmup") {
    good = ParseNumber(value, &step->warmup) && step->warmup >= 0;
  } else if (name == "check") {
    good = ParseNumber(value, &check) && (check == 0 || check == 1);
    step->check = check == 1;
  }
  return good ? Status() : InvalidCase(fmt::format("bad field \"{}\"", field));
}

}  // namespace

const char* PerfOpName(PerfOp op) {
  switch (op) {
    case PerfOp::kAllReduce: return "allreduce";
    case PerfOp::kAllGather: return "allgather";
    case PerfOp::kReduceScatter: return "reducescatter";
    case PerfOp::kBroadcast: return "broadcast";
    case PerfOp::kLatency: return "latency";
  }
  return "?";
}

Result<PerfOp> ParsePerfOp(std::string_view name) {
  for (const PerfOp op : kOps) {
    if (name == PerfOpName(op)) return op;
  }
  return InvalidCase(fmt::format(
      "unknown collective '{}': one of allreduce, allgather, reducescatter, broadcast, latency",
      name));
}

Result<std::size_t> ParseSize(std::string_view text) {
  std::string_view digits = text;
  const std::size_t factor = TakeSuffix(&digits);
  std::size_t number = 0;
  if (!ParseNumber(digits, &number) || number > std::numeric_limits<std::size_t>::max() / factor) {
    return InvalidCase(fmt::format("'{}' is not a size such as 4096, 4K, 64M or 1G", text));
  }
  return number * factor;
}

std::string FormatSize(std::size_t bytes) {
  constexpr const char* kSuffixes[] = {"", "K", "M", "G"};
  std::size_t suffix = 0;
  while (suffix < 3 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++suffix;
  }
  return fmt::format("{}{}", bytes, kSuffixes[suffix]);
}

Result<std::vector<std::size_t>> ListSizes(const SizeRange& range) {
  if (range.min_bytes < sizeof(float))
    return InvalidCase("the smallest size is one float: 4 bytes");
  if (range.max_bytes < range.min_bytes) {
    return InvalidCase(fmt::format("the largest size {} is below the smallest {}",
                                   FormatSize(range.max_bytes), FormatSize(range.min_bytes)));
  }
  if (range.factor < 2) return InvalidCase("the factor between sizes must be at least 2");
  std::vector<std::size_t> sizes;
  for (std::size_t size = range.min_bytes;;) {
    sizes.push_back(size);
    if (size > range.max_bytes / range.factor) return sizes;
    size *= range.factor;
  }
}

PerfShape ShapeOf(PerfOp op, std::size_t bytes, std::uint64_t world) {
  PACELINE_CHECK(world >= 1, "a group has ranks");
  const std::size_t floats = std::max<std::size_t>(1, bytes / sizeof(float));
  const std::size_t each = std::max<std::size_t>(1, floats / world);
  switch (op) {
    case PerfOp::kAllReduce:
    case PerfOp::kLatency:
      return {.bytes = floats * sizeof(float), .count = floats, .redop = "sum"};
    case PerfOp::kAllGather:
      return {.bytes = each * world * sizeof(float), .count = each, .redop = "none"};
    case PerfOp::kReduceScatter:
      return {.bytes = each * world * sizeof(float), .count = each, .redop = "sum"};
    case PerfOp::kBroadcast:
      return {.bytes = floats * sizeof(float), .count = floats, .redop = "none", .root = 0};
  }
  return {};
}

double BusFactor(PerfOp op, std::uint64_t world) {
  const auto n = static_cast<double>(world);
  switch (op) {
    case PerfOp::kAllReduce:
    case PerfOp::kLatency: return 2 * (n - 1) / n;
    case PerfOp::kAllGather:
    case PerfOp::kReduceScatter: return (n - 1) / n;
    case PerfOp::kBroadcast: return 1;
  }
  return 1;
}

int DefaultIterations(std::size_t bytes) {
  constexpr std::size_t kTotalBytes = 64 << 20;
  return static_cast<int>(
      std::clamp<std::size_t>(kTotalBytes / std::max<std::size_t>(1, bytes), 5, 1000));
}

std::string ToCommand(const PerfStep& step) {
  return fmt::format("run op={} size={} iters={} warmup={} check={}", PerfOpName(step.op),
                     step.bytes, step.iterations, step.warmup, step.check ? 1 : 0);
}

Result<PerfStep> ParseCommand(std::string_view line) {
  constexpr std::string_view kRun = "run ";
  if (!line.starts_with(kRun)) return InvalidCase(fmt::format("unknown command \"{}\"", line));
  line.remove_prefix(kRun.size());
  PerfStep step;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) PACELINE_TRY(SetField(line.substr(0, end), &step));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  if (step.bytes == 0) return InvalidCase("a run needs a size");
  return step;
}

std::string ToJson(const PerfSample& sample) {
  return JsonObject()
      .Add("rank", sample.rank)
      .Add("seconds", sample.seconds)
      .Add("iterations", sample.iterations)
      .Add("min_us", sample.min_us)
      .Add("p50_us", sample.p50_us)
      .Add("p95_us", sample.p95_us)
      .Add("p99_us", sample.p99_us)
      .Add("max_us", sample.max_us)
      .Add("wrong", sample.wrong)
      .Add("sent_bytes", sample.sent_bytes)
      .Text();
}

Result<PerfSample> SampleFromJson(std::string_view line) {
  PACELINE_ASSIGN(JsonReader json, JsonReader::Parse(line));
  const PerfSample sample{.rank = static_cast<std::uint64_t>(json.Integer("rank")),
                          .seconds = json.Number("seconds"),
                          .iterations = static_cast<int>(json.Integer("iterations")),
                          .min_us = json.Number("min_us"),
                          .p50_us = json.Number("p50_us"),
                          .p95_us = json.Number("p95_us"),
                          .p99_us = json.Number("p99_us"),
                          .max_us = json.Number("max_us"),
                          .wrong = json.Integer("wrong"),
                          .sent_bytes = static_cast<std::uint64_t>(json.Integer("sent_bytes"))};
  PACELINE_TRY(json.status());
  return sample;
}

}  // namespace paceline::bench
