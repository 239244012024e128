#include "job/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace paceline::job {

namespace {

constexpr std::size_t kMaxRecordBytes = 16U << 20;  // hashes of 100,000 tensors fit
constexpr std::size_t kReadBytes = 256U << 10;

// Every writer puts the type first.
constexpr std::string_view kRecordBegin = "{\"type\"";
constexpr std::string_view kStepBegin = "{\"type\": \"step\"";

Status ReadError(const std::string& path) {
  return Status::Error(Code::kDisk, fmt::format("cannot read {}: {}", path, std::strerror(errno)));
}

}  // namespace

void RecordStream::Feed(std::string_view bytes, const RecordSink& sink) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::string_view part = bytes.substr(0, newline);
    if (newline == std::string_view::npos) {
      oversized_ = oversized_ || pending_.size() + part.size() > kMaxRecordBytes;
      if (oversized_) {
        line_begin_ += pending_.size() + part.size();
        pending_.clear();
      } else {
        pending_ += part;
      }
      break;
    }
    const std::uint64_t line_bytes = pending_.size() + part.size() + 1;
    if (pending_.empty()) {
      TakeLine(part, sink);
    } else {
      pending_ += part;
      TakeLine(pending_, sink);
      pending_.clear();
    }
    line_begin_ += line_bytes;
    bytes.remove_prefix(newline + 1);
  }
}

void RecordStream::Finish(const RecordSink& sink) {
  if (!pending_.empty() || oversized_) TakeLine(pending_, sink);
  line_begin_ += pending_.size();
  pending_.clear();
  Deliver(sink);
}

void RecordStream::TakeLine(std::string_view line, const RecordSink& sink) {
  ++line_;
  const bool cut = std::exchange(oversized_, false);
  if (!cut && line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  if (!cut && Defer(line)) return;
  Deliver(sink);
  if (!cut && TryRecord(line, line_, line_begin_, sink)) return;
  ++damage_.torn;
  if (damage_.first_torn_line == 0) damage_.first_torn_line = line_;
  // The last record on the line is the only one that can be whole: whoever wrote more than one was
  // cut off in the others.
  const std::size_t begin = line.rfind(kRecordBegin);
  if (begin == std::string_view::npos || (begin == 0 && !cut)) return;
  TryRecord(line.substr(begin), line_, line_begin_ + begin, sink);
}

// Parsing is what costs: a step that nobody will look at is only seen to be whole.
bool RecordStream::Defer(std::string_view line) {
  const bool whole_step = detail_ == RecordDetail::kRecentSteps && line.starts_with(kStepBegin) &&
                          line.ends_with('}') && line.rfind(kRecordBegin) == 0;
  if (!whole_step) return false;
  deferred_.push_back({std::string(line), line_, line_begin_});
  if (deferred_.size() > kRecentStepLines) deferred_.pop_front();
  return true;
}

void RecordStream::Deliver(const RecordSink& sink) {
  for (const DeferredLine& each : std::exchange(deferred_, {})) {
    if (TryRecord(each.text, each.line, each.offset, sink)) continue;
    ++damage_.torn;
    if (damage_.first_torn_line == 0) damage_.first_torn_line = each.line;
  }
}

bool RecordStream::TryRecord(std::string_view text, std::uint64_t line, std::uint64_t offset,
                             const RecordSink& sink) {
  auto record = ParseRecord(text);
  if (record.ok()) {
    record->line = line;
    record->offset = offset;
    sink(*record);
    return true;
  }
  if (record.status().code() == Code::kProtocol) return false;
  ++damage_.malformed;
  if (damage_.first_malformed_line == 0) {
    damage_.first_malformed_line = line;
    damage_.first_malformed_text = record.status().message();
  }
  return true;
}

Status RecordFile::Open(bool* replaced) {
  struct stat named {};
  if (::stat(path_.c_str(), &named) != 0) {
    if (errno != ENOENT) return ReadError(path_);
    return Status::Error(Code::kNotFound, fmt::format("there is no {}", path_));
  }
  const bool other = file_.valid() && (named.st_dev != device_ || named.st_ino != inode_);
  const bool shorter = file_.valid() && static_cast<std::uint64_t>(named.st_size) < offset_;
  if (file_.valid() && !other && !shorter) return {};
  *replaced = file_.valid();
  file_.Reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file_.valid()) return ReadError(path_);
  struct stat opened {};
  if (::fstat(file_.get(), &opened) != 0) return ReadError(path_);
  device_ = opened.st_dev;
  inode_ = opened.st_ino;
  offset_ = 0;
  stream_ = RecordStream(detail_);
  return {};
}

Status RecordFile::ReadNew(const RecordSink& sink, bool* grown) {
  std::vector<char> buffer(kReadBytes);
  for (;;) {
    const ssize_t got =
        ::pread(file_.get(), buffer.data(), buffer.size(), static_cast<off_t>(offset_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ReadError(path_);
    if (got == 0) break;
    *grown = true;
    offset_ += static_cast<std::uint64_t>(got);
    stream_.Feed({buffer.data(), static_cast<std::size_t>(got)}, sink);
  }
  stream_.Deliver(sink);
  return {};
}

Result<RecordFile::Change> RecordFile::Poll(const RecordSink& sink,
                                            const std::function<void()>& restart) {
  bool replaced = false, grown = false;
  const Status opened = Open(&replaced);
  if (opened.code() == Code::kNotFound) return Change::kNone;
  PACELINE_TRY(opened);
  if (replaced) restart();
  PACELINE_TRY(ReadNew(sink, &grown));
  return replaced ? Change::kReplaced : grown ? Change::kGrown : Change::kNone;
}

Status RecordFile::ReadAll(const RecordSink& sink) {
  bool replaced = false, grown = false;
  PACELINE_TRY(Open(&replaced));
  PACELINE_TRY(ReadNew(sink, &grown));
  stream_.Finish(sink);
  return {};
}

Result<std::string> ReadPiece(const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ReadError(path);
  std::string text(std::min<std::uint64_t>(bytes, kMaxRecordBytes), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::pread(file.get(), text.data() + have, text.size() - have,
                                static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ReadError(path);
    if (got == 0) return Status::Error(Code::kDisk, path + " became shorter while it was read");
    have += static_cast<std::size_t>(got);
  }
  return text;
}

}  // namespace paceline::job
