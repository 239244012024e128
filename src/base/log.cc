#include "base/log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include "base/mutex.h"

namespace paceline {

namespace {

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// The only process-wide state of the program: where lines go.
struct Sink {
  std::atomic<int> verbosity{0};
  std::atomic<bool> info_to_stderr{false};
  Mutex mutex;
  std::unique_ptr<std::FILE, FileCloser> file PACELINE_GUARDED_BY(mutex);
};

Sink& TheSink() {
  static Sink* const sink = new Sink;  // never destroyed: threads may log during exit
  return *sink;
}

std::string Prefix(Severity severity, const char* file, int line) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm local{};
  ::localtime_r(&now.tv_sec, &local);
  const char* slash = std::strrchr(file, '/');
  const char letter = severity == Severity::kInfo      ? 'I'
                      : severity == Severity::kWarning ? 'W'
                                                       : 'E';
  return fmt::format("{}{:04}{:02}{:02} {:02}:{:02}:{:02}.{:06} {} {}:{}] ", letter,
                     local.tm_year + 1900, local.tm_mon + 1, local.tm_mday, local.tm_hour,
                     local.tm_min, local.tm_sec, now.tv_nsec / 1000, ::syscall(SYS_gettid),
                     slash == nullptr ? file : slash + 1, line);
}

}  // namespace

LogOptions LogOptionsFromEnvironment(const GetEnv& getenv) {
  LogOptions options;
  if (const char* v = getenv("GLOG_v")) options.verbosity = std::atoi(v);
  if (const char* to_stderr = getenv("GLOG_logtostderr")) {
    options.info_to_stderr =
        std::string_view(to_stderr) == "1" || std::string_view(to_stderr) == "true";
  }
  return options;
}

void SetLogOptions(const LogOptions& options) {
  TheSink().verbosity = options.verbosity;
  TheSink().info_to_stderr = options.info_to_stderr;
}

bool SetLogFile(const std::string& path) {
  Sink& sink = TheSink();
  MutexLock lock(sink.mutex);
  sink.file.reset();
  if (path.empty()) return true;
  sink.file.reset(std::fopen(path.c_str(), "ae"));
  return sink.file != nullptr;
}

bool LogEnabled(int verbosity) { return verbosity <= TheSink().verbosity.load(); }

void LogLine(Severity severity, const char* file, int line, std::string_view text) {
  Sink& sink = TheSink();
  const std::string whole = Prefix(severity, file, line).append(text).append("\n");
  if (severity != Severity::kInfo || sink.info_to_stderr.load()) {
    std::fwrite(whole.data(), 1, whole.size(), stderr);
  }
  MutexLock lock(sink.mutex);
  if (sink.file != nullptr) {
    std::fwrite(whole.data(), 1, whole.size(), sink.file.get());
    std::fflush(sink.file.get());
  }
}

}  // namespace paceline
