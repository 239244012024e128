#include "ps/push_log.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/log.h"
#include "base/thread.h"

namespace paceline::ps {

namespace {

constexpr std::string_view kPrefix = "wal-", kSuffix = ".log";
constexpr int kEarly = 4;                                     // of a group's time a fourth
constexpr std::size_t kLongPayload = std::size_t{256} << 10;  // is not copied

std::string SegmentPath(const std::string& folder, std::uint64_t segment) {
  return fmt::format("{}/{}{:016}{}", folder, kPrefix, segment, kSuffix);
}

std::optional<std::uint64_t> SegmentOf(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  std::uint64_t segment = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), segment);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return segment;
}

// Numbers of the segments in a folder, in order.
Result<std::vector<std::uint64_t>> ListSegments(disk::FileSystem& fs, const std::string& folder) {
  PACELINE_ASSIGN(const auto entries, fs.List(folder));
  std::vector<std::uint64_t> segments;
  for (const disk::DirEntry& entry : entries) {
    if (const auto segment = SegmentOf(entry.name)) segments.push_back(*segment);
  }
  std::ranges::sort(segments);
  return segments;
}

Status WriteNew(disk::FileSystem& fs, const std::string& path, std::span<const std::byte> bytes) {
  PACELINE_TRY(fs.RemoveAll(path));  // of one that died while it wrote this
  PACELINE_ASSIGN(const auto file, fs.Create(path));
  PACELINE_TRY(file->Append(bytes));
  PACELINE_TRY(file->Sync());
  return file->Close();
}

// Leaves only whole records in a segment that a crash has cut; keeps the rest for whoever looks for
// the reason. A crash in here leaves the segment as it was, or repaired.
Status Repair(const PushLogOptions& options, const std::string& path,
              const SegmentContent& content) {
  disk::FileSystem& fs = *options.file_system;
  PACELINE_ASSIGN(const auto bytes, disk::ReadWhole(fs, path, content.file_bytes));
  const auto whole = std::span(bytes).first(static_cast<std::size_t>(content.whole_bytes));
  PACELINE_LOG(Warning,
               "{} ends with {} bytes of records that were never complete; kept in {}.broken", path,
               content.file_bytes - content.whole_bytes, path);
  PACELINE_TRY(WriteNew(fs, path + ".broken", std::span(bytes).subspan(whole.size())));
  PACELINE_TRY(WriteNew(fs, path + ".tmp", whole));
  PACELINE_TRY(fs.Rename(path + ".tmp", path));
  return fs.SyncDir(options.folder);
}

// Replays all segments from `first` on; returns the number behind the last.
Result<std::uint64_t> Recover(const PushLogOptions& options, std::uint64_t first,
                              const RecordVisitor& replay, LogRecovery& recovery) {
  disk::FileSystem& fs = *options.file_system;
  PACELINE_ASSIGN(const auto segments, ListSegments(fs, options.folder));
  std::uint64_t next = first;
  for (const std::uint64_t segment : segments) {
    if (segment < first) continue;
    const std::string path = SegmentPath(options.folder, segment);
    if (segment != next) {
      return Status::Error(
          Code::kBadCheckpoint,
          fmt::format("{} is missing, but {} is there", SegmentPath(options.folder, next), path));
    }
    PACELINE_ASSIGN(const SegmentContent content, ReadSegment(fs, path, segment, replay));
    if (content.torn() && segment != segments.back()) {
      return Status::Error(
          Code::kBadCheckpoint,
          fmt::format("{}:{}: damaged: the segment behind it is there", path, content.whole_bytes));
    }
    if (content.torn()) PACELINE_TRY(Repair(options, path, content));
    recovery.segments += 1;
    recovery.records += content.records;
    recovery.torn_bytes += content.file_bytes - content.whole_bytes;
    next = segment + 1;
  }
  return next;
}

}  // namespace

