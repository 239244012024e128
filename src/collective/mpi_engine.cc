#include "collective/mpi_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#define OMPI_SKIP_MPICXX 1  // NOLINT(readability-identifier-naming): theirs
#include <mpi.h>

#include "collective/engine_support.h"

namespace paceline::collective {

namespace {

std::string ErrorText(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return fmt::format("error {}", code);
  return {text, static_cast<std::size_t>(length)};
}

// The one place where MPI's codes become a Status.
Status Check(int code, const char* what) {
  if (code == MPI_SUCCESS) return {};
  int error_class = MPI_ERR_UNKNOWN;
  MPI_Error_class(code, &error_class);
  // A longer message than expected: the ranks do not agree on a size.
  const Code ours = error_class == MPI_ERR_TRUNCATE ? Code::kMismatch : Code::kInternal;
  return Status::Error(ours, fmt::format("MPI: {}: {}", what, ErrorText(code)));
}

bool Finalized() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  return finalized != 0;
}

class MpiEngine final : public Engine {
 public:
  MpiEngine(const MpiOptions& options, Rank rank, MPI_Comm comm)
      : options_(options), rank_(rank), comm_(comm) {}
  ~MpiEngine() override {
    // Collective, so only while the ranks still agree.
    if (failure_.Get().ok() && !Finalized()) MPI_Comm_free(&comm_);
  }
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  const char* name() const override { return "mpi"; }
  Rank rank() const override { return rank_; }
  std::uint64_t world() const override { return options_.layout.world(); }
  const algo::ShardLayout& layout() const override { return options_.layout; }
  Status failure() const override { return failure_.Get(); }
  Result<std::span<float>> Allocate(std::size_t floats) override;
  Status AllReduce(std::span<const std::span<float>> parts) override;
  Status ReduceScatter(std::span<const std::span<float>> parts) override;
  Status AllGather(std::span<std::byte> blocks) override;
  Status Broadcast(std::span<std::byte> bytes, Rank root) override;
  Status Barrier() override;
  void Abort(const Status& why) override {
    if (!why.ok()) static_cast<void>(failure_.Set(why));
  }

 private:
  template <typename Function>
  Status Run(const char* what, const Status& arguments, Function&& function);
  template <typename Function>
  Status InChunks(std::size_t count, Function&& function) const;
  Status ScatterChunk(std::span<float> values, std::size_t begin, std::size_t end) const;
  Status GatherPiece(std::span<std::byte> blocks, std::size_t begin, std::size_t end) const;

  const MpiOptions options_;
  const Rank rank_;
  MPI_Comm comm_;
  FirstFailure failure_;
  FloatArena arena_;
};

template <typename Function>
Status MpiEngine::Run(const char* what, const Status& arguments, Function&& function) {
  PACELINE_TRY(failure_.Get());
  if (Finalized()) {
    return failure_.Set(Status::Error(Code::kAborted, "MPI was finalized"));
  }
  const Status status = arguments.ok() ? function() : arguments;
  if (!status.ok()) {
    return failure_.Set(status.Wrap(fmt::format("mpi rank {}: {}", rank_.value(), what)));
  }
  return failure_.Get();  // an Abort() during the call
}

// Calls `function(begin, end)` for pieces that MPI can count.
template <typename Function>
Status MpiEngine::InChunks(std::size_t count, Function&& function) const {
  for (std::size_t begin = 0; begin < count; begin += options_.max_count) {
    PACELINE_TRY(function(begin, std::min(count, begin + options_.max_count)));
  }
  return {};
}

Result<std::span<float>> MpiEngine::Allocate(std::size_t floats) {
  PACELINE_TRY(failure_.Get());
  return arena_.Allocate(floats);
}

Status MpiEngine::AllReduce(std::span<const std::span<float>> parts) {
  PACELINE_TRY(failure_.Get());
  return Run("all-reduce", SumParts(layout(), rank_, parts), [&] {
    return InChunks(parts[0].size(), [&](std::size_t begin, std::size_t end) {
      return Check(MPI_Allreduce(MPI_IN_PLACE, parts[0].data() + begin,
                                 static_cast<int>(end - begin), MPI_FLOAT, MPI_SUM, comm_),
                   "MPI_Allreduce");
    });
  });
}

Status MpiEngine::ReduceScatter(std::span<const std::span<float>> parts) {
  PACELINE_TRY(failure_.Get());
  return Run("reduce-scatter", SumParts(layout(), rank_, parts), [&] {
    return InChunks(parts[0].size(), [&](std::size_t begin, std::size_t end) {
      return ScatterChunk(parts[0], begin, end);
    });
  });
}

// A chunk may hold several slices and parts of slices; each rank gets what is its own.
Status MpiEngine::ScatterChunk(std::span<float> values, std::size_t begin, std::size_t end) const {
  std::vector<int> counts;
  std::size_t my_begin = begin;
  for (std::size_t r = 0; r < world(); ++r) {
    const algo::Slice slice = algo::SliceOf(values.size(), world(), r);
    const std::size_t from = std::clamp(slice.begin, begin, end);
    counts.push_back(static_cast<int>(std::clamp(slice.end, begin, end) - from));
    if (r == rank_.value()) my_begin = from;
  }
  const auto my_count = static_cast<std::size_t>(counts[rank_.value()]);
  PACELINE_TRY(Check(MPI_Reduce_scatter(MPI_IN_PLACE, values.data() + begin, counts.data(),
                                        MPI_FLOAT, MPI_SUM, comm_),
                     "MPI_Reduce_scatter"));
  // MPI leaves the result at the start of the buffer.
  std::memmove(values.data() + my_begin, values.data() + begin, my_count * sizeof(float));
  return {};
}

Status MpiEngine::AllGather(std::span<std::byte> blocks) {
  return Run("all-gather", CheckBlocks(blocks.size(), world()), [&]() -> Status {
    const std::size_t block = blocks.size() / world();
    if (block <= options_.max_count) {
      return Check(MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, blocks.data(), static_cast<int>(block),
                                 MPI_BYTE, comm_),
                   "MPI_Allgather");
    }
    return InChunks(
        block, [&](std::size_t begin, std::size_t end) { return GatherPiece(blocks, begin, end); });
  });
}

