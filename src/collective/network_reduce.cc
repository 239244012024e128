#include "collective/network_reduce.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "net/connection.h"
#include "wire/frame.h"

namespace paceline::collective {

using algo::Algorithm;
using algo::Exchange;
using algo::Goal;
using algo::PipelineStep;
using algo::Slice;
using algo::Transfer;
using What = algo::Transfer::What;

namespace {

// A message is cut into frames of at most this size: enough to make headers and system calls cheap.
constexpr std::size_t kFrameFloats = (std::size_t{4} << 20) / sizeof(float);

std::size_t FramesOf(std::size_t floats) { return (floats + kFrameFloats - 1) / kFrameFloats; }

bool Overlap(const Slice& a, const Slice& b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace

NetworkReduce::NetworkReduce(net::Mesh& mesh, const Options& options)
    : mesh_(mesh), options_(options) {}

NetworkReduce::Shape NetworkReduce::ShapeFor(std::size_t count, Goal goal) const {
  Shape shape;
  if (goal == Goal::kScatter) {
    shape.segment = count;  // each participant keeps one contiguous slice
  } else {
    shape.algorithm = algo::ChooseAlgorithm(options_.participants, count, options_.speed);
    // Messages to several participants share the link: the same bytes are under way.
    const std::size_t size = options_.participants.size();
    const bool direct = shape.algorithm == Algorithm::kDirect && size > 1;
    shape.segment = options_.segment_bytes / sizeof(float);
    if (direct) shape.segment = shape.segment / (size - 1) * size;
  }
  shape.segment = std::max<std::size_t>(1, std::min(shape.segment, count));
  shape.segments = (count + shape.segment - 1) / shape.segment;
  return shape;
}

// A partial result is one half of what the exchange makes; whose half follows from who is first.
TreeSum& NetworkReduce::SumFor(Algorithm algorithm, std::size_t index, const Exchange& exchange) {
  const auto found = sums_.find({algorithm, index});
  if (found != sums_.end()) return found->second;
  std::vector<algo::TreeNode> known;
  const auto add = [&](std::size_t participant, What what, bool first) {
    if (what == What::kResult) {
      known.push_back(first ? exchange.into.Left() : exchange.into.Right());
      return;
    }
    const auto& nodes = options_.participants.nodes[participant];
    known.insert(known.end(), nodes.begin(), nodes.end());
  };
  const What what = exchange.receives.empty() ? What::kParts : exchange.receives.front().what;
  const std::size_t self = options_.self;
  add(self, what, !exchange.receives.empty() && self < exchange.receives.front().peer);
  for (const Transfer& receive : exchange.receives) add(receive.peer, what, receive.peer < self);
  return sums_.emplace(std::pair(algorithm, index), TreeSum(exchange.into, known)).first->second;
}

// One call. Messages of one connection are started in the same order on both sides.
class NetworkReduce::Run {
 public:
  Run(NetworkReduce& owner, std::span<float* const> parts, std::size_t count, Shape shape,
      Goal goal, std::uint64_t operation, std::chrono::steady_clock::time_point deadline)
      : owner_(owner),
        options_(owner.options_),
        parts_(parts),
        shape_(shape),
        operation_(operation),
        deadline_(deadline) {
    for (const std::size_t size : {shape.segment, shape.SizeOf(shape.segments - 1, count)}) {
      plans_.push_back(
          algo::PlanReduction(shape.algorithm, options_.participants, options_.self, size, goal));
    }
  }

  Status Execute() {
    Status status;
    for (const PipelineStep& step :
         algo::PipelineOrder(shape_.segments, plans_[0].size(), options_.ahead)) {
      if (step.kind == PipelineStep::Kind::kStart) {
        Start(step);
      } else {
        status = Complete(step);
      }
      if (!status.ok()) break;
    }
    for (auto flight = flights_.begin(); flight != flights_.end() && status.ok(); ++flight) {
      status = AwaitSends(**flight);
    }
    if (!status.ok()) Fail(status);
    for (auto& flight : flights_) GiveBack(*flight);
    return status;
  }

 private:
  // What is under way for one exchange of one segment.
  struct Flight {
    std::size_t segment = 0, exchange = 0;
    std::deque<std::pair<std::size_t, net::Completion>> sends, receives;  // with the peer
    std::vector<std::vector<float>> arrived;  // of each receive, part after part; if it is added
    bool completed = false;
  };

  const Exchange& ExchangeOf(const PipelineStep& step) const {
    return plans_[step.segment + 1 == shape_.segments ? 1 : 0][step.exchange];
  }

  std::size_t PartsOf(std::size_t participant, What what) const {
    return what == What::kParts ? options_.participants.nodes[participant].size() : 1;
  }

  std::uint64_t Tag(const Flight& flight, std::size_t frame) const {
    return operation_ << 40 | std::uint64_t{flight.segment} << 20 |
           std::uint64_t{flight.exchange} << 14 | frame;
  }

  net::Connection& To(std::size_t participant) {
    return owner_.mesh_.to(options_.ranks[participant]);
  }

  void Start(const PipelineStep& step) {
    const Exchange& exchange = ExchangeOf(step);
    flights_.push_back(std::make_unique<Flight>());
    Flight& flight = *flights_.back();
    flight.segment = step.segment;
    flight.exchange = step.exchange;
    const std::size_t base = step.segment * shape_.segment;
    flight.arrived.reserve(exchange.receives.size());
    for (const Transfer& receive : exchange.receives) StartReceive(flight, receive, exchange, base);
    for (const Transfer& send : exchange.sends) {
      std::size_t frame = 0;
      for (std::size_t part = 0; part < PartsOf(options_.self, send.what); ++part) {
        SendArray(flight, send.peer, parts_[part] + base + send.slice.begin, send.slice.size(),
                  frame);
      }
    }
  }

  void SendArray(Flight& flight, std::size_t peer, const float* from, std::size_t count,
                 std::size_t& frame) {
    for (std::size_t at = 0; at < count; at += kFrameFloats) {
      const std::span<const float> piece(from + at, std::min(kFrameFloats, count - at));
      net::Completion& done = Add(flight.sends, peer);
      To(peer).Send(wire::FrameType::kData, Tag(flight, frame++), std::as_bytes(piece),
                    done.ForSend());
    }
  }

  void StartReceive(Flight& flight, const Transfer& receive, const Exchange& exchange,
                    std::size_t base) {
    const std::size_t parts = PartsOf(receive.peer, receive.what);
    float* into = parts_[0] + base + receive.slice.begin;
    if (exchange.reduce.size() > 0) {
      flight.arrived.push_back(owner_.TakeScratch(parts * receive.slice.size()));
      into = flight.arrived.back().data();
    }
    std::size_t frame = 0;
    for (std::size_t part = 0; part < parts; ++part) {
      for (std::size_t at = 0; at < receive.slice.size(); at += kFrameFloats) {
        const std::span<float> piece(into + part * receive.slice.size() + at,
                                     std::min(kFrameFloats, receive.slice.size() - at));
        net::Completion& done = Add(flight.receives, receive.peer);
        To(receive.peer)
            .Receive({.tag = Tag(flight, frame++)}, std::as_writable_bytes(piece),
                     done.ForReceive());
      }
    }
  }

  static net::Completion& Add(std::deque<std::pair<std::size_t, net::Completion>>& list,
                              std::size_t peer) {
    list.emplace_back(std::piecewise_construct, std::forward_as_tuple(peer),
                      std::forward_as_tuple());
    return list.back().second;
  }

  Status Complete(const PipelineStep& step) {
    const auto found = std::find_if(flights_.begin(), flights_.end(), [&](const auto& flight) {
      return flight->segment == step.segment && flight->exchange == step.exchange;
    });
    PACELINE_CHECK(found != flights_.end(), "started before it is completed");
    Flight& flight = **found;
    PACELINE_TRY(Await(flight.receives));
    const Exchange& exchange = ExchangeOf(step);
    if (exchange.reduce.size() > 0) {
      // What is still being sent must not be overwritten by the sum.
      const bool sent_from =
          std::any_of(exchange.sends.begin(), exchange.sends.end(),
                      [&](const Transfer& send) { return Overlap(send.slice, exchange.reduce); });
      if (sent_from) PACELINE_TRY(AwaitSends(flight));
      Reduce(flight, exchange);
    }
    flight.completed = true;
    return {};
  }

  void Reduce(Flight& flight, const Exchange& exchange) {
    const std::size_t size = exchange.reduce.size();
    float* target = parts_[0] + flight.segment * shape_.segment + exchange.reduce.begin;
    std::vector<const float*> sources;
    const What what = exchange.receives.empty() ? What::kParts : exchange.receives.front().what;
    for (std::size_t part = 0; part < PartsOf(options_.self, what); ++part) {
      sources.push_back(parts_[part] + flight.segment * shape_.segment + exchange.reduce.begin);
    }
    for (std::size_t i = 0; i < exchange.receives.size(); ++i) {
      for (std::size_t part = 0; part < PartsOf(exchange.receives[i].peer, what); ++part) {
        sources.push_back(flight.arrived[i].data() + part * size);
      }
    }
    float* const targets[] = {target};
    owner_.SumFor(shape_.algorithm, flight.exchange, exchange).Run(sources, targets, size);
    GiveBack(flight);
  }

  void GiveBack(Flight& flight) {
    for (auto& buffer : flight.arrived) owner_.scratch_.push_back(std::move(buffer));
    flight.arrived.clear();
  }

  Status AwaitSends(Flight& flight) { return Await(flight.sends); }

  Status Await(std::deque<std::pair<std::size_t, net::Completion>>& list) {
    while (!list.empty()) {
      auto& [peer, completion] = list.front();
      Status status = completion.Wait(deadline_);
      if (status.code() == Code::kTimeout) {
        late_ = options_.ranks[peer].value();
        return Status::Error(Code::kTimeout, fmt::format("rank {} took too long", *late_));
      }
      list.pop_front();
      if (!status.ok()) return status;
    }
    return {};
  }

  // Nothing may still be reading from or writing to the caller's memory when we return.
  void Fail(const Status& status) {
    owner_.mesh_.Abort({.code = status.code(),
                        .blamed = late_.value_or(wire::Failure::kNobody),
                        .text = status.message()});
    for (auto& flight : flights_) {
      for (auto* list : {&flight->sends, &flight->receives}) {
        for (auto& [peer, completion] : *list) completion.WaitWithoutDeadline();
      }
    }
  }

  NetworkReduce& owner_;
  const Options& options_;
  std::span<float* const> parts_;
  Shape shape_;
  std::uint64_t operation_;
  std::chrono::steady_clock::time_point deadline_;
  std::vector<std::vector<Exchange>> plans_;  // of a full segment, and of the last one
  std::vector<std::unique_ptr<Flight>> flights_;
  std::optional<std::uint64_t> late_;
};

std::vector<float> NetworkReduce::TakeScratch(std::size_t floats) {
  std::vector<float> buffer;
  if (!scratch_.empty()) {
    buffer = std::move(scratch_.back());
    scratch_.pop_back();
  }
  if (buffer.size() < floats) buffer.resize(floats);
  return buffer;
}

Status NetworkReduce::AllReduce(std::span<float* const> parts, std::size_t count,
                                std::uint64_t operation,
                                std::chrono::steady_clock::time_point deadline) {
  if (count == 0) return {};
  return Run(*this, parts, count, ShapeFor(count, Goal::kEverywhere), Goal::kEverywhere, operation,
             deadline)
      .Execute();
}

Status NetworkReduce::ReduceScatter(std::span<float* const> parts, std::size_t count,
                                    std::uint64_t operation,
                                    std::chrono::steady_clock::time_point deadline) {
  if (count == 0) return {};
  return Run(*this, parts, count, ShapeFor(count, Goal::kScatter), Goal::kScatter, operation,
             deadline)
      .Execute();
}

Traffic NetworkReduce::Predict(std::size_t count) const {
  Traffic traffic;
  if (count == 0) return traffic;
  const Shape shape = ShapeFor(count, Goal::kEverywhere);
  for (std::size_t segment = 0; segment < shape.segments; ++segment) {
    const auto plan = algo::PlanReduction(shape.algorithm, options_.participants, options_.self,
                                          shape.SizeOf(segment, count));
    for (const Exchange& exchange : plan) {
      for (const Transfer& send : exchange.sends) {
        const std::size_t parts =
            send.what == What::kParts ? options_.participants.nodes[options_.self].size() : 1;
        const std::size_t frames = parts * FramesOf(send.slice.size());
        traffic.frames_sent += frames;
        traffic.bytes_sent +=
            frames * wire::kHeaderBytes + parts * send.slice.size() * sizeof(float);
      }
    }
  }
  return traffic;
}

}  // namespace paceline::collective