Result<std::uint64_t> CountRecords(disk::FileSystem& fs, const std::string& folder,
                                   std::uint64_t first) {
  PACELINE_ASSIGN(const auto segments, ListSegments(fs, folder));
  std::uint64_t records = 0;
  for (const std::uint64_t segment : segments) {
    if (segment < first) continue;
    PACELINE_ASSIGN(const SegmentContent content,
                    ReadSegment(fs, SegmentPath(folder, segment), segment,
                                [](const LogRecord&) { return Status(); }));
    records += content.records;
  }
  return records;
}

Result<std::unique_ptr<PushLog>> PushLog::Open(const PushLogOptions& options, std::uint64_t first,
                                               const RecordVisitor& replay, LogRecovery& recovery) {
  PACELINE_ASSIGN(const std::uint64_t next, Recover(options, first, replay, recovery));
  std::unique_ptr<PushLog> log(new PushLog(options));
  PACELINE_TRY(log->CreateSegment(next));
  {
    const MutexLock lock(log->mutex_);
    log->segment_ = next;
  }
  log->thread_ =
      StartThread("push-log", [raw = log.get()](const std::stop_token& stop) { raw->Run(stop); });
  return log;
}

PushLog::~PushLog() {
  thread_.request_stop();                  // wakes it: it waits with the token
  if (thread_.joinable()) thread_.join();  // there is none when Open() failed
}

// A segment appears under its name only with its header, durable: what is not there was not begun.
Status PushLog::CreateSegment(std::uint64_t segment) {
  disk::FileSystem& fs = *options_.file_system;
  const std::string path = SegmentPath(options_.folder, segment);
  PACELINE_TRY(WriteNew(fs, path + ".tmp", EncodeSegmentHeader(segment)));
  PACELINE_TRY(fs.Rename(path + ".tmp", path));
  PACELINE_TRY(fs.SyncDir(options_.folder));
  // Only a server that comes back reads it.
  PACELINE_ASSIGN(file_, fs.OpenForAppend(path, disk::ReadBack::kNotSoon));
  file_bytes_ = kSegmentHeaderBytes;
  return {};
}

Result<std::uint64_t> PushLog::Append(const LogRecord& record, std::shared_ptr<const void> owner) {
  if (record.payload.size() > kMaxRecordPayload) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("a log record of {} bytes: at most {}", record.payload.size(),
                                     kMaxRecordPayload));
  }
  const MutexLock lock(mutex_);
  while (failure_.ok() && (rotate_ || pending_bytes_ > options_.pending_bytes)) {
    changed_.wait(mutex_);
  }
  PACELINE_TRY(failure_);
  if (pending_.empty() || pending_.back().owner != nullptr) pending_.emplace_back();
  Part& part = pending_.back();
  if (owner != nullptr && record.payload.size() >= kLongPayload) {
    EncodeRecordHead(record, part.bytes);
    part.payload = record.payload;
    part.owner = std::move(owner);
  } else {
    EncodeRecord(record, part.bytes);
  }
  pending_bytes_ += record.payload.size() + kRecordOverhead;
  changed_.notify_all();
  return ++appended_;
}

void PushLog::WhenDurable(std::uint64_t number, Durable done) {
  Status status;
  {
    const MutexLock lock(mutex_);
    // Also when it is durable already and the log's thread is still telling those before.
    const bool fails = durable_ < number && !failure_.ok();
    if (told_ < number && !fails) {
      waiting_.emplace_back(number, std::move(done));
      return;
    }
    if (fails) status = failure_;
  }
  done(status);
}

Status PushLog::AwaitDurable(std::uint64_t number) {
  const MutexLock lock(mutex_);
  while (durable_ < number && failure_.ok()) changed_.wait(mutex_);
  return durable_ < number ? failure_ : Status();
}

Result<std::uint64_t> PushLog::StartSegment() {
  const MutexLock lock(mutex_);
  rotate_ = true;
  changed_.notify_all();
  while (failure_.ok() && rotate_) changed_.wait(mutex_);
  PACELINE_TRY(failure_);
  return rotated_to_;
}

