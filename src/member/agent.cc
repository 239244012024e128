#include "member/agent.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/resident_memory.h"
#include "base/thread.h"
#include "net/acceptor.h"
#include "wire/endian.h"

namespace paceline::member {

namespace {

using std::chrono::steady_clock;

constexpr std::size_t kMaxMessageOfCoordinator = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kConnectSlice(1'000), kBetweenTries(50), kAnswerTime(1'000);

// The coordinator has looked at us and will not have us.
bool Final(Code code) {
  return code == Code::kMismatch || code == Code::kUnauthenticated || code == Code::kFenced ||
         code == Code::kAlreadyRunning;
}

}  // namespace

Agent::Agent(net::Loop& loop, const Clock& clock, const AgentOptions& options,
             std::uint64_t incarnation)
    : loop_(loop),
      clock_(clock),
      options_(options),
      logic_(options.self, incarnation, static_cast<std::uint64_t>(::getpid()),
             options.fingerprint) {
  logic_.SetSamples(options.samples);
}

Result<std::unique_ptr<Agent>> Agent::Join(net::Loop& loop, const Clock& clock,
                                           const AgentOptions& options) {
  PACELINE_ASSIGN(const wire::Nonce nonce, net::MakeNonce());
  std::unique_ptr<Agent> agent(new Agent(loop, clock, options, wire::LoadU64(nonce.data())));
  agent->thread_ =
      StartThread("agent", [raw = agent.get()](const std::stop_token& stop) { raw->Run(stop); });
  const std::string where = "joining the run at " + options.coordinator.ToString();
  const MutexLock lock(agent->mutex_);
  while (!agent->logic_.registered()) {
    if (!agent->refused_.ok()) return agent->refused_.Wrap(where);
    if (agent->changed_.wait_until(agent->mutex_, options.join_deadline) ==
            std::cv_status::timeout &&
        !agent->logic_.registered()) {
      return Status::Error(Code::kTimeout, where + ": the coordinator does not answer");
    }
  }
  return agent;
}

Agent::~Agent() {
  thread_.request_stop();
  changed_.notify_all();
  thread_.join();
}

void Agent::Run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const Status connected = Connect(stop);
    if (connected.ok()) Converse(stop);
    if (Final(connected.code())) Refused(connected);
    const MutexLock lock(mutex_);
    if (!refused_.ok() || logic_.release()) {
      changed_.notify_all();
      return;
    }
    changed_.wait_for(mutex_, stop, kBetweenTries, [] { return false; });
  }
}

Result<std::unique_ptr<net::Connection>> Agent::OpenConnection(const std::stop_token& stop) const {
  return net::ConnectTo(loop_, options_.coordinator, "the coordinator",
                        {.secret = options_.secret,
                         .self = {wire::Role::kWorker, Rank(0)},
                         .context = {},
                         .deadline = steady_clock::now() + kConnectSlice,
                         .stop = stop,
                         .once = true});
}

Status Agent::Connect(const std::stop_token& stop) {
  const Instant tried = clock_.Now();
  auto connection = OpenConnection(stop);
  const MutexLock lock(mutex_);
  if (connection.status().code() == Code::kNotFound) logic_.OnRefused(tried);
  if (!connection.ok()) return connection.status();
  connection_ = std::move(*connection);
  Send(logic_.OnConnected(clock_.Now()));
  for (const wire::Control& again : logic_.Outstanding()) Send(again);
  return {};
}

// Until the connection ends: receives, and says in time that we are alive.
void Agent::Converse(const std::stop_token& stop) {
  net::Connection* connection = nullptr;
  {
    const MutexLock lock(mutex_);
    connection = connection_.get();
  }
  Status status;
  {
    const std::stop_callback closing(stop, [&] { connection->Leave(); });
    status = ReceiveAll(*connection, stop);
  }
  PACELINE_LOG(Info, "the connection to the coordinator ended: {}", status.message());
  {
    const MutexLock lock(mutex_);
    logic_.OnClosed();
    connection_.reset();
    changed_.notify_all();
  }
  if (Final(status.code())) Refused(status);
}

