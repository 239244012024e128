#include "bench/perf_engine.h"

#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "algo/shard_layout.h"
#include "base/clock.h"
#include "collective/mpi_engine.h"

namespace paceline::bench {

namespace {

// The exchange happens once at the start, so waiting by looking again costs nothing measured.
constexpr std::chrono::milliseconds kLookAtWork{2};

std::filesystem::path BlobFile(const std::filesystem::path& folder, std::uint64_t rank) {
  return folder / fmt::format("rank-{}", rank);
}

Status LeaveBlob(const std::filesystem::path& folder, Rank rank, const std::string& blob) {
  const std::filesystem::path path = BlobFile(folder, rank.value());
  const std::filesystem::path half = path.string() + ".tmp";
  std::ofstream file(half, std::ios::binary | std::ios::trunc);
  file << blob;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(half, path, error);
  if (!file || error) {
    return Status::Error(Code::kDisk, fmt::format("cannot write {}", path.string()));
  }
  return {};
}

Result<std::string> AwaitBlob(const std::filesystem::path& path, Instant deadline) {
  for (;;) {
    std::ifstream file(path, std::ios::binary);
    if (file) return std::string(std::istreambuf_iterator<char>(file), {});
    if (SystemClock().Now() >= deadline) {
      return Status::Error(Code::kTimeout, fmt::format("{} did not appear", path.string()));
    }
    std::this_thread::sleep_for(kLookAtWork);
  }
}

}  // namespace

std::string PerfEngineVersion(const std::string& name) {
  if (name == "gloo") return collective::GlooVersion();
  if (name == "mpi") return collective::MpiVersion();
  return PACELINE_VERSION;
}

Result<std::unique_ptr<job::Group>> MakePerfGroup(const PerfEngineOptions& options) {
  // Address space for one buffer of each size; memory is taken when it is touched.
  constexpr std::size_t kArenaBytes = std::size_t{2} << 30;
  job::GroupOptions group{
      .launch = {.source = "perf", .rank = options.rank, .world = options.world},
      .bind = options.address,
      .engine = options.name,
      .arena_bytes = kArenaBytes,
      .timeout = options.timeout,
      .join_timeout = options.timeout};
  if (options.name == "mpi") {
    PACELINE_ASSIGN(const collective::MpiBootstrap mpi, collective::MpiBootstrap::Start());
    group.launch.rank = mpi.rank();
    group.launch.world = mpi.world();
  } else if (options.name == "native" || options.name == "native-tcp" || options.name == "gloo") {
    group.exchange = FolderExchange(options.meeting, options.rank, options.world, options.timeout);
  } else {
    return Status::Error(Code::kUnavailable,
                         fmt::format("engine {} is not in this build", options.name));
  }
  if (options.name == "native-tcp") {
    group.engine = "native";
    group.shared_memory = false;
  }
  group.layout = algo::ShardLayout::Even(group.launch.world, group.launch.world);
  return job::Group::Join(group);
}

collective::BlobExchange FolderExchange(const std::filesystem::path& folder, Rank rank,
                                        std::uint64_t world, std::chrono::milliseconds timeout) {
  return [=](const std::string& mine) -> Result<std::vector<std::string>> {
    const Instant deadline = SystemClock().Now() + timeout;
    PACELINE_TRY(LeaveBlob(folder, rank, mine));
    std::vector<std::string> blobs;
    for (std::uint64_t peer = 0; peer < world; ++peer) {
      PACELINE_ASSIGN(std::string blob, AwaitBlob(BlobFile(folder, peer), deadline));
      blobs.push_back(std::move(blob));
    }
    return blobs;
  };
}

}  // namespace paceline::bench
