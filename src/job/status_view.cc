#include "job/status_view.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/text_table.h"
#include "job/progress.h"

namespace paceline::job {

namespace {

constexpr char kUnknown[] = "-";
constexpr char kResetColor[] = "\x1b[0m";
constexpr double kServerSilentSeconds = 5;
constexpr double kLongSeconds = 30;  // a step record older than this is worth a word

// Green: it works. Yellow: it waits for something. Red: something is wrong.
const char* ColorOf(const std::string& state) {
  if (state == "running" || state == "done") return "\x1b[32m";
  if (state == "suspect" || state == "lost" || state == "interrupted") return "\x1b[31m";
  return "\x1b[33m";
}

std::string Paint(const std::string& text, const std::string& state, TextStyle style) {
  return style == TextStyle::kColor ? ColorOf(state) + text + kResetColor : text;
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// "WAITING(1/2): ..." or "RUNNING: 2 workers of 1 to 4".
std::string StateText(const RunSnapshot& snapshot) {
  std::string text = Upper(Printable(snapshot.state));
  if (snapshot.state == "waiting") text += fmt::format("({}/{})", snapshot.have, snapshot.min);
  if (!snapshot.reason.empty()) return text + ": " + Printable(snapshot.reason);
  if (snapshot.elastic && snapshot.state == "running" && snapshot.max > 0) {
    text += fmt::format(": {} worker{}, {} to {} allowed", snapshot.have,
                        snapshot.have == 1 ? "" : "s", snapshot.min, snapshot.max);
  }
  return text;
}

std::string StepText(const RunSnapshot& snapshot) {
  std::string text = fmt::format("{}/{}", snapshot.step, snapshot.total_steps);
  if (snapshot.total_steps > 0) {
    text += fmt::format(" ({:.1f} %)", 100.0 * static_cast<double>(snapshot.step) /
                                           static_cast<double>(snapshot.total_steps));
  }
  text += fmt::format(", {} samples", snapshot.samples);
  if (snapshot.epoch) text += fmt::format(", epoch {:.2f}", *snapshot.epoch);
  return text;
}

std::string SpeedText(const RunSnapshot& snapshot) {
  if (!snapshot.samples_per_second) return kUnknown;
  std::string text = fmt::format("{:.1f} samples/s", *snapshot.samples_per_second);
  if (snapshot.eta_seconds) text += ", ETA " + RenderDuration(*snapshot.eta_seconds);
  return text;
}

std::string HeadText(const RunSnapshot& snapshot, TextStyle style) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  line("run", snapshot.run + (snapshot.model.empty() ? std::string()
                                                     : " (" + Printable(snapshot.model) + ")"));
  line("state", Paint(StateText(snapshot), snapshot.state, style));
  if (snapshot.coordinator_silent_seconds) {
    line("", Paint(fmt::format("coordinator silent for {:.0f} s; what follows about members is as "
                               "old as that",
                               *snapshot.coordinator_silent_seconds),
                   "suspect", style));
  }
  if (!snapshot.over && snapshot.record_age_seconds &&
      *snapshot.record_age_seconds > kLongSeconds) {
    line("", fmt::format("no step for {}", RenderDuration(*snapshot.record_age_seconds)));
  }
  if (snapshot.generation) line("generation", std::to_string(*snapshot.generation));
  line("step", StepText(snapshot));
  line("speed", SpeedText(snapshot));
  if (snapshot.loss) {
    line("loss", fmt::format("{:.4f}", *snapshot.loss) +
                     (snapshot.accuracy
                          ? fmt::format(" (training accuracy {:.1f} %)", 100 * *snapshot.accuracy)
                          : ""));
  }
  if (snapshot.torn_lines > 0) line("torn lines", std::to_string(snapshot.torn_lines));
  return text;
}

std::string SecondsText(const std::optional<double>& seconds) {
  return seconds ? fmt::format("{:.1f} s", *seconds) : kUnknown;
}

std::string PhaseText(const MemberStatus& member) {
  if (member.phase.empty()) return kUnknown;
  return fmt::format("{} {:.1f} s", Printable(member.phase), member.phase_seconds);
}

std::vector<std::string> MemberRow(const SnapshotMember& member) {
  const MemberStatus& status = member.status;
  return {Printable(status.member),
          status.rank ? std::to_string(*status.rank) : kUnknown,
          status.host.empty() ? kUnknown : Printable(status.host),
          status.pid == 0 ? kUnknown : std::to_string(status.pid),
          Printable(status.state),
          std::to_string(status.step),
          PhaseText(status),
          SecondsText(status.heartbeat_age_seconds),
          member.lateness_seconds ? fmt::format("+{:.1f} ms", 1e3 * *member.lateness_seconds)
                                  : kUnknown,
          status.rss_bytes ? fmt::format("{:.0f} MB", static_cast<double>(*status.rss_bytes) / 1e6)
                           : kUnknown};
}

std::string MembersText(const RunSnapshot& snapshot, TextStyle style) {
  if (snapshot.members.empty()) return "";
  std::vector<std::vector<std::string>> rows{
      {"MEMBER", "RANK", "HOST", "PID", "STATE", "STEP", "PHASE", "BEAT", "LATE", "RSS"}};
  for (const SnapshotMember& member : snapshot.members) rows.push_back(MemberRow(member));
  std::istringstream lines(AlignColumns(rows, "lrlrlrlrrr"));
  std::string text = "\n", line;
  for (std::size_t i = 0; std::getline(lines, line); ++i) {
    text += (i == 0 ? line : Paint(line, snapshot.members[i - 1].status.state, style)) + "\n";
  }
  return text;
}

double OrNull(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::quiet_NaN());  // becomes null
}

// Servers write every second; `now_unix` and their clocks may differ a little.
std::string ServerState(const RunSnapshot& snapshot, const ServerRecord& server, double now_unix) {
  if (snapshot.over) return "ended";
  const double age = server.written_unix ? now_unix - *server.written_unix : 0;
  return age > kServerSilentSeconds ? fmt::format("silent {:.0f} s", age) : "alive";
}

std::string Megabytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

// "0: 90 %, 1: 8 %, 2-3: 2 %" of the pushes came late by so many others.
std::string StalenessText(const std::vector<std::uint64_t>& counts) {
  double all = 0;
  for (const std::uint64_t count : counts) all += static_cast<double>(count);
  std::string text;
  for (std::size_t i = 0; i < counts.size() && i < 64; ++i) {
    if (counts[i] == 0) continue;
    const std::uint64_t first = i == 0 ? 0 : std::uint64_t{1} << (i - 1);
    const std::string range =
        i < 2 ? std::to_string(i) : fmt::format("{}-{}", first, first + (first - 1));
    text += fmt::format("{}{}: {:.0f} %", text.empty() ? "" : ", ", range,
                        100 * static_cast<double>(counts[i]) / all);
  }
  return text.empty() ? kUnknown : text;
}

std::string ServersText(const RunSnapshot& snapshot, double now_unix, TextStyle style) {
  if (snapshot.servers.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"SERVER", "ENDPOINT", "PID", "STATE", "ROWS",
                                              "MEMORY", "RSS", "LOG", "PUSHES", "TWICE", "VERSION",
                                              "STALENESS"}};
  rows.reserve(snapshot.servers.size() + 1);
  for (const ServerRecord& server : snapshot.servers) {
    rows.push_back({std::to_string(server.index), server.endpoint, std::to_string(server.pid),
                    ServerState(snapshot, server, now_unix), std::to_string(server.rows),
                    Megabytes(server.MemoryBytes()), Megabytes(server.rss_bytes),
                    Megabytes(server.log_bytes), std::to_string(server.pushes),
                    std::to_string(server.duplicates), std::to_string(server.version),
                    StalenessText(server.staleness)});
  }
  std::istringstream lines(AlignColumns(rows, "rlrlrrrrrrrl"));
  std::string text = "\n", line;
  for (std::size_t i = 0; std::getline(lines, line); ++i) {
    const bool silent = i > 0 && rows[i][3].starts_with("silent");
    text += (i == 0 ? line : Paint(line, silent ? "suspect" : "running", style)) + "\n";
  }
  return text;
}

