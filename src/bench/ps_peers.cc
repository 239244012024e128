#include "bench/ps_peers.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "bench/json_reader.h"

namespace paceline::bench {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPeerReady(30'000), kOneCall(60'000), kLookAtPeer(20);
constexpr int kNotInstalled = 127;
// One client for each line, which has further flags for it, to the port that is the first argument.
// Started by a process of its own: a fork of ours would make the first write to each page of our
// memory a fault, and that is part of what is measured next.
constexpr char kRunClients[] =
    "while read -r flags; do iperf3 --client 127.0.0.1 --port $0 --time 1 --json $flags; "
    "echo; echo ended; done";
constexpr char kClientEnded[] = "ended";

// The end of a process that could not be started is seen by whoever reads from it.
Status WhyNoAnswer(Subprocess& process, const std::string& name, const Status& status) {
  const auto ended = process.Wait(kLookAtPeer);
  if (ended.ok() && ended->code == kNotInstalled) {
    return Status::Error(Code::kNotFound, name + " is not installed");
  }
  return status.Wrap(name);
}

Result<JsonReader> ReadAnswer(Subprocess& process, const std::string& name, milliseconds timeout) {
  const auto line = process.ReadLine(timeout);
  if (!line.ok()) return WhyNoAnswer(process, name, line.status());
  return JsonReader::Parse(*line);
}

// Free now; iperf3 cannot choose one itself.
Result<std::uint16_t> FindFreePort() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket.get(), any, length) != 0 || ::getsockname(socket.get(), any, &length) != 0) {
    return Status::Error(Code::kUnavailable, "no free port");
  }
  return ntohs(address.sin_port);
}

}  // namespace

Result<GrpcPeer> GrpcPeer::Start(const std::string& program, std::size_t bytes) {
  if (::access(program.c_str(), X_OK) != 0) {
    return Status::Error(Code::kNotFound, "not built: libgrpc++-dev is not installed");
  }
  PACELINE_ASSIGN(Subprocess server,
                  Subprocess::Start({.argv = {program, "serve"}, .pipe_stdin = true}));
  PACELINE_ASSIGN(JsonReader serves, ReadAnswer(server, "gRPC's server", kPeerReady));
  const std::int64_t port = serves.Integer("port");
  PACELINE_TRY(serves.status());
  PACELINE_ASSIGN(
      Subprocess client,
      Subprocess::Start({.argv = {program, "call", std::to_string(port), std::to_string(bytes)},
                         .pipe_stdin = true}));
  PACELINE_TRY(ReadAnswer(client, "gRPC's client", kPeerReady).status());
  return GrpcPeer(std::move(server), std::move(client));
}

Result<double> GrpcPeer::Call(const std::string& what) {
  PACELINE_TRY(client_.WriteLine(what));
  PACELINE_ASSIGN(JsonReader answer, ReadAnswer(client_, "gRPC's client", kOneCall));
  const double seconds = answer.Number("seconds");
  PACELINE_TRY(answer.status());
  return seconds;
}

Result<IperfPeer> IperfPeer::Start() {
  PACELINE_ASSIGN(const std::uint16_t port, FindFreePort());
  auto server = Subprocess::Start({.argv = {"iperf3", "--server", "--bind", "127.0.0.1", "--port",
                                            std::to_string(port), "--logfile", "/dev/null"}});
  if (!server.ok()) return Status::Error(Code::kNotFound, "iperf3 is not installed");
  PACELINE_ASSIGN(Subprocess clients,
                  Subprocess::Start({.argv = {"sh", "-c", kRunClients, std::to_string(port)},
                                     .pipe_stdin = true}));
  IperfPeer peer(std::move(*server), std::move(clients));
  PACELINE_TRY(peer.BytesPerSecond(Pacing::kOfSystem).status());
  return peer;
}

// Its server says neither when it listens nor when it is done with the client before: whoever comes
// too early is refused and comes again.
Result<double> IperfPeer::BytesPerSecond(Pacing pacing) {
  const Instant deadline = SystemClock().Now() + kPeerReady;
  for (;;) {
    auto speed = RunClient(pacing);
    if (speed.ok()) return speed;
    const auto ended = server_.Wait(kLookAtPeer);
    if (ended.ok() && ended->code == kNotInstalled) {
      return Status::Error(Code::kNotFound, "iperf3 is not installed");
    }
    if (ended.ok() || SystemClock().Now() >= deadline) return speed.status().Wrap("iperf3");
  }
}

Result<double> IperfPeer::RunClient(Pacing pacing) {
  PACELINE_TRY(clients_.WriteLine(pacing == Pacing::kNone ? "--congestion reno" : ""));
  std::string text;
  for (;;) {
    PACELINE_ASSIGN(const std::string line, clients_.ReadLine(kOneCall));
    if (line == kClientEnded) break;
    text += line + "\n";
  }
  PACELINE_ASSIGN(JsonReader answer, JsonReader::Parse(text));
  const double bits = answer.Object("end").Object("sum_received").Number("bits_per_second");
  PACELINE_TRY(answer.status());
  if (bits <= 0) return Status::Error(Code::kUnavailable, "it has moved nothing");
  return bits / 8;
}

}  // namespace paceline::bench
