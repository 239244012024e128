#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/parse.h"
#include "disk/file_system.h"
#include "job/checkpoint_export.h"
#include "job/server_export.h"
#include "paceline/commands.h"

namespace paceline::cli {

namespace {

struct ExportRequest {
  std::string run, out, format = "safetensors";
  bool ema = false, best = false;
};

// What only checkpoints of workers have.
Status CheckWithoutCheckpoints(const ExportRequest& request) {
  if (!request.ema && !request.best) return {};
  return Status::Error(Code::kInvalidArgument,
                       fmt::format("{}: {} has no checkpoints of workers, and so no {}",
                                   request.ema ? "--ema" : "--best", request.run,
                                   request.ema ? "average of parameters" : "best one"));
}

Status Export(const ExportRequest& request) {
  PACELINE_ASSIGN(const job::ExportFormat format, job::ParseExportFormat(request.format));
  disk::PosixFileSystem files;
  PACELINE_ASSIGN(const bool checkpoints, job::HasCheckpoints(files, request.run));
  if (checkpoints && format != job::ExportFormat::kSafetensors) {
    return Status::Error(Code::kInvalidArgument, "--format text is for tables; this run has none");
  }
  if (!checkpoints) PACELINE_TRY(CheckWithoutCheckpoints(request));
  const job::CheckpointExportOptions options{
      .which = request.best ? job::WhichCheckpoint::kBest : job::WhichCheckpoint::kNewest,
      .average = request.ema ? job::Average::kExport : job::Average::kLeaveOut};
  PACELINE_ASSIGN(const job::ExportSummary done,
                  checkpoints ? job::ExportCheckpoint(files, request.run, request.out, options)
                              : job::ExportParameters(files, request.run, request.out, format));
  if (done.step) fmt::print("checkpoint of step {}\n", done.step->value());
  for (const auto& table : done.tables) {
    fmt::print("table {}: {} rows of {}\n", table.name, table.rows, table.dim);
  }
  fmt::print("dense: {} tensors, {} floats\n", done.dense_tensors, done.dense_floats);
  for (const std::string& file : done.files) fmt::print("wrote {}\n", file);
  return {};
}

}  // namespace

int RunExport(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Write the parameters of a run to files that other programs read: of its newest checkpoint, "
      "under PyTorch's names, or of its parameter servers with their tables. The run has ended or "
      "was stopped; it stays as it is (docs/own-models.md, docs/parameter-server.md).",
      "paceline export");
  app.option_defaults()->always_capture_default();
  ExportRequest request;
  app.add_option("run", request.run, "Run directory")->required();
  app.add_option("--out", request.out, "Directory for the files; made if need be")->required();
  app.add_flag("--best", request.best,
               "Of the checkpoint of the best evaluation instead of the newest one, of a run with "
               "--keep-best");
  app.add_flag("--ema", request.ema,
               "Also ema.safetensors: the average of the parameters of a run with --ema");
  app.add_option("--format", request.format,
                 "safetensors (model.safetensors: dense tensors, and of each table NAME.ids and "
                 "NAME.values) or text (NAME.txt: 'rows dim', then 'id v1 v2 ...' in each line)");
  app.footer(
      "Exit codes: 0 written, 2 no such run, nothing of that kind or files are there already, 13 "
      "not stopped properly or "
      "damaged, 16 disk, 18 the run is alive; docs/errors.md explains each.");
  if (const auto exit = ParseArguments(app, arguments)) return *exit;
  const Status done = Export(request);
  return done.ok() ? 0 : Fail(app.get_name(), done);
}

}  // namespace paceline::cli
