#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "net/acceptor.h"
#include "net/connection.h"
#include "net/loop.h"
#include "net/secret.h"
#include "wire/messages.h"

namespace paceline::net {

// A connection to every other rank of a view. When one of them breaks, the others are told whom to
// blame and closed: a group that has lost a rank is no group. Thread-safe.
class Mesh {
 public:
  struct Options {
    Secret secret = Secret::Open();
    Rank self;
    std::chrono::steady_clock::time_point deadline;
    std::stop_token stop;  // gives up early: kAborted
  };

  // Calls the ranks below, waits for those above. `acceptor` listens at the view's address of this
  // rank and must outlive the mesh. kTimeout names the ranks that are missing.
  static Result<std::unique_ptr<Mesh>> Connect(Loop& loop, Acceptor& acceptor,
                                               const wire::View& view, const Options& options);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  Rank self() const;
  std::uint64_t world() const;
  const wire::View& view() const;
  Connection& to(Rank rank);

  // Once, on the loop, when the mesh has failed (not when a rank has left politely); at once if it
  // has already.
  void WhenFailed(Connection::OnClosed on_failed);

  // Fails the mesh from this side and tells every rank why.
  void Abort(const wire::Failure& why);
  // Says good-bye to every rank.
  void Leave();

  std::uint64_t bytes_sent() const;
  std::uint64_t frames_sent() const;

 private:
  class Impl;
  explicit Mesh(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<Impl> impl_;
};

// "rank 3 (host, 10.0.0.1:4321)".
std::string MemberName(const wire::Member& member);

}  // namespace paceline::net