Status PushLog::DropBefore(std::uint64_t segment) {
  PACELINE_ASSIGN(const auto segments, ListSegments(*options_.file_system, options_.folder));
  for (const std::uint64_t each : segments) {
    if (each >= segment) break;
    PACELINE_TRY(options_.file_system->RemoveAll(SegmentPath(options_.folder, each)));
  }
  return options_.file_system->SyncDir(options_.folder);
}

// Waits for more until `until`, or until there is enough.
PushLog::Taken PushLog::Take(const std::stop_token& stop, Deadline until) {
  const MutexLock lock(mutex_);
  const auto enough = [this]() PACELINE_REQUIRES(mutex_) {
    return rotate_ || pending_bytes_ > options_.pending_bytes;
  };
  changed_.wait_until(mutex_, stop, until, enough);
  Taken taken{.parts = std::exchange(pending_, {}), .records = appended_, .rotate = rotate_};
  pending_bytes_ = 0;
  changed_.notify_all();
  return taken;
}

// Collects for a while, writes everything out, makes it durable, and tells who waits. The first
// records are written long before that: who pushed them computes now, and a core is free. At the
// end of the group the next push would be there, and want it.
void PushLog::Run(const std::stop_token& stop) {
  const auto has_work = [this]() PACELINE_REQUIRES(mutex_) { return HasWork(); };
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (!changed_.wait(mutex_, stop, has_work)) return;
    }
    const Deadline begun = std::chrono::steady_clock::now();
    Status status = Write(Take(stop, begun + options_.group / kEarly).parts);
    const Taken rest = Take(stop, begun + options_.group);
    if (status.ok()) status = Write(rest.parts);
    if (status.ok()) status = MakeDurable(rest.rotate);
    Finish(rest.records, status);
    if (!status.ok()) return;
  }
}

Status PushLog::WritePart(const Part& part) {
  PACELINE_TRY(file_->Append(part.bytes));
  file_bytes_ += part.bytes.size();
  if (part.owner == nullptr) return {};
  PACELINE_TRY(file_->Append(part.payload));
  const auto end = EncodeRecordEnd(std::span(part.bytes).last(kRecordHeadBytes), part.payload);
  file_bytes_ += part.payload.size() + end.size();
  return file_->Append(end);
}

Status PushLog::Write(std::span<const Part> parts) {
  for (const Part& part : parts) PACELINE_TRY(WritePart(part));
  return {};
}

Status PushLog::MakeDurable(bool next_segment) {
  PACELINE_TRY(file_->Sync());
  if (!next_segment && file_bytes_ < options_.segment_bytes) {
    // Before anybody is told: what lies behind it may be cut off by a crash, what is told may not.
    const auto mark = EncodeMark(file_bytes_);
    file_bytes_ += mark.size();
    return file_->Append(mark);
  }
  std::uint64_t segment = 0;
  {
    const MutexLock lock(mutex_);
    segment = segment_ + 1;
  }
  PACELINE_TRY(file_->Close());
  PACELINE_TRY(CreateSegment(segment));
  const MutexLock lock(mutex_);
  segment_ = segment;
  if (next_segment) {
    rotate_ = false;
    rotated_to_ = segment;
  }
  return {};
}

void PushLog::Finish(std::uint64_t written, const Status& status) {
  {
    const MutexLock lock(mutex_);
    if (status.ok()) {
      durable_ = written;
    } else {
      failure_ = status.Wrap("the write-ahead log");
    }
    changed_.notify_all();
  }
  for (;;) {
    std::vector<std::pair<std::uint64_t, Durable>> told;
    std::uint64_t durable = 0;
    {
      const MutexLock lock(mutex_);
      durable = durable_;
      const auto rest = std::stable_partition(
          waiting_.begin(), waiting_.end(),
          [&](const auto& who) { return status.ok() && who.first > durable; });
      std::move(rest, waiting_.end(), std::back_inserter(told));
      waiting_.erase(rest, waiting_.end());
      if (told.empty()) {
        told_ = durable;
        return;
      }
    }
    for (auto& [number, done] : told) done(number <= durable ? Status() : status);
  }
}

}  // namespace paceline::ps
