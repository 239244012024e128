#include "job/ssh_command.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "job/endpoint.h"

namespace paceline::job {

namespace {

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-./:=@,+").find(c) != std::string_view::npos;
}

bool IsVariableName(std::string_view name) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && !(name.front() >= '0' && name.front() <= '9') &&
         std::all_of(name.begin(), name.end(), is_word);
}

// Runs "$@" and ends it when stdin does. A shell gives background commands an empty stdin, so the
// original one is kept as descriptor 3. The watcher's output goes nowhere: sshd would wait for it.
// It ends with what it watches, also when the shell around it was killed.
constexpr std::string_view kScript =
    "exec 3<&0; {} & w=$!; "
    "{{ trap 'kill $p; exit' TERM; cat <&3 & p=$!; wait $p; kill -TERM $w; n={}; "
    "while [ $n -gt 0 ]; do kill -0 $w || exit; sleep 1; n=$((n-1)); done; "
    "kill -KILL $w; }} >/dev/null 2>&1 & c=$!; "
    "exec 3<&-; wait $w; r=$?; kill $c 2>/dev/null; exit $r";
constexpr std::string_view kStartWithSecret = "IFS= read -r s; printf '%s\\n' \"$s\" | \"$@\" 3<&-";
constexpr std::string_view kStart = "\"$@\" </dev/null 3<&-";

Status Check(const RemoteCommand& command) {
  const auto wrong = [](std::string text) {
    return Status::Error(Code::kInvalidArgument, std::move(text));
  };
  const std::size_t at = command.host.find('@');
  const bool has_user = at != std::string::npos;
  const std::string_view host = std::string_view(command.host).substr(has_user ? at + 1 : 0);
  if (!IsHostName(host) || (has_user && !IsHostName(command.host.substr(0, at)))) {
    return wrong(fmt::format("'{}' is no host for ssh", command.host));
  }
  if (command.argv.empty()) return wrong("no program to start with ssh");
  if (command.argv.front().find('=') != std::string::npos || command.argv.front().empty()) {
    return wrong(fmt::format("'{}' is no name of a program for ssh", command.argv.front()));
  }
  for (const auto& [name, value] : command.environment) {
    if (!IsVariableName(name)) return wrong(fmt::format("'{}' is no name of a variable", name));
    if (name == "PACELINE_SECRET") return wrong("the secret must not be on a command line");
    if (value.find('\0') != std::string::npos)
      return wrong(fmt::format("{} has a zero byte", name));
  }
  return {};
}

}  // namespace

std::string ShellQuote(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), IsPlain)) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string ShellJoin(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += ShellQuote(word);
  }
  return line;
}

Result<std::vector<std::string>> BuildSshCommand(const RemoteCommand& command) {
  PACELINE_TRY(Check(command));
  std::vector<std::string> argv;
  std::istringstream words(command.ssh);
  for (std::string word; words >> word;) argv.push_back(word);
  if (argv.empty()) return Status::Error(Code::kInvalidArgument, "--ssh names no program");

  std::vector<std::string> remote{
      "sh", "-c",
      fmt::format(kScript, command.secret_on_stdin ? kStartWithSecret : kStart,
                  command.grace.count()),
      "paceline", "env"};
  if (command.secret_on_stdin) remote.emplace_back("PACELINE_SECRET_STDIN=1");
  for (const auto& [name, value] : command.environment) remote.push_back(name + "=" + value);
  remote.insert(remote.end(), command.argv.begin(), command.argv.end());
  std::string line = "exec " + ShellJoin(remote);
  if (!command.directory.empty()) line = "cd -- " + ShellQuote(command.directory) + " && " + line;

  argv.emplace_back("-o");
  argv.emplace_back("BatchMode=yes");
  argv.push_back(command.host);
  argv.emplace_back("--");
  argv.push_back(std::move(line));
  return argv;
}

}  // namespace paceline::job
