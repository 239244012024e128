#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "algo/shard_layout.h"
#include "base/status.h"
#include "collective/engine.h"
#include "job/launch_environment.h"
#include "net/acceptor.h"
#include "net/loop.h"
#include "net/secret.h"
#include "wire/messages.h"

namespace paceline::job {

struct GroupOptions {
  LaunchEnvironment launch;
  // Somebody else runs the rendezvous at launch.coordinator (our launcher); else rank 0 does.
  bool coordinator_runs = false;
  std::optional<net::Secret> secret;  // nothing: only a job on loopback can do without
  std::string bind;                   // address to listen on; empty: where the coordinator sees us
  std::string engine = "native";      // or gloo, mpi
  algo::ShardLayout layout = algo::ShardLayout::Even(1, 1);
  bool shared_memory = true;
  std::size_t arena_bytes = 0;   // for Engine::Allocate
  std::size_t common_bytes = 0;  // for Engine::AllocateCommon
  std::chrono::milliseconds timeout{300'000};
  std::chrono::milliseconds join_timeout{60'000};
  std::string fingerprint;  // "key=value;...": must be equal on all ranks
  // Gives every rank the texts of all, by rank: how they meet when there is no coordinator. Without
  // it MPI does that.
  std::function<Result<std::vector<std::string>>(const std::string& mine)> exchange;
};

// The ranks of one job, connected: meets the others, builds the mesh and the engine, and takes all
// of it down. Thread-compatible.
class Group {
 public:
  // kTimeout names ranks that did not come, kMismatch what differs, kUnauthenticated a wrong
  // secret or none where one is needed.
  static Result<std::unique_ptr<Group>> Join(const GroupOptions& options);
  // The ranks of a view that somebody else has decided. `acceptor` listens at this rank's address;
  // `loop` outlives the group. `stop` ends the group at any time: kAborted.
  static Result<std::unique_ptr<Group>> FromView(net::Loop& loop,
                                                 std::unique_ptr<net::Acceptor> acceptor,
                                                 const wire::View& view, Rank self,
                                                 const GroupOptions& options,
                                                 const std::stop_token& stop);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  collective::Engine& engine();
  // "native: 4 ranks on 2 hosts" and the like, for people.
  const std::string& description() const;

  // The end that everybody expects: afterwards the others may go.
  Status Leave();
  // Ends the group for all ranks; they will name this one and the reason.
  void Abort(const Status& why);

 private:
  struct Parts;
  explicit Group(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

// This machine, as members of a group describe themselves.
std::string HostName();
std::string MachineId();

// From the environment: the secret of PACELINE_SECRET, PACELINE_SECRET_FILE, or the line on stdin
// that PACELINE_SECRET_STDIN=1 announces. Nothing when there is none.
Result<std::optional<net::Secret>> ReadSecret(const GetEnv& getenv);

}  // namespace paceline::job
