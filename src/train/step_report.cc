#include "train/step_report.h"

#include <algorithm>
#include <bit>

#include "wire/endian.h"

namespace paceline::train {

namespace {

constexpr std::size_t kShardBytes = 4 * sizeof(std::uint64_t);
constexpr std::size_t kRankBytes = 5 * sizeof(std::uint64_t);
constexpr std::uint64_t kStop = 1, kViewEnds = 2;

void StoreDouble(std::byte* to, double value) {
  wire::StoreU64(to, std::bit_cast<std::uint64_t>(value));
}

double LoadDouble(const std::byte* from) { return std::bit_cast<double>(wire::LoadU64(from)); }

}  // namespace

Result<StepReport> ExchangeReports(collective::Engine& engine, const RankReport& mine) {
  const algo::ShardLayout& layout = engine.layout();
  std::uint64_t most = 0;
  for (std::uint64_t rank = 0; rank < engine.world(); ++rank) {
    most = std::max(most, layout.end(Rank(rank)).value() - layout.begin(Rank(rank)).value());
  }
  const std::size_t block = kRankBytes + most * kShardBytes;
  std::vector<std::byte> blocks(block * engine.world());
  std::byte* at = blocks.data() + engine.rank().value() * block;
  StoreDouble(at, mine.busy_seconds);
  wire::StoreU64(at + 8, (mine.stop ? kStop : 0) | (mine.view_ends ? kViewEnds : 0));
  wire::StoreU64(at + 16, mine.link.to.value());
  StoreDouble(at + 24, mine.link.share);
  StoreDouble(at + 32, mine.link.bytes_per_second);
  at += kRankBytes;
  for (const ShardReport& shard : mine.shards) {
    StoreDouble(at, shard.loss);
    StoreDouble(at + 8, shard.correct);
    StoreDouble(at + 16, shard.predictions);
    wire::StoreU64(at + 24, shard.samples);
    at += kShardBytes;
  }
  PACELINE_TRY(engine.AllGather(blocks));
  StepReport report;
  for (std::uint64_t rank = 0; rank < engine.world(); ++rank) {
    const std::byte* from = blocks.data() + rank * block;
    report.busy_seconds.push_back(LoadDouble(from));
    const std::uint64_t flags = wire::LoadU64(from + 8);
    report.stop = report.stop || (flags & kStop) != 0;
    report.view_ends = report.view_ends || (flags & kViewEnds) != 0;
    report.links.push_back(
        {Rank(wire::LoadU64(from + 16)), LoadDouble(from + 24), LoadDouble(from + 32)});
    from += kRankBytes;
    for (auto shard = layout.begin(Rank(rank)); shard < layout.end(Rank(rank));
         shard = shard.Next()) {
      report.shards.push_back({LoadDouble(from), LoadDouble(from + 8), LoadDouble(from + 16),
                               wire::LoadU64(from + 24)});
      from += kShardBytes;
    }
  }
  return report;
}

Result<std::vector<std::string>> GatherTexts(collective::Engine& engine, const std::string& mine) {
  std::vector<std::uint64_t> sizes(engine.world());
  sizes[engine.rank().value()] = mine.size();
  PACELINE_TRY(engine.AllGather(std::as_writable_bytes(std::span(sizes))));
  const std::uint64_t longest = *std::ranges::max_element(sizes);
  std::string all(longest * engine.world(), '\0');
  all.replace(engine.rank().value() * longest, mine.size(), mine);
  PACELINE_TRY(engine.AllGather(std::as_writable_bytes(std::span(all))));
  std::vector<std::string> texts;
  texts.reserve(engine.world());
  for (std::uint64_t rank = 0; rank < engine.world(); ++rank) {
    texts.push_back(all.substr(rank * longest, sizes[rank]));
  }
  return texts;
}

}  // namespace paceline::train
