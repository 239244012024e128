#include "job/flight_recorder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "base/json_writer.h"

namespace paceline::job {

FlightRecorder::FlightRecorder(const Clock& clock, std::size_t capacity)
    : clock_(clock), ring_(capacity) {}

void FlightRecorder::Add(const char* what, std::uint64_t step, std::uint64_t detail) {
  const Instant now = clock_.Now();
  const MutexLock lock(mutex_);
  ring_[count_++ % ring_.size()] = {now, what, step, detail};
}

Status FlightRecorder::Dump(const std::string& path, const std::string& why) const {
  const Instant now = clock_.Now();
  std::string text = JsonObject().Add("unix", clock_.UnixSeconds()).Add("why", why).Text() + "\n";
  {
    const MutexLock lock(mutex_);
    const std::uint64_t kept = std::min<std::uint64_t>(count_, ring_.size());
    for (std::uint64_t i = count_ - kept; i < count_; ++i) {
      const Entry& entry = ring_[i % ring_.size()];
      text += JsonObject()
                  .Add("seconds_ago", ToSeconds(now - entry.at))
                  .Add("what", entry.what)
                  .Add("step", entry.step)
                  .Add("detail", entry.detail)
                  .Text() +
              "\n";
    }
  }
  std::ofstream file(path, std::ios::app);
  if (file << text << std::flush) return {};
  return Status::Error(Code::kDisk, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

}  // namespace paceline::job
