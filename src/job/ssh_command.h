#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace paceline::job {

// `text` as one word of a POSIX shell.
std::string ShellQuote(std::string_view text);

// The words as one command line, each quoted where it needs to be.
std::string ShellJoin(const std::vector<std::string>& words);

struct RemoteCommand {
  std::string ssh = "ssh";  // the program and its options, split at blanks: "ssh -p 2222"
  std::string host;         // "node1" or "user@node1"
  std::string directory;    // where it runs over there; empty: where ssh ends up
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // never the secret: ps shows it to everybody
  bool secret_on_stdin = false;    // the first line of ssh's stdin is the secret; see below
  std::chrono::seconds grace{10};  // between SIGTERM and SIGKILL over there
};

// The argv that starts one rank on another host:
//   ssh -o BatchMode=yes HOST -- '<shell command>'
// Whoever runs it keeps its stdin open as long as the rank is to live: when stdin ends, because it
// was closed or because the connection is gone, the process over there gets SIGTERM and, after
// `grace`, SIGKILL. Killing ssh alone would leave it running. ssh's exit code is the process's.
//
// With secret_on_stdin the process finds PACELINE_SECRET_STDIN=1 in its environment and the secret
// as the first and only line of its own stdin; otherwise its stdin is empty. The secret is on no
// command line. The other side's login shell must be a POSIX one.
//
// Pure. kInvalidArgument for a host, a variable or a program that cannot be.
Result<std::vector<std::string>> BuildSshCommand(const RemoteCommand& command);

}  // namespace paceline::job
