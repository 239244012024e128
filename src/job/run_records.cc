#include "job/run_records.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace paceline::job {

namespace {

using Json = nlohmann::json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Reads the fields of one object; remembers the first required one that is not as it should be.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  std::uint64_t Count(const char* name) {
    const auto value = MaybeCount(name);
    if (!value) Fail(name, "a whole number");
    return value.value_or(0);
  }
  std::optional<std::uint64_t> MaybeCount(const char* name) const {
    const Json* value = Find(name);
    if (value == nullptr || !value->is_number_integer()) return std::nullopt;
    if (!value->is_number_unsigned() && value->get<std::int64_t>() < 0) return std::nullopt;
    return value->get<std::uint64_t>();
  }
  std::optional<double> MaybeNumber(const char* name) const {
    const Json* value = Find(name);
    if (value == nullptr || !value->is_number()) return std::nullopt;
    const auto number = value->get<double>();
    return std::isfinite(number) ? std::optional(number) : std::nullopt;
  }
  std::optional<bool> MaybeFlag(const char* name) const {
    const Json* value = Find(name);
    if (value == nullptr || !value->is_boolean()) return std::nullopt;
    return value->get<bool>();
  }
  std::string Text(const char* name) const {
    const Json* value = Find(name);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }
  // A member is named by a text or by a number.
  std::string Name(const char* name) const {
    const auto number = MaybeCount(name);
    return number ? std::to_string(*number) : Text(name);
  }
  const Json* List(const char* name) {
    const Json* value = Find(name);
    if (value != nullptr && value->is_array()) return value;
    Fail(name, "a list");
    return nullptr;
  }
  const Json* Find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  void Fail(const std::string& name, const char* expected) {
    if (!error_.empty()) return;
    error_ = fmt::format("field \"{}\" is missing or not {}", name, expected);
  }
  Status status() const {
    return error_.empty() ? Status() : Status::Error(Code::kBadData, error_);
  }

 private:
  const Json& object_;
  std::string error_;
};

std::optional<algo::BatchPlan> PlanOf(const Fields& fields) {
  const auto seed = fields.MaybeCount("seed");
  const auto dataset_size = fields.MaybeCount("dataset_size");
  const auto batch = fields.MaybeCount("batch");
  const auto shards = fields.MaybeCount("shards");
  const auto total = fields.MaybeCount("total_samples");
  if (!seed || !dataset_size || !batch || !shards || !total) return std::nullopt;
  return algo::BatchPlan{.seed = *seed,
                         .dataset_size = *dataset_size,
                         .batch = *batch,
                         .shards = *shards,
                         .total_samples = *total};
}

StartRecord ReadStart(Fields& fields) {
  return {.run = fields.Text("run"),
          .model = fields.Text("model"),
          .step = fields.Count("step"),
          .total_steps = fields.Count("total_steps"),
          .threads = fields.MaybeCount("threads").value_or(0),
          .workers = fields.MaybeCount("workers").value_or(1),
          .push_steps = fields.MaybeCount("push_steps").value_or(0),
          .leased = fields.MaybeFlag("leased").value_or(false),
          .plan = PlanOf(fields)};
}

ViewRecord ReadView(Fields& fields) {
  ViewRecord view{.generation = fields.Count("generation"),
                  .step = fields.Count("step"),
                  .members = {},
                  .why = fields.Text("why")};
  const Json* members = fields.List("members");
  if (members == nullptr) return view;
  for (const Json& each : *members) {
    Fields member(each);
    view.members.push_back({.member = member.Name("member"),
                            .rank = member.Count("rank"),
                            .host = member.Text("host"),
                            .pid = member.MaybeCount("pid").value_or(0),
                            .first_shard = member.Count("first_shard"),
                            .end_shard = member.Count("end_shard")});
    if (!member.status().ok()) fields.Fail("members", "a list of members with shards");
  }
  return view;
}

StepRecord ReadStep(Fields& fields) {
  StepRecord step{.generation = fields.MaybeCount("generation"),
                  .step = fields.Count("step"),
                  .steps = fields.MaybeCount("steps").value_or(1),
                  .samples = fields.Count("samples"),
                  .loss = fields.MaybeNumber("loss").value_or(kNone),
                  .accuracy = fields.MaybeNumber("accuracy").value_or(kNone),
                  .lr = fields.MaybeNumber("lr").value_or(kNone),
                  .applied = fields.MaybeFlag("applied").value_or(true),
                  .seconds = fields.MaybeNumber("seconds").value_or(0),
                  .busy_seconds = {},
                  .state = fields.Text("state")};
  const Json* busy = fields.Find("busy_seconds");
  if (busy == nullptr || !busy->is_array()) return step;
  for (const Json& each : *busy) {
    step.busy_seconds.push_back(each.is_number() ? each.get<double>() : 0);
  }
  return step;
}