// Over all servers, in the order of the first one.
std::vector<ServerRecord::Table> SumOfTables(const std::vector<ServerRecord>& servers) {
  std::vector<ServerRecord::Table> sums;
  for (const ServerRecord& server : servers) {
    for (const ServerRecord::Table& table : server.tables) {
      auto sum = std::ranges::find(sums, table.name, &ServerRecord::Table::name);
      if (sum == sums.end()) sum = sums.insert(sums.end(), {.name = table.name});
      sum->rows += table.rows;
      sum->waiting += table.waiting;
      sum->evicted += table.evicted;
    }
  }
  return sums;
}

std::string TablesText(const RunSnapshot& snapshot) {
  const auto tables = SumOfTables(snapshot.servers);
  if (tables.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"TABLE", "ROWS", "ADMITTED", "EVICTED", "WAITING"}};
  for (const ServerRecord::Table& table : tables) {
    rows.push_back({Printable(table.name), std::to_string(table.rows),
                    std::to_string(table.rows + table.evicted), std::to_string(table.evicted),
                    std::to_string(table.waiting)});
  }
  return "\n" + AlignColumns(rows, "lrrrr");
}

std::string TablesJson(const ServerRecord& server) {
  std::vector<std::string> texts;
  for (const ServerRecord::Table& table : server.tables) {
    texts.push_back(JsonObject()
                        .Add("name", table.name)
                        .Add("rows", table.rows)
                        .Add("waiting", table.waiting)
                        .Add("evicted", table.evicted)
                        .Text());
  }
  return fmt::format("[{}]", fmt::join(texts, ","));
}

