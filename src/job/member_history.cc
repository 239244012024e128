#include "job/member_history.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::job {

namespace {

struct StepSpan {
  std::uint64_t first = 1;
  std::uint64_t last = 0;

  void Take(std::uint64_t step) {
    if (first > last) first = step;
    last = step;
  }
};

std::string HowItEnded(const MemberLife& life, const MemberHistory& history,
                       const Lineage& lineage) {
  if (!life.ended.empty()) return life.ended;
  if (lineage.end) return lineage.end->interrupted ? "interrupted" : "done";
  return history.done ? "done" : "no record of an end";
}

// Processes of a run without views: each start is one.
void AddPlainParts(const Lineage& lineage, std::vector<MemberPart>* parts) {
  std::vector<StepSpan> spans(lineage.starts.size());
  std::vector<bool> plain(lineage.starts.size(), lineage.views.empty());
  for (const LineageStep& step : lineage.steps) {
    if (step.view != LineageStep::kNoView || step.start >= spans.size()) continue;
    spans[step.start].Take(step.step);
    plain[step.start] = true;
  }
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (!plain[i]) continue;
    const LineageStart& start = lineage.starts[i];
    const bool last = i + 1 == spans.size();
    const bool ended = last && lineage.end.has_value();
    parts->push_back({.member = fmt::format("process {}", i + 1),
                      .host = {},
                      .workers = std::max<std::uint64_t>(1, start.start.workers),
                      .generation = {},
                      .end_shard = start.start.plan ? start.start.plan->shards : 0,
                      .first_step = spans[i].first,
                      .last_step = spans[i].last,
                      .joined_unix = start.unix_seconds,
                      .ended = ended  ? (lineage.end->interrupted ? "interrupted" : "done")
                               : last ? "no record of an end"
                                      : "resumed by the next"});
  }
}

std::map<std::string, std::vector<MemberPart>> PartsByMember(const Lineage& lineage) {
  std::vector<StepSpan> spans(lineage.views.size());
  for (const LineageStep& step : lineage.steps) {
    if (step.view < spans.size()) spans[step.view].Take(step.step);
  }
  std::map<std::string, std::vector<MemberPart>> by_member;
  for (std::size_t i = 0; i < lineage.views.size(); ++i) {
    const ViewRecord& view = lineage.views[i].view;
    for (const ViewMember& member : view.members) {
      by_member[member.member].push_back({.member = member.member,
                                          .host = member.host,
                                          .pid = member.pid,
                                          .generation = view.generation,
                                          .rank = member.rank,
                                          .first_shard = member.first_shard,
                                          .end_shard = member.end_shard,
                                          .first_step = spans[i].first,
                                          .last_step = spans[i].last,
                                          .joined_unix = {},
                                          .ended = {}});
    }
  }
  return by_member;
}

}  // namespace

void MemberHistoryBuilder::Add(const Record& record) {
  if (const auto* view = std::get_if<ViewRecord>(&record.body)) {
    AddView(record, *view);
    return;
  }
  if (const auto* lease = std::get_if<LeaseRecord>(&record.body)) {
    return leases_.Add(record, *lease, history_.violations);
  }
  const auto* note = std::get_if<NoteRecord>(&record.body);
  if (note == nullptr) return;
  if (record.type == "join") {
    history_.lives.push_back({.member = note->member,
                              .host = note->host,
                              .pid = note->pid.value_or(0),
                              .joined_unix = record.unix_seconds,
                              .ended = {},
                              .ended_unix = {}});
  } else if (record.type == "lost") {
    EndLife(record, *note, "lost");
  } else if (record.type == "evict") {
    EndLife(record, *note, "evicted");
  } else if (record.type == "leave") {
    EndLife(record, *note, "left");
  } else if (record.type == "done") {
    history_.done = true;
    history_.complete = note->text == "complete";
  } else if (record.type == "coordinator") {
    ++history_.coordinator_starts;
  }
}

MemberHistory MemberHistoryBuilder::Finish() {
  history_.leases = leases_.Finish(history_.violations);
  return std::move(history_);
}

void MemberHistoryBuilder::AddView(const Record& record, const ViewRecord& view) {
  auto& views = history_.views;
  if (!views.empty() && view.generation <= views.rbegin()->first) {
    history_.violations.Add(
        {.kind = "generation",
         .text = fmt::format("the coordinator's view of generation {} follows that of {}",
                             view.generation, views.rbegin()->first),
         .file = "members.jsonl",
         .line = record.line,
         .step = view.step,
         .generation = view.generation});
    return;
  }
  views.emplace(view.generation, LineageView{view, record.line, record.unix_seconds, true});
}

MemberLife& MemberHistoryBuilder::LifeOf(const std::string& member) {
  for (auto life = history_.lives.rbegin(); life != history_.lives.rend(); ++life) {
    if (life->member == member) return *life;
  }
  MemberLife& life = history_.lives.emplace_back();
  life.member = member;
  return life;
}

void MemberHistoryBuilder::EndLife(const Record& record, const NoteRecord& note, const char* how) {
  MemberLife& life = LifeOf(note.member);
  if (!life.ended.empty()) return;  // the first reason is the cause
  life.ended = note.text.empty() ? std::string(how) : fmt::format("{}: {}", how, note.text);
  life.ended_unix = record.unix_seconds;
}

std::vector<MemberPart> WhoDidWhat(const Lineage& lineage, const MemberHistory& history) {
  std::map<std::string, std::vector<MemberPart>> by_member = PartsByMember(lineage);
  std::vector<MemberLife> lives = history.lives;
  for (const auto& [member, parts] : by_member) {  // of members whose joining was not recorded
    const bool known =
        std::any_of(lives.begin(), lives.end(),
                    [&, &name = member](const auto& life) { return life.member == name; });
    if (!known) lives.push_back({.member = member, .host = {}, .joined_unix = {}, .ended = {}});
  }
  std::vector<MemberPart> all;
  for (const MemberLife& life : lives) {
    std::vector<MemberPart> parts = std::exchange(by_member[life.member], {});
    if (parts.empty()) {  // it came and never worked
      parts.push_back({.member = life.member,
                       .host = life.host,
                       .pid = life.pid,
                       .generation = {},
                       .first_step = 1,
                       .joined_unix = {},
                       .ended = {}});
    }
    parts.front().joined_unix = life.joined_unix;
    parts.back().ended = HowItEnded(life, history, lineage);
    all.insert(all.end(), parts.begin(), parts.end());
  }
  const bool leased = !lineage.starts.empty() && lineage.starts.back().start.leased;
  if (!leased) AddPlainParts(lineage, &all);  // else a start is only somebody who came to lead
  return all;
}

}  // namespace paceline::job