// [begin, end) of every block, as one element of a type that is as wide as a block.
Status MpiEngine::GatherPiece(std::span<std::byte> blocks, std::size_t begin,
                              std::size_t end) const {
  MPI_Datatype bytes = MPI_DATATYPE_NULL, strided = MPI_DATATYPE_NULL;
  const auto width = static_cast<MPI_Aint>(blocks.size() / world());
  PACELINE_TRY(Check(MPI_Type_contiguous(static_cast<int>(end - begin), MPI_BYTE, &bytes),
                     "MPI_Type_contiguous"));
  Status status =
      Check(MPI_Type_create_resized(bytes, 0, width, &strided), "MPI_Type_create_resized");
  MPI_Type_free(&bytes);
  PACELINE_TRY(status);
  status = Check(MPI_Type_commit(&strided), "MPI_Type_commit");
  if (status.ok()) {
    status =
        Check(MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, blocks.data() + begin, 1, strided, comm_),
              "MPI_Allgather");
  }
  MPI_Type_free(&strided);
  return status;
}

Status MpiEngine::Broadcast(std::span<std::byte> bytes, Rank root) {
  return Run("broadcast", CheckRoot(root, world()), [&] {
    return InChunks(bytes.size(), [&](std::size_t begin, std::size_t end) {
      return Check(MPI_Bcast(bytes.data() + begin, static_cast<int>(end - begin), MPI_BYTE,
                             static_cast<int>(root.value()), comm_),
                   "MPI_Bcast");
    });
  });
}

Status MpiEngine::Barrier() {
  return Run("barrier", {}, [&] { return Check(MPI_Barrier(comm_), "MPI_Barrier"); });
}

}  // namespace

Result<MpiBootstrap> MpiBootstrap::Start() {
  if (Finalized()) return Status::Error(Code::kUnavailable, "MPI was finalized in this process");
  int initialized = 0;
  PACELINE_TRY(Check(MPI_Initialized(&initialized), "MPI_Initialized"));
  int provided = MPI_THREAD_SINGLE;
  if (initialized == 0) {
    PACELINE_TRY(Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided),
                       "MPI_Init_thread"));
  } else {
    PACELINE_TRY(Check(MPI_Query_thread(&provided), "MPI_Query_thread"));
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    return Status::Error(Code::kUnavailable, "this MPI allows calls from one thread only");
  }
  PACELINE_TRY(
      Check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  int rank = 0, world = 1;
  PACELINE_TRY(Check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank"));
  PACELINE_TRY(Check(MPI_Comm_size(MPI_COMM_WORLD, &world), "MPI_Comm_size"));
  return MpiBootstrap(Rank(static_cast<std::uint64_t>(rank)), static_cast<std::uint64_t>(world));
}

Result<std::vector<std::string>> MpiBootstrap::Exchange(const std::string& mine) const {
  constexpr std::size_t kMaxBytes = std::numeric_limits<int>::max();
  const std::uint64_t my_size = mine.size();
  std::vector<std::uint64_t> sizes(world_);
  PACELINE_TRY(
      Check(MPI_Allgather(&my_size, 1, MPI_UINT64_T, sizes.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD),
            "MPI_Allgather"));
  std::vector<int> counts, offsets;
  std::size_t total = 0;
  for (const std::uint64_t size : sizes) {
    if (size > kMaxBytes - total) {
      return Status::Error(Code::kInvalidArgument, "the blobs of all ranks exceed 2 GB");
    }
    counts.push_back(static_cast<int>(size));
    offsets.push_back(static_cast<int>(total));
    total += size;
  }
  std::string all(total, '\0');
  PACELINE_TRY(
      Check(MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, all.data(),
                           counts.data(), offsets.data(), MPI_BYTE, MPI_COMM_WORLD),
            "MPI_Allgatherv"));
  std::vector<std::string> blobs;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    blobs.push_back(all.substr(static_cast<std::size_t>(offsets[r]), sizes[r]));
  }
  return blobs;
}

Status MpiBootstrap::Finalize() {
  if (Finalized()) return {};
  return Check(MPI_Finalize(), "MPI_Finalize");
}

std::string MpiVersion() {
  return fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                     OMPI_RELEASE_VERSION);
}

Result<std::unique_ptr<Engine>> MakeMpiEngine(const MpiOptions& options) {
  PACELINE_ASSIGN(const MpiBootstrap mpi, MpiBootstrap::Start());
  if (options.layout.world() != mpi.world()) {
    return Status::Error(Code::kMismatch,
                         fmt::format("the shards are laid out for {} ranks, mpirun started {}",
                                     options.layout.world(), mpi.world()));
  }
  if (options.max_count < 1 || options.max_count > std::numeric_limits<int>::max()) {
    return Status::Error(Code::kInvalidArgument, "max_count must fit an int");
  }
  MPI_Comm comm = MPI_COMM_NULL;
  PACELINE_TRY(Check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup"));
  auto engine = std::make_unique<MpiEngine>(options, mpi.rank(), comm);
  PACELINE_TRY(Check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace paceline::collective
