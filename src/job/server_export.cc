#include "job/server_export.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "data/text_vocabulary.h"
#include "disk/run_lock.h"
#include "job/run_dir.h"
#include "job/server_folders.h"
#include "ps/push_log.h"
#include "ps/snapshot_reader.h"
#include "ps/snapshot_writer.h"
#include "wire/safetensors.h"

namespace paceline::job {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

Status Damaged(const std::string& why) { return Status::Error(Code::kBadCheckpoint, why); }

// A file that gets its name when it is complete and durable.
class OutputFile {
 public:
  static Result<std::unique_ptr<OutputFile>> Create(disk::FileSystem& fs, const std::string& path) {
    PACELINE_ASSIGN(const bool there, fs.Exists(path));
    if (there) {
      return Status::Error(Code::kInvalidArgument, path + " is there already; --out takes another");
    }
    PACELINE_TRY(fs.RemoveAll(path + ".tmp"));  // of an export that did not end
    PACELINE_ASSIGN(auto file, fs.Create(path + ".tmp"));
    return std::unique_ptr<OutputFile>(new OutputFile(fs, path, std::move(file)));
  }

  Status Write(std::span<const std::byte> bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return buffer_.size() < kBufferBytes ? Status() : Drain();
  }
  Status Write(std::string_view text) { return Write(std::as_bytes(std::span(text))); }

  Status Finish() {
    PACELINE_TRY(Drain());
    PACELINE_TRY(file_->Sync());
    PACELINE_TRY(file_->Close());
    PACELINE_TRY(fs_.Rename(path_ + ".tmp", path_));
    return fs_.SyncDir(std::filesystem::path(path_).parent_path().string());
  }
  const std::string& path() const { return path_; }

 private:
  OutputFile(disk::FileSystem& fs, std::string path, std::unique_ptr<disk::WritableFile> file)
      : fs_(fs), path_(std::move(path)), file_(std::move(file)) {}

  Status Drain() {
    PACELINE_TRY(file_->Append(buffer_));
    buffer_.clear();
    return {};
  }

  disk::FileSystem& fs_;
  const std::string path_;
  std::unique_ptr<disk::WritableFile> file_;
  std::vector<std::byte> buffer_;
};

// Of all servers together: what the job is, its dense values, and how many rows there are.
class Survey final : public ps::SnapshotSink {
 public:
  explicit Survey(std::size_t folders) : folders_(folders) {}

  Status Head(const ps::SnapshotHead& head) override {
    if (head.job.servers != folders_ || head.job.index != read_++) {
      return Damaged(fmt::format("it is of server {} of {}, but {} folders are there",
                                 head.job.index, head.job.servers, folders_));
    }
    if (!head.initialised) return Damaged("it has no dense values yet");
    if (read_ == 1) {
      spec = head.job.spec;
      dense.resize(static_cast<std::size_t>(spec.DenseFloats()));
      rows.resize(spec.tables.size());
    }
    const std::string difference = ps::JobDifference(spec, head.job.spec);
    if (!difference.empty()) return Damaged("another job than of server 0: " + difference);
    pieces_ = ps::DensePiecesOf(head.job.spec, head.job.servers, head.job.index);
    return {};
  }
  Status Dense(std::size_t plane, std::uint64_t begin, std::span<const float> floats) override {
    if (plane > 0) return {};  // of the optimiser
    std::uint64_t at = 0;      // of the piece, in the server's memory
    for (const ps::DensePiece& piece : pieces_) {
      const std::uint64_t from = std::max(begin, at);
      const std::uint64_t to = std::min(begin + floats.size(), at + piece.count);
      if (from < to) {
        const auto part = floats.subspan(static_cast<std::size_t>(from - begin),
                                         static_cast<std::size_t>(to - from));
        std::ranges::copy(part,
                          dense.begin() + static_cast<std::ptrdiff_t>(piece.begin + from - at));
      }
      at += piece.count;
    }
    return {};
  }
  Status Row(std::uint32_t table, const ps::TableRow& /*row*/) override {
    ++rows[table];
    return {};
  }
  Status Waiting(std::span<const std::byte> /*message*/) override { return {}; }

  ps::JobSpec spec;
  std::vector<float> dense;
  std::vector<std::uint64_t> rows;  // by table

 private:
  const std::size_t folders_;
  std::size_t read_ = 0;
  std::vector<ps::DensePiece> pieces_;
};

class RowVisitor final : public ps::SnapshotSink {
 public:
  using Visit = std::function<Status(std::uint32_t table, const ps::TableRow& row)>;
  explicit RowVisitor(Visit visit) : visit_(std::move(visit)) {}