// For good. Whoever works in a view may be waiting for ranks that have long gone on without it.
void Agent::Refused(const Status& why) {
  std::function<void(const std::string&)> call;
  {
    const MutexLock lock(mutex_);
    if (refused_.ok()) refused_ = why;
    call = std::exchange(on_pause_, nullptr);
    changed_.notify_all();
  }
  if (call) call(why.message());
}

// After the network was away, a new connection works at once, while the kernel waits longer and
// longer before it tries the old one again. The old one is kept as long as no new one works: a
// coordinator that only slept must not take us for dead.
bool Agent::AnswersElsewhere(const std::stop_token& stop) {
  {
    const MutexLock lock(mutex_);
    if (!logic_.Unheard(clock_.Now())) return false;
  }
  return OpenConnection(stop).ok();
}

Status Agent::ReceiveAll(net::Connection& connection, const std::stop_token& stop) {
  std::vector<std::byte> buffer(kMaxMessageOfCoordinator);
  net::Completion received;
  steady_clock::time_point next_beat = steady_clock::now();
  for (;;) {
    received.Reset();
    connection.Receive({.type = wire::FrameType::kControl, .exact = false}, buffer,
                       received.ForReceive());
    Status status = received.Wait(next_beat);
    while (status.code() == Code::kTimeout) {
      const bool elsewhere = AnswersElsewhere(stop);
      next_beat = steady_clock::now() + (elsewhere ? kAnswerTime : Heartbeat());
      status = received.Wait(next_beat);
      if (status.code() == Code::kTimeout && elsewhere) {
        connection.Abort({.code = Code::kTimeout, .text = "no answer on this connection"});
        received.WaitWithoutDeadline();
        return Status::Error(Code::kPeerLost, "the network was away; connecting anew");
      }
    }
    PACELINE_TRY(status);
    auto message = wire::DecodeControl(std::span(buffer).first(received.bytes()));
    if (!message.ok()) {
      connection.Abort({.code = Code::kProtocol, .text = message.status().message()});
      return message.status();
    }
    Handle(*message);
  }
}

void Agent::Handle(const wire::Control& message) {
  std::function<void(const std::string&)> call;
  std::string why;
  {
    const MutexLock lock(mutex_);
    logic_.OnControl(message);
    if (logic_.pause_now() || logic_.release()) {
      call = std::exchange(on_pause_, nullptr);
      why = logic_.release() ? logic_.release()->why : logic_.pause_why();
    }
    changed_.notify_all();
  }
  if (call) call(why);
}

// Returns the time until the next one.
std::chrono::milliseconds Agent::Heartbeat() {
  const std::uint64_t rss = ResidentBytes();
  const MutexLock lock(mutex_);
  logic_.SetRss(rss);
  if (logic_.registered()) Send(logic_.MakeHeartbeat(clock_.Now()));
  return logic_.heartbeat();
}

void Agent::Send(const wire::Control& message) {
  if (connection_ == nullptr) return;  // said again when there is one
  auto bytes = std::make_shared<std::vector<std::byte>>(wire::EncodeControl(message));
  connection_->Send(wire::FrameType::kControl, 0, *bytes, [bytes](const Status&) {});
}

MemberId Agent::member() const {
  const MutexLock lock(mutex_);
  return logic_.member();
}

void Agent::SetReady() {
  const MutexLock lock(mutex_);
  logic_.SetReady();
  Send(wire::Ready{});
}

// Until `told`, called under the lock, has found what it waits for.
Directive Agent::Await(const std::function<bool(Directive&)>& told,
                       std::chrono::milliseconds patience,
                       const std::function<bool()>& interrupted) {
  steady_clock::time_point last_contact = steady_clock::now();
  for (;;) {
    const bool give_up = interrupted();  // may call us: not under the lock
    const MutexLock lock(mutex_);
    if (logic_.release()) return {.release = logic_.release()};
    if (!refused_.ok()) {
      return {.release = wire::Release{refused_.code(), false, refused_.message()}};
    }
    if (Directive found; told(found)) return found;
    if (give_up) return {.release = wire::Release{Code::kAborted, false, "interrupted"}};
    const auto now = steady_clock::now();
    if (logic_.connected()) last_contact = now;
    if (now - last_contact >= patience) {
      return {.release = wire::Release{Code::kUnavailable, false, "the coordinator stays away"}};
    }
    changed_.wait_for(mutex_, kBetweenTries);
  }
}

