#include "job/server_coverage.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::job {

namespace {

std::uint64_t DivideUp(std::uint64_t a, std::uint64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

constexpr char kUnfinishedRecord[] =
    "; it did not stop in order, so this may be old: --resume lets it";

class Checker {
 public:
  Checker(const ExpectedPushes& expected, const LeaseHistory& leases,
          const std::vector<ServerRecord>& servers, ViolationList* violations,
          std::vector<std::string>* notes)
      : expected_(expected),
        leases_(leases),
        servers_(servers),
        violations_(violations),
        notes_(notes) {}

  void Check() {
    for (const ServerRecord& server : servers_) {
      if (expected_.leased) {
        CheckLeased(server);
      } else {
        CheckFixed(server);
      }
    }
    if (expected_.leased && expected_.complete) CheckAllDone();
  }

 private:
  void Violate(const ServerRecord& server, const std::string& text) {
    violations_->Add({.kind = "server",
                      .text = fmt::format("server {} {}{}", server.index, text,
                                          server.last ? "" : kUnfinishedRecord),
                      .file = fmt::format("servers/server-{}.json", server.index),
                      .step = {},
                      .generation = {}});
  }

  // How far a server is with a lease whose pushes are `whole`.
  static ServerRecord::Lease StateOf(const ServerRecord& server, std::uint64_t lease,
                                     std::uint64_t whole) {
    if (lease < server.finished_below) return {.lease = lease, .batches = whole, .finished = true};
    const auto found = std::ranges::find(server.leases, lease, &ServerRecord::Lease::lease);
    return found == server.leases.end() ? ServerRecord::Lease{.lease = lease} : *found;
  }

  void CheckFixed(const ServerRecord& server) {
    const std::uint64_t whole = DivideUp(expected_.plan.Steps(), expected_.push_steps);
    std::uint64_t sum = 0;
    for (std::uint64_t trainer = 0; trainer < expected_.trainers; ++trainer) {
      const std::uint64_t has = StateOf(server, trainer, whole).batches;
      sum += has;
      if (has > whole || (expected_.complete && has < whole)) {
        Violate(server, fmt::format("has {} of {} pushes of trainer {}", has, whole, trainer));
      }
    }
    CheckSum(server, sum);
  }

  void CheckLeased(const ServerRecord& server) {
    std::uint64_t sum = 0;
    for (const auto& [number, lease] : leases_.leases) {
      const std::uint64_t whole =
          DivideUp(lease.range.count, expected_.plan.batch * expected_.push_steps);
      const ServerRecord::Lease state = StateOf(server, number, whole);
      sum += state.batches;
      const bool missing = lease.finished && !state.finished;
      const bool told = server.last || expected_.complete;  // else its record may be older
      if (state.batches > whole || (state.finished && state.batches != whole) ||
          (missing && told)) {
        Violate(server, fmt::format("has {} of {} pushes of lease {}, which is {}finished",
                                    state.batches, whole, number, lease.finished ? "" : "not "));
      }
    }
    CheckSum(server, sum);
  }

  // Every push was of somebody who is known.
  void CheckSum(const ServerRecord& server, std::uint64_t sum) {
    if (server.pushes == sum) return;
    Violate(server, fmt::format("has applied {} pushes; those that are accounted for are {}",
                                server.pushes, sum));
  }

  // The coordinator may have died between knowing that a lease is finished and writing it down.
  void CheckAllDone() {
    for (const auto& [number, lease] : leases_.leases) {
      if (lease.finished) continue;
      const bool witnessed =
          !servers_.empty() && std::ranges::all_of(servers_, [&, n = number](const auto& server) {
            return StateOf(server, n, 0).finished;
          });
      if (witnessed) {
        notes_->push_back(
            fmt::format("lease {}: only the servers know that it is finished", number));
        continue;
      }
      violations_->Add(
          {.kind = "lease",
           .text = fmt::format("the run is complete, lease {} is not: {} of {} samples", number,
                               lease.done, lease.range.count),
           .file = "members.jsonl",
           .line = lease.line,
           .step = {},
           .generation = {}});
    }
  }

  const ExpectedPushes& expected_;
  const LeaseHistory& leases_;
  const std::vector<ServerRecord>& servers_;
  ViolationList* violations_;
  std::vector<std::string>* notes_;
};

}  // namespace

void CheckServers(const ExpectedPushes& expected, const LeaseHistory& leases,
                  const std::vector<ServerRecord>& servers, ViolationList* violations,
                  std::vector<std::string>* notes) {
  Checker(expected, leases, servers, violations, notes).Check();
}

}  // namespace paceline::job
