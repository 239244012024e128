#include "job/chaos.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/rng.h"

namespace paceline::job {

namespace {

constexpr std::uint64_t kMostRandomEvents = 1'000'000;
constexpr std::string_view kKinds[] = {"kill", "stop", "cut", "leave", "join"};

std::optional<std::uint64_t> TakeNumber(std::string_view& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool Take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

// "6s" or "500ms".
std::optional<std::chrono::milliseconds> TakeDuration(std::string_view& text) {
  const auto number = TakeNumber(text);
  if (!number) return std::nullopt;
  if (Take(text, "ms")) return std::chrono::milliseconds(*number);
  if (Take(text, "s")) return std::chrono::milliseconds(*number * 1000);
  return std::nullopt;
}

// Whom an event may hit.
struct Targets {
  std::uint64_t workers = 0;
  std::uint64_t servers = 0;
  std::uint64_t steps = 0;
  bool elastic = true;  // they have a coordinator, and come and go
};

// "worker:1", "coordinator"; with servers "trainer:1", "server:1".
bool TakeVictim(std::string_view& text, const Targets& targets, ChaosEvent& event) {
  if (targets.elastic && event.kind == ChaosKind::kKill && Take(text, "coordinator")) {
    event.coordinator = true;
    return true;
  }
  event.server = targets.servers > 0 && Take(text, "server:");
  if (!event.server && !Take(text, targets.servers > 0 ? "trainer:" : "worker:")) return false;
  const auto number = TakeNumber(text);
  event.worker = number.value_or(0);
  return number && event.worker < (event.server ? targets.servers : targets.workers);
}

std::optional<ChaosEvent> ParseEvent(std::string_view text, const Targets& targets) {
  ChaosEvent event;
  const std::string_view name = text.substr(0, text.find('='));
  const auto kind = std::ranges::find(kKinds, name);
  if (kind == std::end(kKinds) || name.size() == text.size()) return std::nullopt;
  event.kind = static_cast<ChaosKind>(kind - std::begin(kKinds));
  const bool everywhere = event.kind == ChaosKind::kKill || event.kind == ChaosKind::kStop;
  const bool cut_from_servers = event.kind == ChaosKind::kCut && targets.servers > 0;
  if (!everywhere && (!targets.elastic || cut_from_servers)) return std::nullopt;
  text.remove_prefix(name.size() + 1);
  if (event.kind != ChaosKind::kJoin && !TakeVictim(text, targets, event)) return std::nullopt;
  if (event.server && !everywhere) return std::nullopt;
  if (!Take(text, "@step")) return std::nullopt;
  const auto step = TakeNumber(text);
  if (!step) return std::nullopt;
  event.step = *step;
  if (event.kind == ChaosKind::kStop || event.kind == ChaosKind::kCut) {
    if (!Take(text, ":")) return std::nullopt;
    const auto duration = TakeDuration(text);
    if (!duration) return std::nullopt;
    event.duration = *duration;
  }
  return text.empty() ? std::optional(event) : std::nullopt;
}

// Kills mostly; a cut has to be known when a worker starts, so it is left to the explicit form.
std::vector<ChaosEvent> RandomEvents(std::uint64_t seed, std::uint64_t count,
                                     const Targets& targets) {
  CounterRng random(seed, Purpose::kTest, 6, 0);
  const auto last_step = static_cast<std::uint32_t>(std::max<std::uint64_t>(targets.steps, 2) - 1);
  std::vector<ChaosEvent> events;
  events.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    constexpr ChaosKind kMix[] = {ChaosKind::kKill, ChaosKind::kKill,  ChaosKind::kKill,
                                  ChaosKind::kStop, ChaosKind::kLeave, ChaosKind::kJoin};
    ChaosEvent event{.kind = kMix[random.Below(6)]};
    if (!targets.elastic && event.kind != ChaosKind::kStop) event.kind = ChaosKind::kKill;
    event.server = targets.servers > 0 && random.Below(2) == 0;
    if (event.server && event.kind != ChaosKind::kStop) event.kind = ChaosKind::kKill;
    event.worker =
        random.Below(static_cast<std::uint32_t>(event.server ? targets.servers : targets.workers));
    event.step = 1 + random.Below(last_step);
    if (event.kind == ChaosKind::kStop) {
      event.duration = std::chrono::milliseconds(100 + random.Below(3'000));
    }
    events.push_back(event);
  }
  return events;
}

Result<std::vector<ChaosEvent>> Parse(const std::string& text, const Targets& targets,
                                      std::string_view examples) {
  std::vector<ChaosEvent> events;
  std::string_view left(text);
  while (!left.empty()) {
    std::string_view part = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), part.size() + 1));
    const Status bad = Status::Error(
        Code::kInvalidArgument,
        fmt::format("--chaos: '{}' is not like {} or random=SEED:COUNT", part, examples));
    if (Take(part, "random=")) {
      const auto seed = TakeNumber(part);
      const auto count = seed && Take(part, ":") ? TakeNumber(part) : std::nullopt;
      if (!count || *count > kMostRandomEvents || !part.empty()) return bad;
      const auto random = RandomEvents(*seed, *count, targets);
      events.insert(events.end(), random.begin(), random.end());
      continue;
    }
    const auto event = ParseEvent(part, targets);
    if (!event) return bad;
    events.push_back(*event);
  }
  std::ranges::stable_sort(events, {}, &ChaosEvent::step);
  return events;
}

}  // namespace

std::string ChaosEvent::Describe() const {
  const std::string victim = kind == ChaosKind::kJoin ? "a new worker"
                             : coordinator
                                 ? "the coordinator"
                                 : fmt::format("{} {}", server ? "server" : "worker", worker);
  const std::string time =
      duration.count() > 0 ? fmt::format(" for {} ms", duration.count()) : std::string();
  return fmt::format("{} {} at step {}{}", kKinds[static_cast<std::size_t>(kind)], victim, step,
                     time);
}

Result<std::vector<ChaosEvent>> ParseChaos(const std::string& text, std::uint64_t workers,
                                           std::uint64_t steps) {
  return Parse(text, {.workers = workers, .servers = 0, .steps = steps},
               "kill=worker:1@step40, stop=worker:1@step40:6s, cut=..., leave=..., join=@step40, "
               "kill=coordinator@step40");
}

Result<std::vector<ChaosEvent>> ParseServerChaos(const std::string& text,
                                                 const ServerChaosTargets& targets) {
  std::string examples = "kill=server:0@step40, kill=trainer:1@step40, stop=server:0@step40:500ms";
  if (targets.elastic) {
    examples += ", leave=trainer:1@step40, join=@step40, kill=coordinator@step40";
  }
  return Parse(text,
               {.workers = targets.trainers,
                .servers = targets.servers,
                .steps = targets.steps,
                .elastic = targets.elastic},
               examples);
}

}  // namespace paceline::job
