#include "job/group.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <iostream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "collective/gloo_engine.h"
#include "collective/host_discovery.h"
#include "collective/mpi_engine.h"
#include "collective/native_engine.h"
#include "member/rendezvous.h"
#include "net/mesh.h"

namespace paceline::job {

namespace {

using Deadline = std::chrono::steady_clock::time_point;

// What MPI hands around so that the other engines can meet: where, and the secret.
struct Invitation {
  net::Endpoint coordinator;
  net::Secret secret;
};

std::string Encode(const Invitation& invitation) {
  return invitation.coordinator.ToString() + " " + invitation.secret.ToHex();
}

Result<Invitation> DecodeInvitation(const std::string& text) {
  const std::size_t space = text.find(' ');
  if (space == std::string::npos)
    return Status::Error(Code::kProtocol, "no invitation from rank 0");
  PACELINE_ASSIGN(const net::Endpoint endpoint, net::ParseEndpoint(text.substr(0, space)));
  PACELINE_ASSIGN(const net::Secret secret, net::Secret::FromHex(text.substr(space + 1)));
  return Invitation{endpoint, secret};
}

// Every rank's blob, through the mesh.
Result<std::vector<std::string>> ExchangeBlobs(net::Mesh& mesh, const std::string& mine,
                                               Deadline deadline) {
  std::vector<std::string> blobs(mesh.world());
  blobs[mesh.self().value()] = mine;
  const auto bytes = std::as_bytes(std::span(mine));
  for (std::uint64_t rank = 0; rank < mesh.world(); ++rank) {
    if (Rank(rank) == mesh.self()) continue;
    PACELINE_TRY(
        collective::SendMessage(mesh.to(Rank(rank)), wire::FrameType::kLocal, 3, bytes, deadline));
  }
  for (std::uint64_t rank = 0; rank < mesh.world(); ++rank) {
    if (Rank(rank) == mesh.self()) continue;
    PACELINE_ASSIGN(
        const std::vector<std::byte> theirs,
        collective::ReceiveMessage(mesh.to(Rank(rank)), wire::FrameType::kLocal, 3, deadline));
    blobs[rank].assign(reinterpret_cast<const char*>(theirs.data()), theirs.size());
  }
  return blobs;
}

}  // namespace

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// The same on everything that runs on one kernel since it was started, and nowhere else.
std::string MachineId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

// Destroyed from the last to the first: each uses those above it.
struct Group::Parts {
  explicit Parts(const GroupOptions& given) : options(given) {}

  GroupOptions options;
  bool mpi = false;
  std::optional<net::Loop> own_loop;
  net::Loop* loop = nullptr;
  std::unique_ptr<member::RendezvousServer> server;
  std::unique_ptr<net::Acceptor> acceptor;
  std::unique_ptr<net::Mesh> mesh;
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
  std::unique_ptr<collective::Engine> engine;
  std::string description;

