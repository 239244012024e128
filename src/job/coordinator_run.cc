#include "job/coordinator_run.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "algo/shard_layout.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "job/elastic_group.h"
#include "job/event_log.h"
#include "job/group.h"
#include "job/run_dir.h"
#include "member/coordinator.h"
#include "net/loop.h"
#include "store/state_store.h"

namespace paceline::job {

namespace {

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

// The coordinator's own records.
class Records {
 public:
  Records(EventLog log, std::string status_file, std::uint64_t shards, const Clock& clock)
      : log_(std::move(log)),
        status_file_(std::move(status_file)),
        shards_(shards),
        clock_(clock) {}

  void Write(const char* type, const JsonObject& fields) {
    const Status written = log_.Write(type, fields);
    if (!written.ok()) PACELINE_LOG(Warning, "{}", written.message());
  }

  void Write(const member::Note& note) {
    JsonObject json;
    if (note.member) json.Add("member", note.member->value());
    if (!note.why.empty()) json.Add(note.type == "join" ? "host" : "why", note.why);
    for (const auto& [key, value] : note.numbers) {
      if (value == std::floor(value)) {
        json.Add(key, static_cast<std::int64_t>(value));
      } else {
        json.Add(key, value);
      }
    }
    if (!note.seats.empty()) {
      std::vector<JsonObject> members;
      const auto layout = algo::ShardLayout::Even(shards_, note.seats.size());
      for (const wire::Assignment::Seat& seat : note.seats) {
        members.push_back(SeatRecord(seat, layout).Add("step", seat.progress.next_step.value()));
      }
      json.Add("members", members);
    }
    Write(note.type.c_str(), json);
  }

  void Write(const member::MembershipStatus& status) {
    std::vector<JsonObject> members;
    for (const member::MembershipStatus::Line& line : status.members) {
      JsonObject one;
      one.Add("member", line.member.value());
      if (line.rank) {
        one.Add("rank", line.rank->value());
      } else {
        one.AddRaw("rank", "null");
      }
      one.Add("host", line.host)
          .Add("pid", line.pid)
          .Add("state", line.state)
          .Add("step", line.next_step.value())
          .Add("phase", line.phase)
          .Add("phase_seconds", line.phase_seconds)
          .Add("heartbeat_age_seconds", line.heartbeat_age_seconds)
          .Add("rss_bytes", line.rss_bytes);
      members.push_back(one);
    }
    const Status written =
        WriteTextFile(status_file_, JsonObject()
                                            .Add("unix", clock_.UnixSeconds())
                                            .Add("generation", status.generation.value())
                                            .Add("state", RunPhaseName(status.phase))
                                            .Add("reason", status.reason)
                                            .Add("have", status.have)
                                            .Add("min", status.min)
                                            .Add("max", status.max)
                                            .Add("members", members)
                                            .Text() +
                                        "\n");
    if (!written.ok() && !status_failed_) PACELINE_LOG(Warning, "{}", written.message());
    status_failed_ = !written.ok();
  }

 private:
  EventLog log_;
  std::string status_file_;
  std::uint64_t shards_;
  const Clock& clock_;
  bool status_failed_ = false;
};

Result<member::CoordinatorState> LoadState(store::StateStore& store, bool new_workers) {
  PACELINE_ASSIGN(const auto saved, store.Load());
  if (!saved) return member::CoordinatorState{};
  auto state = member::CoordinatorState::Decode(*saved);
  if (!state.ok()) return state.status().Wrap(store.Describe());
  if (new_workers) {
    state->view.clear();
    state->fingerprint.clear();
  }
  return state;
}

Result<net::Endpoint> ChooseBind(const CoordinatorRunOptions& options) {
  if (!options.bind.empty()) return net::ParseEndpoint(options.bind);
  const auto before = ReadCoordinatorAddress(options.run);
  return before.ok() && !options.new_workers ? before->endpoint : net::Endpoint{};
}

}  // namespace

member::MembershipOptions ElasticRules(const TrainConfig& config) {
  const std::chrono::milliseconds dead = Milliseconds(config.dead_timeout);
  return {.min_workers = static_cast<std::uint64_t>(config.min_workers),
          .max_workers = static_cast<std::uint64_t>(std::min(config.workers, config.shards)),
          .start_workers = static_cast<std::uint64_t>(config.start_workers),
          .heartbeat = Milliseconds(config.heartbeat),
          .suspect = std::max(dead * 2 / 5, Milliseconds(config.heartbeat) * 2),
          .dead = dead,
          .elastic_timeout = Milliseconds(config.elastic_timeout)};
}

Result<CoordinatorAddress> ReadCoordinatorAddress(const std::string& run) {
  const std::string path = run + "/coordinator.json";
  std::ifstream file(path);
  if (!file) return Status::Error(Code::kNotFound, fmt::format("no {}", path));
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("endpoint") || !json["endpoint"].is_string()) {
    return Status::Error(Code::kBadData, fmt::format("{} is damaged", path));
  }
  PACELINE_ASSIGN(const net::Endpoint endpoint,
                  net::ParseEndpoint(json["endpoint"].get<std::string>()));
  return CoordinatorAddress{endpoint, json.value("pid", std::int64_t{0})};
}

Status RunCoordinator(const CoordinatorRunOptions& options, const Clock& clock) {
  const RunDirectory directory(options.run);
  PACELINE_TRY(directory.Create());
  PACELINE_ASSIGN(const std::string id, directory.ReadOrMakeId());
  const std::string where =
      options.store.empty() ? "file:" + options.run + "/coordinator.log" : options.store;
  PACELINE_ASSIGN(
      const auto store,
      store::OpenStateStore(
          where, {.id = id, .owner = fmt::format("pid {} host {}", ::getpid(), HostName())}));
  PACELINE_ASSIGN(const member::CoordinatorState state, LoadState(*store, options.new_workers));
  PACELINE_ASSIGN(const net::Endpoint bind, ChooseBind(options));
  PACELINE_ASSIGN(EventLog log, EventLog::Open(options.run + "/members.jsonl", clock));
  Records records(std::move(log), options.run + "/status.json", options.shards, clock);
  net::Loop loop;
  PACELINE_ASSIGN(
      const auto coordinator,
      member::Coordinator::Start(
          loop, clock,
          {.bind = bind,
           .secret = options.secret,
           .membership = options.membership,
           .state = state,
           .save = [&](const member::CoordinatorState& s) { return store->Save(s.Encode()); },
           .on_note = [&](const member::Note& note) { records.Write(note); },
           .on_status = [&](const member::MembershipStatus& s) { records.Write(s); }}));
  records.Write("coordinator", JsonObject()
                                   .Add("pid", ::getpid())
                                   .Add("endpoint", coordinator->endpoint().ToString())
                                   .Add("generation", state.generation.value())
                                   .Add("restarted", !state.view.empty())
                                   .Add("store", store->Describe()));
  PACELINE_TRY(WriteTextFile(options.run + "/coordinator.json",
                             JsonObject()
                                     .Add("endpoint", coordinator->endpoint().ToString())
                                     .Add("pid", ::getpid())
                                     .Text() +
                                 "\n"));
  const member::CoordinatorEnd end = coordinator->Wait(options.stopped);
  return end.code == Code::kOk ? Status() : Status::Error(end.code, end.why);
}

}  // namespace paceline::job
