#include "job/elastic_group.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace paceline::job {

std::uint64_t BlamedRank(const Status& status) {
  constexpr std::string_view kRank = "rank ";
  const std::string text = status.message();
  const std::size_t at = text.rfind(kRank);
  if (status.code() != Code::kPeerLost || at == std::string::npos) return wire::Failure::kNobody;
  std::size_t i = at + kRank.size();
  std::uint64_t rank = 0;
  if (i >= text.size() || std::isdigit(static_cast<unsigned char>(text[i])) == 0) {
    return wire::Failure::kNobody;
  }
  for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0; ++i) {
    rank = rank * 10 + static_cast<std::uint64_t>(text[i] - '0');
  }
  return rank;
}

JsonObject SeatRecord(const wire::Assignment::Seat& seat, const algo::ShardLayout& layout) {
  return JsonObject()
      .Add("member", seat.member.value())
      .Add("rank", seat.at.rank.value())
      .Add("host", seat.at.host)
      .Add("pid", seat.pid)
      .Add("first_shard", layout.begin(seat.at.rank).value())
      .Add("end_shard", layout.end(seat.at.rank).value());
}

ElasticGroup::ElasticGroup(const ElasticOptions& options) : options_(options) {}

ElasticGroup::~ElasticGroup() = default;

// A new socket for every view: whoever still calls for an older one finds nobody.
Status ElasticGroup::Listen() {
  const std::string host = !options_.group.bind.empty()         ? options_.group.bind
                           : net::IsLoopback(coordinator_.host) ? "127.0.0.1"
                                                                : net::AddressTowards(coordinator_);
  PACELINE_ASSIGN(
      acceptor_,
      net::Acceptor::Listen(loop_, {.bind = {host, 0},
                                    .secret = options_.group.secret.value_or(net::Secret::Open()),
                                    .self = {wire::Role::kWorker, Rank(0)}}));
  return {};
}

Result<std::unique_ptr<ElasticGroup>> ElasticGroup::Join(const ElasticOptions& options,
                                                         const Clock& clock) {
  std::unique_ptr<ElasticGroup> group(new ElasticGroup(options));
  PACELINE_ASSIGN(group->coordinator_, net::ParseEndpoint(options.coordinator));
  PACELINE_TRY(group->Listen());
  PACELINE_ASSIGN(
      group->agent_,
      member::Agent::Join(
          group->loop_, clock,
          {.coordinator = group->coordinator_,
           .secret = options.group.secret.value_or(net::Secret::Open()),
           .self = {Rank(0), HostName(), group->acceptor_->endpoint().ToString(), MachineId()},
           .fingerprint = options.group.fingerprint,
           .join_deadline = std::chrono::steady_clock::now() + options.group.join_timeout}));
  return group;
}

Result<member::Directive> ElasticGroup::Next(const std::function<bool()>& interrupted) {
  for (;;) {
    member::Directive directive = agent_->AwaitView(options_.patience, interrupted);
    if (!directive.view) return directive;
    const Status entered = Enter(*directive.view);
    if (entered.ok()) return directive;
    PACELINE_LOG(Info, "generation {} failed to form: {}", directive.view->generation.value(),
                 entered.message());
    PACELINE_TRY(GiveUp(entered));
  }
}

Status ElasticGroup::Enter(const wire::Assignment& view) {
  const auto seat =
      std::ranges::find(view.seats, agent_->member(), &wire::Assignment::Seat::member);
  if (seat == view.seats.end()) {
    return Status::Error(Code::kProtocol, "the coordinator sent a view of others");
  }
  view_ = view;
  rank_ = seat->at.rank;
  stop_ = std::stop_source();
  agent_->WhenPaused([stop = stop_](const std::string&) mutable { stop.request_stop(); });
  GroupOptions options = options_.group;
  options.layout = algo::ShardLayout::Even(options_.shards, view.seats.size());
  if (options_.arena_bytes) options.arena_bytes = options_.arena_bytes(options.layout);
  PACELINE_ASSIGN(group_, Group::FromView(loop_, std::move(acceptor_), view.AsView(), rank_,
                                          options, stop_.get_token()));
  return {};
}

Status ElasticGroup::GiveUp(const Status& why) {
  const std::uint64_t blamed = BlamedRank(why);
  if (why.ok() && group_ != nullptr) {
    const Status left = group_->Leave();
    if (!left.ok()) PACELINE_LOG(Info, "leaving the view: {}", left.message());
  }
  group_.reset();  // the others notice
  PACELINE_TRY(Listen());
  agent_->Stop(acceptor_->endpoint().ToString(), blamed, why.message());
  return {};
}

}  // namespace paceline::job
