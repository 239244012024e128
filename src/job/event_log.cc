#include "job/event_log.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace paceline::job {

Result<EventLog> EventLog::Open(const std::string& path, const Clock& clock) {
  std::FILE* file = std::fopen(path.c_str(), "a+e");
  if (file == nullptr) {
    return Status::Error(Code::kDisk,
                         fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  }
  // A writer that was killed may have left half a line.
  if (std::fseek(file, -1, SEEK_END) == 0 && std::fgetc(file) != '\n') std::fputc('\n', file);
  return EventLog(file, path, clock);
}

Status EventLog::Write(std::string_view type, const JsonObject& fields) {
  std::string line = JsonObject()
                         .Add("type", type)
                         .Add("time", ToSeconds(clock_->Now() - start_))
                         .Add("unix", clock_->UnixSeconds())
                         .Text();
  const std::string body = fields.Text();
  if (body.size() > 2) line = line.substr(0, line.size() - 1) + ", " + body.substr(1);
  line += '\n';
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
                       std::fflush(file_.get()) == 0;
  if (written || failed_) return {};
  failed_ = true;
  return Status::Error(Code::kDisk,
                       fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

}  // namespace paceline::job
