#include "job/server_record.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "job/endpoint.h"
#include "job/run_dir.h"

namespace paceline::job {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxServerRecordBytes = 1U << 20;
constexpr std::size_t kMaxBuckets = 64;  // of powers of two

std::uint64_t Count(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

double Seconds(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

std::vector<std::uint64_t> Counts(const Json& json, const char* name) {
  std::vector<std::uint64_t> counts;
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array()) return counts;
  counts.reserve(std::min(found->size(), kMaxBuckets));
  for (const Json& each : *found) {
    if (!each.is_number_unsigned() || counts.size() == kMaxBuckets) return {};
    counts.push_back(each.get<std::uint64_t>());
  }
  return counts;
}

std::vector<ServerRecord::Table> TablesOf(const Json& json) {
  std::vector<ServerRecord::Table> tables;
  const auto found = json.find("tables");
  if (found == json.end() || !found->is_array()) return tables;
  for (const Json& each : *found) {
    const auto name = each.is_object() ? each.find("name") : each.end();
    if (name == each.end() || !name->is_string()) return {};
    tables.push_back({.name = name->get<std::string>(),
                      .rows = Count(each, "rows"),
                      .waiting = Count(each, "waiting"),
                      .evicted = Count(each, "evicted")});
  }
  return tables;
}

std::vector<ServerRecord::Lease> LeasesOf(const Json& json) {
  std::vector<ServerRecord::Lease> leases;
  const auto found = json.find("leases");
  if (found == json.end() || !found->is_array()) return leases;
  for (const Json& each : *found) {
    const auto number = [&](std::size_t i) { return each[i].is_number_unsigned(); };
    if (!each.is_array() || each.size() != 3 || !number(0) || !number(1) || !number(2)) return {};
    leases.push_back({.lease = each[0].get<std::uint64_t>(),
                      .batches = each[1].get<std::uint64_t>(),
                      .finished = each[2].get<std::uint64_t>() != 0});
  }
  return leases;
}

std::optional<double> WrittenAt(const std::string& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return std::nullopt;
  const auto unix_time = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration<double>(unix_time).count();
}

// 7 for "server-7.json".
std::optional<std::uint64_t> IndexOf(std::string_view name) {
  constexpr std::string_view kStart = "server-", kEnd = ".json";
  if (!name.starts_with(kStart) || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_prefix(kStart.size());
  if (name.size() <= kEnd.size()) return std::nullopt;
  name.remove_suffix(kEnd.size());
  std::uint64_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return index;
}

}  // namespace

Result<ServerRecord> ParseServerRecord(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto wrong = [](const char* what) {
    return Status::Error(Code::kBadData, fmt::format("the record of a server: {}", what));
  };
  if (!json.is_object()) return wrong("not a JSON object");
  const auto endpoint = json.find("endpoint");
  const auto pid = json.find("pid");
  if (endpoint == json.end() || !endpoint->is_string()) return wrong("no endpoint");
  if (pid == json.end() || !pid->is_number_integer()) return wrong("no pid");
  PACELINE_ASSIGN(const Endpoint place, ParseEndpoint(endpoint->get_ref<const std::string&>()));
  return ServerRecord{.servers = Count(json, "servers"),
                      .endpoint = place.ToString(),
                      .pid = pid->get<std::int64_t>(),
                      .rows = Count(json, "rows"),
                      .tables = TablesOf(json),
                      .table_bytes = Count(json, "table_bytes"),
                      .dense_bytes = Count(json, "dense_bytes"),
                      .waiting_bytes = Count(json, "waiting_bytes"),
                      .rss_bytes = Count(json, "rss_bytes"),
                      .log_bytes = Count(json, "log_bytes"),
                      .pushes = Count(json, "pushes"),
                      .duplicates = Count(json, "duplicates"),
                      .version = Count(json, "version"),
                      .snapshots = Count(json, "snapshots"),
                      .staleness = Counts(json, "staleness"),
                      .finished_below = Count(json, "finished_below"),
                      .leases = LeasesOf(json),
                      .recovery_seconds = Seconds(json, "recovery_seconds"),
                      .last = json.value("last", Json()) == Json(true),
                      .written_unix = {}};
}

Result<ServerRecord> ReadServerRecord(const std::string& run, std::uint64_t index) {
  const std::string path = RunDirectory(run).ServerFile(index);
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::Error(Code::kNotFound, fmt::format("no {}", path));
  std::string text(kMaxServerRecordBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  auto record = ParseServerRecord(text);
  if (!record.ok()) return record.status().Wrap(path);
  record->index = index;
  record->written_unix = WrittenAt(path);
  return record;
}

std::vector<ServerRecord> ReadServerRecords(const std::string& run) {
  std::vector<ServerRecord> records;
  std::error_code error;
  std::filesystem::directory_iterator entry(RunDirectory(run).ServersDirectory(), error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const auto index = IndexOf(entry->path().filename().string());
    if (!index) continue;
    auto record = ReadServerRecord(run, *index);
    if (record.ok()) records.push_back(*std::move(record));
  }
  std::ranges::sort(records, {}, &ServerRecord::index);
  return records;
}

}  // namespace paceline::job