  Status Connect();
  Status ConnectThroughMpi();
  Status MeetThroughExchange();
  Status MeetAt(const net::Endpoint& coordinator, const net::Secret& secret, bool serve);
  Status MakeEngine();
  std::string BindAddress(const net::Endpoint& coordinator) const;
  std::uint64_t world() const { return options.launch.world; }
};

Status Group::Parts::Connect() {
  const LaunchEnvironment& launch = options.launch;
  loop = &own_loop.emplace();
  if (world() == 1) return MeetAt({}, options.secret.value_or(net::Secret::Open()), true);
  if (options.exchange) return MeetThroughExchange();
  if (launch.coordinator.empty()) return ConnectThroughMpi();
  PACELINE_ASSIGN(const net::Endpoint coordinator, net::ParseEndpoint(launch.coordinator));
  return MeetAt(coordinator, options.secret.value_or(net::Secret::Open()),
                !options.coordinator_runs && launch.rank == Rank(0));
}

Status Group::Parts::ConnectThroughMpi() {
  PACELINE_ASSIGN(const auto bootstrap, collective::MpiBootstrap::Start());
  mpi = true;
  if (bootstrap.world() != world() || bootstrap.rank() != options.launch.rank) {
    return Status::Error(Code::kMismatch,
                         fmt::format("{} says rank {} of {}, MPI says rank {} of {}; give "
                                     "PACELINE_COORDINATOR=host:port",
                                     options.launch.source, options.launch.rank.value(), world(),
                                     bootstrap.rank().value(), bootstrap.world()));
  }
  options.exchange = [bootstrap](const std::string& mine) { return bootstrap.Exchange(mine); };
  return MeetThroughExchange();
}

// Rank 0 opens the meeting and invites the others.
Status Group::Parts::MeetThroughExchange() {
  const bool one_host = options.launch.local_world == world();
  std::string mine;
  if (options.launch.rank == Rank(0)) {
    PACELINE_ASSIGN(const net::Secret secret, options.secret ? Result<net::Secret>(*options.secret)
                                                             : net::Secret::Generate());
    const std::string host = !options.bind.empty() ? options.bind
                             : one_host            ? "127.0.0.1"
                                                   : net::AddressTowards({HostName(), 9});
    PACELINE_ASSIGN(server,
                    member::RendezvousServer::Start(*loop, {.bind = {host, 0},
                                                            .secret = secret,
                                                            .world = world(),
                                                            .timeout = options.join_timeout}));
    mine = Encode({server->endpoint(), secret});
  }
  PACELINE_ASSIGN(const std::vector<std::string> texts, options.exchange(mine));
  PACELINE_ASSIGN(const Invitation invitation, DecodeInvitation(texts.front()));
  return MeetAt(invitation.coordinator, invitation.secret, /*serve=*/false);
}

std::string Group::Parts::BindAddress(const net::Endpoint& coordinator) const {
  if (!options.bind.empty()) return options.bind;
  return net::IsLoopback(coordinator.host) ? "127.0.0.1" : net::AddressTowards(coordinator);
}

Status Group::Parts::MeetAt(const net::Endpoint& coordinator, const net::Secret& secret,
                            bool serve) {
  const Deadline deadline = std::chrono::steady_clock::now() + options.join_timeout;
  net::Endpoint meeting = coordinator;
  if (serve) {
    PACELINE_ASSIGN(server,
                    member::RendezvousServer::Start(*loop, {.bind = coordinator,
                                                            .secret = secret,
                                                            .world = world(),
                                                            .timeout = options.join_timeout}));
    meeting = server->endpoint();
  }
  PACELINE_ASSIGN(
      acceptor, net::Acceptor::Listen(*loop, {.bind = {BindAddress(coordinator), 0},
                                              .secret = secret,
                                              .self = {wire::Role::kWorker, options.launch.rank}}));
  const wire::Member self{options.launch.rank, HostName(), acceptor->endpoint().ToString(),
                          MachineId()};
  PACELINE_ASSIGN(const wire::View view,
                  member::JoinRendezvous(*loop, {.coordinator = meeting,
                                                 .secret = secret,
                                                 .join = {self, world(), options.fingerprint},
                                                 .deadline = deadline}));
  PACELINE_ASSIGN(
      mesh, net::Mesh::Connect(*loop, *acceptor, view, {secret, options.launch.rank, deadline}));
  return {};
}

Status Group::Parts::MakeEngine() {
  if (options.engine == "mpi") {
    PACELINE_ASSIGN(const auto bootstrap, collective::MpiBootstrap::Start());
    mpi = true;
    if (bootstrap.world() != world()) {
      return Status::Error(
          Code::kInvalidArgument,
          fmt::format("--engine mpi needs mpirun: MPI sees {} rank(s), the job has "
                      "{}",
                      bootstrap.world(), world()));
    }
    PACELINE_ASSIGN(engine, collective::MakeMpiEngine({.layout = options.layout}));
    description = fmt::format("engine mpi, {} ranks", world());
    return {};
  }
  if (options.engine == "gloo") {
    const std::string address =
        net::ParseEndpoint(mesh->view().members[mesh->self().value()].address)->host;
    PACELINE_ASSIGN(engine, collective::MakeGlooEngine(
                                {.rank = mesh->self(),
                                 .layout = options.layout,
                                 .address = address,
                                 .timeout = options.timeout,
                                 .bootstrap = [this](const std::string& mine) {
                                   return ExchangeBlobs(
                                       *mesh, mine,
                                       std::chrono::steady_clock::now() + options.join_timeout);
                                 }}));
    description = fmt::format("engine gloo, {} ranks", world());
    return {};
  }
  PACELINE_ASSIGN(engine,
                  collective::MakeNativeEngine(*mesh, {.layout = options.layout,
                                                       .timeout = options.timeout,
                                                       .setup_timeout = options.join_timeout,
                                                       .shared_memory = options.shared_memory,
                                                       .arena_bytes = options.arena_bytes,
                                                       .common_bytes = options.common_bytes}));
  description = collective::DescribeNative(*engine);
  return {};
}

Group::Group(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Group::~Group() = default;

Result<std::unique_ptr<Group>> Group::Join(const GroupOptions& options) {
  auto parts = std::make_unique<Parts>(options);
  if (options.engine != "mpi") PACELINE_TRY(parts->Connect());
  PACELINE_TRY(parts->MakeEngine());
  return std::unique_ptr<Group>(new Group(std::move(parts)));
}

Result<std::unique_ptr<Group>> Group::FromView(net::Loop& loop,
                                               std::unique_ptr<net::Acceptor> acceptor,
                                               const wire::View& view, Rank self,
                                               const GroupOptions& options,
                                               const std::stop_token& stop) {
  auto parts = std::make_unique<Parts>(options);
  parts->options.launch.world = view.members.size();
  parts->options.launch.rank = self;
  parts->loop = &loop;
  parts->acceptor = std::move(acceptor);
  PACELINE_ASSIGN(
      parts->mesh,
      net::Mesh::Connect(loop, *parts->acceptor, view,
                         {.secret = options.secret.value_or(net::Secret::Open()),
                          .self = self,
                          .deadline = std::chrono::steady_clock::now() + options.join_timeout,
                          .stop = stop}));
  parts->on_stop.emplace(stop, [mesh = parts->mesh.get()] {
    mesh->Abort({.code = Code::kAborted, .text = "the view ends"});
  });
  PACELINE_TRY(parts->MakeEngine());
  return std::unique_ptr<Group>(new Group(std::move(parts)));
}

collective::Engine& Group::engine() { return *parts_->engine; }

const std::string& Group::description() const { return parts_->description; }

Status Group::Leave() {
  Status together = parts_->engine->Barrier();
  if (parts_->mesh != nullptr) parts_->mesh->Leave();
  if (!parts_->mpi || !together.ok()) return together;
  parts_->engine.reset();
  return collective::MpiBootstrap::Finalize();
}

void Group::Abort(const Status& why) {
  if (parts_->engine != nullptr) parts_->engine->Abort(why);
}

Result<std::optional<net::Secret>> ReadSecret(const GetEnv& getenv) {
  if (const char* from_stdin = getenv("PACELINE_SECRET_STDIN");
      from_stdin != nullptr && std::string(from_stdin) == "1") {
    std::string line;
    std::getline(std::cin, line);
    auto secret = net::Secret::FromHex(line);
    if (!secret.ok()) return secret.status().Wrap("the secret on stdin");
    return std::optional(*secret);
  }
  auto secret = net::Secret::FromEnvironment(getenv);
  if (secret.ok()) return std::optional(*secret);
  if (secret.status().code() == Code::kNotFound) return std::optional<net::Secret>();
  return secret.status();
}

}  // namespace paceline::job