Directive Agent::AwaitView(std::chrono::milliseconds patience,
                           const std::function<bool()>& interrupted) {
  const auto told = [this](Directive& found) PACELINE_REQUIRES(mutex_) {
    found.view = logic_.TakeView();
    return found.view.has_value();
  };
  return Await(told, patience, interrupted);
}

std::optional<wire::Assignment> Agent::TakeView() {
  const MutexLock lock(mutex_);
  return logic_.TakeView();
}

Result<std::optional<wire::LeaseGrant>> Agent::AwaitLease(
    std::chrono::milliseconds patience, const std::function<bool()>& interrupted) {
  {
    const MutexLock lock(mutex_);
    Send(logic_.WantLease());
  }
  const auto told = [this](Directive& found) PACELINE_REQUIRES(mutex_) {
    found.lease = logic_.TakeLease();
    return found.lease.has_value();
  };
  const Directive directive = Await(told, patience, interrupted);
  if (directive.lease) return directive.lease;
  if (directive.release->code == Code::kOk) return std::optional<wire::LeaseGrant>();
  return Status::Error(directive.release->code, directive.release->why);
}

void Agent::Advance(std::uint64_t done) {
  const MutexLock lock(mutex_);
  Send(logic_.Advance(done));
}

void Agent::Stop(const std::string& address, std::uint64_t blamed, const std::string& why) {
  const MutexLock lock(mutex_);
  on_pause_ = nullptr;
  logic_.SetAddress(address);
  Send(logic_.Stop(blamed, why));
}

void Agent::WhenPaused(std::function<void(const std::string&)> on_pause) {
  std::string why;
  {
    const MutexLock lock(mutex_);
    if (!logic_.pause_now() && !logic_.release() && refused_.ok()) {
      on_pause_ = std::move(on_pause);
      return;
    }
    why = refused_.ok() ? logic_.pause_why() : refused_.message();
  }
  on_pause(why);
}

bool Agent::WantsStepEnd() const {
  const MutexLock lock(mutex_);
  return logic_.pause_at_step_end();
}

Status Agent::AwaitMayCommit() {
  const MutexLock lock(mutex_);
  for (;;) {
    if (!refused_.ok()) return Status::Error(Code::kFenced, refused_.message());
    if (logic_.release()) return Status::Error(Code::kAborted, logic_.release()->why);
    if (logic_.pause_now()) return Status::Error(Code::kAborted, logic_.pause_why());
    if (logic_.MayCommit(clock_.Now())) return {};
    changed_.wait_for(mutex_, kBetweenTries);
  }
}

void Agent::Commit(Step next_step) {
  const MutexLock lock(mutex_);
  logic_.Commit(next_step);
}

bool Agent::Trusted() const {
  const MutexLock lock(mutex_);
  return logic_.Trusted(clock_.Now());
}

void Agent::SetPhase(const char* phase) {
  const MutexLock lock(mutex_);
  logic_.SetPhase(phase, clock_.Now());
}

void Agent::Leave() {
  const MutexLock lock(mutex_);
  logic_.SetLeaving();
  Send(wire::Leaving{});
}

void Agent::Finish(const wire::Finished& finished) {
  const MutexLock lock(mutex_);
  logic_.SetFinished(finished);
  Send(finished);
  // Without a coordinator nobody is left to tell; the records say it.
  while (!logic_.release() && refused_.ok() && logic_.connected()) changed_.wait(mutex_);
}

void Agent::CutOff(std::chrono::milliseconds duration) {
  loop_.Post([duration] { std::this_thread::sleep_for(duration); });
}

}  // namespace paceline::member