  Status Head(const ps::SnapshotHead& /*head*/) override { return {}; }
  Status Dense(std::size_t /*plane*/, std::uint64_t /*begin*/,
               std::span<const float> /*floats*/) override {
    return {};
  }
  Status Row(std::uint32_t table, const ps::TableRow& row) override { return visit_(table, row); }
  Status Waiting(std::span<const std::byte> /*message*/) override { return {}; }

 private:
  const Visit visit_;
};

class Export {
 public:
  Export(disk::FileSystem& fs, std::string run, std::string out)
      : fs_(fs), run_(std::move(run)), out_(std::move(out)) {}

  Result<ExportSummary> Write(ExportFormat format) {
    PACELINE_TRY(Open());
    survey_.emplace(folders_.size());
    PACELINE_TRY(Read(*survey_));
    PACELINE_TRY(CheckNames());
    PACELINE_TRY(RunDirectory(out_).Create());
    if (format == ExportFormat::kSafetensors) {
      PACELINE_TRY(WriteSafetensors("model.safetensors", true));
    } else {
      PACELINE_TRY(WriteTexts());
      if (!survey_->spec.dense.empty()) PACELINE_TRY(WriteSafetensors("dense.safetensors", false));
    }
    for (const ps::DenseTensor& dense : survey_->spec.dense) {
      if (dense.IsInternal()) continue;
      summary_.dense_tensors += 1;
      summary_.dense_floats += dense.rows.floats();
    }
    summary_.tables.reserve(survey_->rows.size());
    for (std::size_t i = 0; i < survey_->rows.size(); ++i) {
      const ps::TableOptions& table = survey_->spec.tables[i].options;
      summary_.tables.push_back({table.name, survey_->rows[i], table.dim});
    }
    return std::move(summary_);
  }

 private:
  // Finds the servers and keeps them from starting.
  Status Open() {
    for (std::uint64_t i = 0;; ++i) {
      const std::string folder = ServerFolder(run_, i);
      PACELINE_ASSIGN(const bool there, fs_.Exists(folder));
      if (!there) break;
      folders_.push_back(folder);
    }
    PACELINE_ASSIGN(const bool has_run, fs_.Exists(run_));
    if (!has_run) return Status::Error(Code::kNotFound, fmt::format("there is no run {}", run_));
    if (folders_.empty()) {
      return Status::Error(Code::kNotFound,
                           fmt::format("no {}: only runs with parameter servers and runs of models "
                                       "with tables can be exported",
                                       ServerFolder(run_, 0)));
    }
    std::vector<std::string> to_lock{run_, RunDirectory(run_).ServersDirectory()};
    to_lock.insert(to_lock.end(), folders_.begin(), folders_.end());
    locks_.reserve(to_lock.size());
    for (const std::string& directory : to_lock) {
      PACELINE_ASSIGN(disk::RunLock lock, disk::RunLock::Acquire(directory));
      locks_.push_back(std::move(lock));
    }
    return FindSnapshots();
  }

  Status FindSnapshots() {
    snapshots_.reserve(folders_.size());
    for (const std::string& folder : folders_) {
      PACELINE_ASSIGN(const auto snapshots, ps::ListSnapshots(fs_, folder));
      const std::uint64_t first = snapshots.empty() ? 1 : snapshots.back();
      PACELINE_ASSIGN(const std::uint64_t left, ps::CountRecords(fs_, folder, first));
      if (left > 0) {
        return Damaged(
            fmt::format("{} has {} log records behind its snapshot: --resume the run, "
                        "and let it end or stop it",
                        folder, left));
      }
      if (snapshots.empty()) return Damaged(folder + " has no snapshot of a server");
      snapshots_.push_back(first);
    }
    return {};
  }

  Status Read(ps::SnapshotSink& sink) {
    for (std::size_t i = 0; i < folders_.size(); ++i) {
      PACELINE_TRY(ps::ReadSnapshot(fs_, folders_[i], snapshots_[i], sink));
    }
    return {};
  }

  // They become names of files.
  Status CheckNames() const {
    for (const ps::JobTable& table : survey_->spec.tables) {
      const std::string& name = table.options.name;
      if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
        return Damaged(fmt::format("a table is named '{}'", name));
      }
    }
    return {};
  }

  Result<std::unique_ptr<OutputFile>> Create(const std::string& name) {
    return OutputFile::Create(fs_, fmt::format("{}/{}", out_, name));
  }
  Status Finish(OutputFile& file) {
    PACELINE_TRY(file.Finish());
    summary_.files.push_back(file.path());
    return {};
  }