NoteRecord ReadNote(const Fields& fields) {
  NoteRecord note{.member = fields.Name("member"),
                  .host = fields.Text("host"),
                  .pid = fields.MaybeCount("pid"),
                  .step = fields.MaybeCount("step"),
                  .generation = fields.MaybeCount("generation"),
                  .have = fields.MaybeCount("have"),
                  .need = fields.MaybeCount("need"),
                  .seconds = fields.MaybeNumber("seconds"),
                  .accuracy = fields.MaybeNumber("accuracy"),
                  .ok = fields.MaybeFlag("ok"),
                  .text = {}};
  for (const char* name : {"why", "text", "message", "endpoint"}) {
    if (note.text.empty()) note.text = fields.Text(name);
  }
  return note;
}

MemberStatus ReadMemberStatus(const Fields& fields) {
  return {.member = fields.Name("member"),
          .rank = fields.MaybeCount("rank"),
          .host = fields.Text("host"),
          .pid = fields.MaybeCount("pid").value_or(0),
          .state = fields.Text("state"),
          .step = fields.MaybeCount("step").value_or(0),
          .phase = fields.Text("phase"),
          .phase_seconds = fields.MaybeNumber("phase_seconds").value_or(0),
          .heartbeat_age_seconds = fields.MaybeNumber("heartbeat_age_seconds"),
          .rss_bytes = fields.MaybeCount("rss_bytes")};
}

}  // namespace

Result<Record> ParseRecord(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Fields fields(json);
  Record record{.type = fields.Text("type"),
                .time = fields.MaybeNumber("time").value_or(0),
                .unix_seconds = fields.MaybeNumber("unix"),
                .body = {},
                .bytes = text.size()};
  if (record.type.empty()) {
    return Status::Error(Code::kProtocol, "not a JSON object with a type");
  }
  if (record.type == "start") {
    record.body = ReadStart(fields);
  } else if (record.type == "view") {
    record.body = ReadView(fields);
  } else if (record.type == "step") {
    record.body = ReadStep(fields);
  } else if (record.type == "end") {
    record.body = EndRecord{fields.Count("step"), fields.Text("params_hash"),
                            fields.MaybeFlag("interrupted").value_or(false),
                            fields.MaybeFlag("stopped_early").value_or(false)};
  } else if (record.type == "lease" || record.type == "lease-done" || record.type == "lease-back") {
    record.body = LeaseRecord{fields.Name("member"),
                              fields.Count("lease"),
                              {fields.Count("begin"), fields.Count("count")},
                              fields.Count("done")};
  } else {
    record.body = ReadNote(fields);
  }
  PACELINE_TRY(fields.status().Wrap("a record of type " + record.type));
  return record;
}

TensorHashes ParseTensorHashes(std::string_view text) {
  using Ordered = nlohmann::ordered_json;
  TensorHashes hashes;
  const Ordered json = Ordered::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return hashes;
  const auto tensors = json.find("tensors");
  if (tensors == json.end() || !tensors->is_object()) return hashes;
  for (const auto& item : tensors->items()) {
    if (item.value().is_string()) hashes.emplace_back(item.key(), item.value().get<std::string>());
  }
  return hashes;
}

Result<CoordinatorStatus> ParseCoordinatorStatus(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Fields fields(json);
  const Json* members = fields.List("members");
  CoordinatorStatus status{.unix_seconds = fields.MaybeNumber("unix").value_or(0),
                           .generation = fields.MaybeCount("generation").value_or(0),
                           .state = fields.Text("state"),
                           .reason = fields.Text("reason"),
                           .have = fields.MaybeCount("have").value_or(0),
                           .min = fields.MaybeCount("min").value_or(0),
                           .max = fields.MaybeCount("max").value_or(0),
                           .members = {}};
  PACELINE_TRY(fields.status());
  for (const Json& each : *members) status.members.push_back(ReadMemberStatus(Fields(each)));
  return status;
}

std::string Printable(std::string_view text) {
  std::string clean(text);
  for (char& c : clean) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = ' ';
  }
  return clean;
}

}  // namespace paceline::job
