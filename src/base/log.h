#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace paceline {

enum class Severity { kInfo, kWarning, kError };

// What the environment variables of the glog family ask for.
struct LogOptions {
  int verbosity = 0;            // GLOG_v: PACELINE_VLOG(n) prints when n <= verbosity
  bool info_to_stderr = false;  // GLOG_logtostderr=1: everything on stderr, not only warnings
};

using GetEnv = std::function<const char*(const char*)>;
LogOptions LogOptionsFromEnvironment(const GetEnv& getenv);

// Called once by main, before threads start.
void SetLogOptions(const LogOptions& options);

// Sends every line to this file as well (append); an empty path stops it. False when the file
// cannot be opened. Thread-safe.
bool SetLogFile(const std::string& path);

bool LogEnabled(int verbosity);

// One line in glog's format: "I20261115 21:40:00.123456 1234 file.cc:12] text". Warnings and
// errors always reach stderr. Thread-safe.
void LogLine(Severity severity, const char* file, int line, std::string_view text);

}  // namespace paceline

#define PACELINE_LOG(severity, ...)                                          \
  ::paceline::LogLine(::paceline::Severity::k##severity, __FILE__, __LINE__, \
                      ::fmt::format(__VA_ARGS__))

#define PACELINE_VLOG(level, ...)                                       \
  do {                                                                  \
    if (::paceline::LogEnabled(level)) PACELINE_LOG(Info, __VA_ARGS__); \
  } while (false)
