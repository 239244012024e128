#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/text_table.h"
#include "job/audit.h"

namespace paceline::job {

namespace {

constexpr std::size_t kShownViolations = 10;

std::string Count(std::uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

double EpochsOf(const AuditReport& report) {
  return static_cast<double>(report.coverage.samples) /
         static_cast<double>(report.plan.dataset_size);
}

std::string ShardsOf(const MemberPart& part) {
  return part.first_shard < part.end_shard
             ? fmt::format("{}-{}", part.first_shard, part.end_shard - 1)
             : "-";
}

std::string StepsOf(const MemberPart& part) {
  if (part.first_step > part.last_step) return "none";
  return fmt::format("{}-{}", part.first_step, part.last_step);
}

std::string PlaceOf(const MemberPart& part) {
  if (part.host.empty()) return part.workers > 1 ? Count(part.workers, "worker") : "-";
  return part.pid == 0 ? Printable(part.host)
                       : fmt::format("{}:{}", Printable(part.host), part.pid);
}

// Seconds after the run's first moment, so that no time zone is needed.
std::string JoinedOf(const MemberPart& part, double first_unix) {
  return part.joined_unix ? fmt::format("+{:.1f} s", *part.joined_unix - first_unix) : "-";
}

std::string PartsTable(const std::vector<MemberPart>& parts) {
  double first_unix = 0;
  for (const MemberPart& part : parts) {
    if (part.joined_unix && (first_unix == 0 || *part.joined_unix < first_unix)) {
      first_unix = *part.joined_unix;
    }
  }
  std::vector<std::vector<std::string>> rows{
      {"MEMBER", "WHERE", "JOINED", "GENERATION", "SHARDS", "STEPS", "ENDED"}};
  const std::string* shown = nullptr;
  for (const MemberPart& part : parts) {
    const bool first = shown == nullptr || *shown != part.member;
    shown = &part.member;
    rows.push_back({first ? Printable(part.member) : "", first ? PlaceOf(part) : "",
                    first ? JoinedOf(part, first_unix) : "",
                    part.generation ? std::to_string(*part.generation) : "-", ShardsOf(part),
                    StepsOf(part), Printable(part.ended)});
  }
  return AlignColumns(rows, "llrrrrl");
}

std::string SummaryText(const AuditReport& report) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  line("run", fmt::format("{} ({})", report.run, Printable(report.model)));
  line("steps", fmt::format("{} counted, {} to {} of {}; {}", report.steps, report.first_step + 1,
                            report.last_step, report.plan.Steps(), report.ended));
  line("samples", fmt::format("{} in {} of {}", report.coverage.samples,
                              Count(report.coverage.complete_epochs, "complete epoch"),
                              Count(report.plan.dataset_size, "sample")) +
                      (report.coverage.partial_samples > 0
                           ? fmt::format(" and {} of the next", report.coverage.partial_samples)
                           : ""));
  line("lineage",
       fmt::format("{}, {}", Count(report.generations, "generation"),
                   Count(report.starts, "start")) +
           (report.coordinator_starts > 1
                ? fmt::format(", {}", Count(report.coordinator_starts - 1, "coordinator restart"))
                : ""));
  line("repeated",
       fmt::format("{} of work done again after a failure", Count(report.repeated_steps, "step")));
  if (report.witnessed_steps > 0) {
    line("witnessed", fmt::format("{} known only from the next view: the leader died before "
                                  "writing it down",
                                  Count(report.witnessed_steps, "step")));
  }
  if (report.late_records > 0) {
    line("late", fmt::format("{} written by a leader after it was replaced",
                             Count(report.late_records, "record")));
  }
  if (const LeaseHistory& leases = report.leases; !leases.leases.empty()) {
    line("leases",
         fmt::format("{} lent, {} finished, {} handed on; {} samples", leases.leases.size(),
                     leases.finished(), leases.handed_on, leases.samples_done()));
  }
  if (report.servers > 0) {
    line("servers", fmt::format("{} pushes applied by each of {}; {} came again and counted once",
                                report.pushes, report.servers, report.repeated_pushes));
  }
  line("hashes", report.hashed_steps == 0 ? std::string("none (--reproducible records them)")
                                          : fmt::format("{} with a hash of their state",
                                                        Count(report.hashed_steps, "step")));
  line("torn lines", fmt::format("{}, {} malformed", report.torn_lines, report.malformed_lines));
  for (const std::string& note : report.notes) line("note", note);
  return text;
}

std::string VerdictText(const AuditReport& report) {
  if (report.ok()) return "audit: exactly once: OK\n";
  const auto& kept = report.violations.kept();
  std::string text = fmt::format("audit: exactly once: VIOLATED ({})\n",
                                 Count(report.violations.count(), "violation"));
  const std::size_t shown = std::min(kept.size(), kShownViolations);
  for (std::size_t i = 0; i < shown; ++i) {
    const Violation& each = kept[i];
    const std::string generation =
        each.generation ? fmt::format(", generation {}", *each.generation) : "";
    const std::string place =
        each.line > 0 ? fmt::format("{}:{}", each.file, each.line) : each.file;
    text += fmt::format("  {:<10} {} ({}{})\n", each.kind, Printable(each.text), place, generation);
  }
  if (report.violations.count() > shown) {
    text += fmt::format("  and {} more\n", report.violations.count() - shown);
  }
  return text;
}

JsonObject PartJson(const MemberPart& part) {
  JsonObject json;
  json.Add("member", part.member).Add("host", part.host).Add("pid", part.pid);
  json.Add("workers", part.workers);
  if (part.generation) json.Add("generation", *part.generation).Add("rank", part.rank);
  json.Add("first_shard", part.first_shard).Add("end_shard", part.end_shard);
  if (part.first_step <= part.last_step) {
    json.Add("first_step", part.first_step).Add("last_step", part.last_step);
  }
  if (part.joined_unix) json.Add("joined_unix", *part.joined_unix);
  if (!part.ended.empty()) json.Add("ended", part.ended);
  return json;
}

JsonObject ViolationJson(const Violation& violation) {
  JsonObject json;
  json.Add("kind", violation.kind).Add("text", violation.text).Add("file", violation.file);
  if (violation.line > 0) json.Add("line", violation.line);
  if (violation.step) json.Add("step", *violation.step);
  if (violation.generation) json.Add("generation", *violation.generation);
  return json;
}

}  // namespace

std::string AuditText(const AuditReport& report) {
  return SummaryText(report) + "\n" + PartsTable(report.parts) + "\n" + VerdictText(report);
}

std::string AuditJson(const AuditReport& report) {
  std::vector<JsonObject> parts, violations;
  parts.reserve(report.parts.size());
  for (const MemberPart& part : report.parts) parts.push_back(PartJson(part));
  for (const Violation& each : report.violations.kept()) violations.push_back(ViolationJson(each));
  return JsonObject()
      .Add("run", report.run)
      .Add("model", report.model)
      .Add("ok", report.ok())
      .Add("ended", report.ended)
      .Add("first_step", report.first_step)
      .Add("last_step", report.last_step)
      .Add("total_steps", report.plan.Steps())
      .Add("steps", report.steps)
      .Add("samples", report.coverage.samples)
      .Add("epochs", EpochsOf(report))
      .Add("complete_epochs", report.coverage.complete_epochs)
      .Add("generations", report.generations)
      .Add("starts", report.starts)
      .Add("coordinator_starts", report.coordinator_starts)
      .Add("repeated_steps", report.repeated_steps)
      .Add("witnessed_steps", report.witnessed_steps)
      .Add("late_records", report.late_records)
      .Add("hashed_steps", report.hashed_steps)
      .Add("torn_lines", report.torn_lines)
      .Add("malformed_lines", report.malformed_lines)
      .Add("leases", report.leases.leases.size())
      .Add("leases_handed_on", report.leases.handed_on)
      .Add("servers", report.servers)
      .Add("pushes", report.pushes)
      .Add("repeated_pushes", report.repeated_pushes)
      .Add("notes", report.notes)
      .Add("members", parts)
      .Add("violation_count", report.violations.count())
      .Add("violations", violations)
      .Text();
}

}  // namespace paceline::job
