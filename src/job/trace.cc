#include "job/trace.h"

#include <cstdlib>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "job/run_dir.h"

namespace paceline::job {

void Trace::Span(std::string name, Track track, Instant start, Instant end) {
  const MutexLock lock(mutex_);
  if (events_.size() >= max_events_) {
    ++dropped_;
    return;
  }
  events_.push_back({std::move(name), track, start, end});
}

std::vector<Trace::Event> Trace::Events() const {
  const MutexLock lock(mutex_);
  return events_;
}

std::uint64_t Trace::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

// A line for each event: track, start and length in nanoseconds, name.
std::string EncodeTrace(const Trace& trace, Instant zero) {
  std::string text;
  for (const Trace::Event& event : trace.Events()) {
    text +=
        fmt::format("{} {} {} {}\n", static_cast<int>(event.track), (event.start - zero).count(),
                    (event.end - event.start).count(), event.name);
  }
  return text;
}

namespace {

double Micros(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

std::string Metadata(const char* what, std::uint64_t rank, int track, const std::string& name) {
  return JsonObject()
      .Add("name", what)
      .Add("ph", "M")
      .Add("pid", rank)
      .Add("tid", track)
      .Add("args", JsonObject().Add("name", name))
      .Text();
}

// Reductions overlap, so they are asynchronous events: a begin and an end with an id.
Status AddEvent(const std::string& line, std::uint64_t rank, std::uint64_t& next_id,
                std::vector<std::string>& events) {
  std::istringstream in(line);
  int track = 0;
  std::int64_t start = 0, length = 0;
  std::string name;
  if (!(in >> track >> start >> length) || !std::getline(in >> std::ws, name)) {
    return Status::Error(Code::kProtocol, fmt::format("rank {} sent no trace", rank));
  }
  const auto event = [&](const char* phase, std::int64_t at) {
    return std::move(JsonObject()
                         .Add("name", name)
                         .Add("cat", track == 0 ? "compute" : "reduce")
                         .Add("ph", phase)
                         .Add("ts", Micros(at))
                         .Add("pid", rank)
                         .Add("tid", track));
  };
  if (track == 0) {
    events.push_back(event("X", start).Add("dur", Micros(length)).Text());
    return {};
  }
  const std::uint64_t id = next_id++;
  events.push_back(event("b", start).Add("id", id).Text());
  events.push_back(event("e", start + length).Add("id", id).Text());
  return {};
}

}  // namespace

Status WriteChromeTrace(const std::string& path, std::span<const RankTrace> ranks) {
  std::vector<std::string> events;
  std::uint64_t next_id = 1;
  for (const RankTrace& rank : ranks) {
    const std::uint64_t number = rank.rank.value();
    events.push_back(
        Metadata("process_name", number, 0, fmt::format("rank {} @{}", number, rank.host)));
    events.push_back(Metadata("thread_name", number, 0, "compute"));
    events.push_back(Metadata("thread_name", number, 1, "reduce"));
    std::istringstream in(rank.encoded);
    for (std::string line; std::getline(in, line);) {
      PACELINE_TRY(AddEvent(line, number, next_id, events));
    }
  }
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (std::size_t i = 0; i < events.size(); ++i) {
    text += events[i] + (i + 1 < events.size() ? ",\n" : "\n");
  }
  return WriteTextFile(path, text + "]}\n");
}

}  // namespace paceline::job
