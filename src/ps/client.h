#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "net/secret.h"
#include "ps/job_spec.h"
#include "ps/protocol.h"
#include "ps/server_link.h"
#include "ps/store.h"

namespace paceline::ps {

struct ClientOptions {
  std::vector<net::Endpoint> servers;
  net::Secret secret = net::Secret::Open();
  std::uint64_t trainer = 0;
  JobSpec job;
  std::chrono::milliseconds away{60'000};  // how long a server may be unreachable
  bool shared_memory = true;               // with servers of this host
  // Then pulls that wait for other trainers are kAborted, and so is what waits for acknowledgements
  // of pushes for longer than `stop_grace`.
  std::function<bool()> stopped = nullptr;
  std::chrono::milliseconds stop_grace{5'000};
};

// The parameters of a job on its servers: rows by id, dense tensors in blocks. Every push goes to
// every server, also when it holds nothing for it: servers count. While a server is away, calls
// wait for it. Thread-safe as Store says.
class Client : public Store {
 public:
  // kMismatch when a server belongs to another job, kTimeout when one cannot be reached.
  static Result<std::unique_ptr<Client>> Connect(net::Loop& loop, const ClientOptions& options);

  Status Initialise(std::span<const float> dense) override;
  Result<std::uint64_t> NextBatch(std::uint64_t lease) override;
  Status Announce(const PullRequest& request) override;
  Result<PullAnswer> Pull(const PullRequest& request) override;
  Result<PullAnswer> PullArriving(const PullRequest& request, const TakeDense& take) override;
  Status Push(const ps::Push& push, std::span<const std::uint64_t> pulled) override;
  Result<std::unique_ptr<OpenPush>> Open(const ps::Push& push,
                                         std::span<const std::uint64_t> pulled) override;
  void SaveWithNextPush() override { save_ = true; }
  Status Flush() override;
  std::uint64_t Acknowledged(std::uint64_t lease) override;
  Result<ChangedRows> PullChanged(std::uint64_t trainer, std::uint32_t table,
                                  std::uint64_t call) override;

 private:
  class SplitPush;

  // Which ids of a list go to one server. A single server gets the list itself: nothing is copied.
  struct Share {
    bool whole = false;
    std::span<const std::int64_t> ids;  // the list, or `own`
    std::vector<std::int64_t> own;
    std::vector<std::size_t> places;  // of `own` in the list
  };
  // Where a pull finds the dense floats of one server.
  enum class DenseFrom {
    kNowhere,  // they were not asked for
    kAnswer,
    kMemory,  // that the server shares
  };
  // What one server is asked for in the current pull.
  struct Part {
    std::vector<Share> shares;  // by RowsWanted
    std::size_t rows = 0;       // floats of them
    DenseFrom dense = DenseFrom::kNowhere;
  };

  // A pull that the servers know of, and nobody has taken the answer.
  struct Announced {
    PullRequest request;
    std::vector<Part> parts;  // by server
  };

  explicit Client(const ClientOptions& options);
  std::size_t Dim(std::uint32_t table) const { return job_.tables[table].options.dim; }
  std::vector<Share> Split(std::span<const std::int64_t> ids) const;
  std::vector<Part> SplitPull(const PullRequest& request) const;
  Result<std::vector<Part>> AskForPull(const PullRequest& request) PACELINE_REQUIRES(asking_);
  static void Scatter(std::span<const float> from, const Share& share, std::size_t dim,
                      std::span<float> to);
  std::uint64_t DenseFloatsOf(std::size_t server) const;
  static PullCall CallOf(const PullRequest& request, const Part& part);
  Result<bool> AwaitPulled(std::size_t server, const PullRequest& request, const Part& part,
                           PullAnswer& answer);
  Result<PulledNumbers> AwaitArriving(std::size_t server, const TakeDense& take);
  // What is said to one server, and with which dense floats.
  using PushOne = std::function<Status(std::size_t server, const ps::Push& push)>;
  Status ForEachShare(const ps::Push& push, std::span<const std::uint64_t> pulled,
                      const PushOne& use);

  const JobSpec job_;
  std::vector<std::unique_ptr<ServerLink>> links_;
  std::vector<std::vector<DensePiece>> pieces_;  // by server
  Mutex asking_;                                 // one request after the other
  std::optional<Announced> announced_ PACELINE_GUARDED_BY(asking_);
  std::atomic<bool> save_ = false;  // the next push says so
};

}  // namespace paceline::ps