  static std::vector<std::int64_t> ShapeOf(const ps::DenseTensor& dense) {
    const bool scalar = dense.rows.floats() == 1;  // has a shape without sides
    if (!dense.shape.empty() || scalar) return dense.shape;
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(dense.rows.rows)};
    if (dense.rows.row_floats != 1) {
      shape.push_back(static_cast<std::int64_t>(dense.rows.row_floats));
    }
    return shape;
  }

  Status WriteDense(OutputFile& file) const {
    std::span<const float> left = survey_->dense;
    for (const ps::DenseTensor& dense : survey_->spec.dense) {
      const auto floats = static_cast<std::size_t>(dense.rows.floats());
      if (!dense.IsInternal()) PACELINE_TRY(file.Write(std::as_bytes(left.first(floats))));
      left = left.subspan(floats);
    }
    return {};
  }

  std::vector<wire::TensorInfo> Tensors(bool with_tables) const {
    std::vector<wire::TensorInfo> tensors;
    for (const ps::DenseTensor& dense : survey_->spec.dense) {
      if (dense.IsInternal()) continue;
      tensors.push_back({.name = dense.name, .dtype = wire::DType::kF32, .shape = ShapeOf(dense)});
    }
    for (std::size_t i = 0; with_tables && i < survey_->rows.size(); ++i) {
      const ps::TableOptions& table = survey_->spec.tables[i].options;
      const auto rows = static_cast<std::int64_t>(survey_->rows[i]);
      tensors.push_back({.name = table.name + ".ids", .dtype = wire::DType::kI64, .shape = {rows}});
      tensors.push_back({.name = table.name + ".values",
                         .dtype = wire::DType::kF32,
                         .shape = {rows, static_cast<std::int64_t>(table.dim)}});
    }
    return tensors;
  }

  Status WriteSafetensors(const std::string& name, bool with_tables) {
    PACELINE_ASSIGN(const std::string header, wire::EncodeSafetensorsHeader(Tensors(with_tables)));
    PACELINE_ASSIGN(const auto file, Create(name));
    PACELINE_TRY(file->Write(header));
    PACELINE_TRY(WriteDense(*file));
    // A tensor of rows is one piece: ids and values of a table are a pass each.
    for (std::uint32_t i = 0; with_tables && i < survey_->rows.size(); ++i) {
      for (const bool ids : {true, false}) {
        RowVisitor visitor([&](std::uint32_t table, const ps::TableRow& row) {
          if (table != i) return Status();
          return file->Write(ids ? std::as_bytes(std::span(&row.id, 1))
                                 : std::as_bytes(row.values));
        });
        PACELINE_TRY(Read(visitor));
      }
    }
    return Finish(*file);
  }

  // Those that a training on text has left; none when the ids of rows are no words.
  Result<data::Vocabulary> WordsOfRun() {
    const std::string path = RunDirectory(run_).VocabularyFile();
    PACELINE_ASSIGN(const bool there, fs_.Exists(path));
    return there ? data::Vocabulary::Load(path) : data::Vocabulary();
  }

  Status WriteTexts() {
    std::vector<std::unique_ptr<OutputFile>> files;
    files.reserve(survey_->rows.size());
    for (std::size_t i = 0; i < survey_->rows.size(); ++i) {
      const ps::TableOptions& table = survey_->spec.tables[i].options;
      PACELINE_ASSIGN(auto file, Create(table.name + ".txt"));
      PACELINE_TRY(file->Write(fmt::format("{} {}\n", survey_->rows[i], table.dim)));
      files.push_back(std::move(file));
    }
    PACELINE_ASSIGN(const data::Vocabulary words, WordsOfRun());
    std::string line;
    RowVisitor visitor([&](std::uint32_t table, const ps::TableRow& row) {
      const bool word = row.id >= 0 && row.id < static_cast<std::int64_t>(words.size());
      line = word ? words.word(static_cast<std::int32_t>(row.id)) : std::to_string(row.id);
      // The shortest digits that give the same float back.
      for (const float value : row.values) fmt::format_to(std::back_inserter(line), " {}", value);
      line += '\n';
      return files[table]->Write(line);
    });
    PACELINE_TRY(Read(visitor));
    for (const auto& file : files) PACELINE_TRY(Finish(*file));
    return {};
  }

  disk::FileSystem& fs_;
  const std::string run_, out_;
  std::vector<std::string> folders_;
  std::vector<std::uint64_t> snapshots_;  // of the folders
  std::vector<disk::RunLock> locks_;
  std::optional<Survey> survey_;
  ExportSummary summary_;
};

}  // namespace

Result<ExportFormat> ParseExportFormat(std::string_view name) {
  if (name == "safetensors") return ExportFormat::kSafetensors;
  if (name == "text") return ExportFormat::kText;
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("no format is named '{}': safetensors, text", name));
}

Result<ExportSummary> ExportParameters(disk::FileSystem& fs, const std::string& run,
                                       const std::string& out, ExportFormat format) {
  return Export(fs, run, out).Write(format);
}

}  // namespace paceline::job