JsonObject ServerJson(const ServerRecord& server) {
  return JsonObject()
      .Add("index", server.index)
      .Add("endpoint", server.endpoint)
      .Add("pid", server.pid)
      .Add("written_unix", OrNull(server.written_unix))
      .Add("rows", server.rows)
      .AddRaw("tables", TablesJson(server))
      .Add("table_bytes", server.table_bytes)
      .Add("dense_bytes", server.dense_bytes)
      .Add("waiting_bytes", server.waiting_bytes)
      .Add("rss_bytes", server.rss_bytes)
      .Add("log_bytes", server.log_bytes)
      .Add("pushes", server.pushes)
      .Add("duplicates", server.duplicates)
      .Add("version", server.version)
      .Add("snapshots", server.snapshots)
      .Add("recovery_seconds", server.recovery_seconds)
      .AddRaw("staleness", fmt::format("[{}]", fmt::join(server.staleness, ",")));
}

std::string EventsText(const RunSnapshot& snapshot, double now_unix) {
  if (snapshot.events.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const SnapshotEvent& event : snapshot.events) {
    const std::string age =
        event.unix_seconds ? RenderDuration(std::max(0.0, now_unix - *event.unix_seconds)) + " ago"
                           : std::string(kUnknown);
    rows.push_back({age, Printable(event.text)});
  }
  return "\nlast events\n" + AlignColumns(rows, "rl");
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

template <typename T>
std::string CsvNumber(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

JsonObject MemberJson(const SnapshotMember& member) {
  const MemberStatus& status = member.status;
  JsonObject json;
  json.Add("member", status.member);
  if (status.rank) {
    json.Add("rank", *status.rank);
  } else {
    json.AddRaw("rank", "null");
  }
  json.Add("host", status.host)
      .Add("pid", status.pid)
      .Add("state", status.state)
      .Add("step", status.step)
      .Add("phase", status.phase)
      .Add("phase_seconds", status.phase_seconds)
      .Add("heartbeat_age_seconds", OrNull(status.heartbeat_age_seconds))
      .Add("lateness_seconds", OrNull(member.lateness_seconds));
  if (status.rss_bytes) {
    json.Add("rss_bytes", *status.rss_bytes);
  } else {
    json.AddRaw("rss_bytes", "null");
  }
  return json;
}

}  // namespace

std::string StatusText(const RunSnapshot& snapshot, double now_unix, TextStyle style) {
  return HeadText(snapshot, style) + MembersText(snapshot, style) +
         ServersText(snapshot, now_unix, style) + TablesText(snapshot) +
         EventsText(snapshot, now_unix);
}

std::string StatusJson(const RunSnapshot& snapshot) {
  std::vector<JsonObject> members, servers, events;
  for (const SnapshotMember& member : snapshot.members) members.push_back(MemberJson(member));
  servers.reserve(snapshot.servers.size());
  for (const ServerRecord& server : snapshot.servers) servers.push_back(ServerJson(server));
  for (const SnapshotEvent& event : snapshot.events) {
    events.push_back(JsonObject().Add("unix", OrNull(event.unix_seconds)).Add("text", event.text));
  }
  JsonObject json;
  json.Add("run", snapshot.run)
      .Add("model", snapshot.model)
      .Add("state", snapshot.state)
      .Add("reason", snapshot.reason)
      .Add("over", snapshot.over)
      .Add("elastic", snapshot.elastic)
      .Add("have", snapshot.have)
      .Add("min", snapshot.min)
      .Add("max", snapshot.max);
  if (snapshot.generation) {
    json.Add("generation", *snapshot.generation);
  } else {
    json.AddRaw("generation", "null");
  }
  return json.Add("step", snapshot.step)
      .Add("total_steps", snapshot.total_steps)
      .Add("samples", snapshot.samples)
      .Add("epoch", OrNull(snapshot.epoch))
      .Add("samples_per_second", OrNull(snapshot.samples_per_second))
      .Add("eta_seconds", OrNull(snapshot.eta_seconds))
      .Add("loss", OrNull(snapshot.loss))
      .Add("accuracy", OrNull(snapshot.accuracy))
      .Add("coordinator_silent_seconds", OrNull(snapshot.coordinator_silent_seconds))
      .Add("record_age_seconds", OrNull(snapshot.record_age_seconds))
      .Add("torn_lines", snapshot.torn_lines)
      .Add("members", members)
      .Add("servers", servers)
      .Add("events", events)
      .Text();
}

std::string StatusCsv(const RunSnapshot& snapshot, CsvHeader header) {
  std::string text;
  if (header == CsvHeader::kWith) {
    text =
        "member,rank,host,pid,state,step,phase,phase_seconds,heartbeat_age_seconds,"
        "lateness_seconds,rss_bytes\n";
  }
  for (const SnapshotMember& member : snapshot.members) {
    const MemberStatus& status = member.status;
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", CsvCell(Printable(status.member)),
                    CsvNumber(status.rank), CsvCell(Printable(status.host)), status.pid,
                    CsvCell(Printable(status.state)), status.step, CsvCell(Printable(status.phase)),
                    status.phase_seconds, CsvNumber(status.heartbeat_age_seconds),
                    CsvNumber(member.lateness_seconds), CsvNumber(status.rss_bytes));
  }
  return text;
}

}  // namespace paceline::job
