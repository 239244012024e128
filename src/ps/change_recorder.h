#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace paceline::ps {

// Which rows changed since a trainer asked before, for each trainer that asks (geo). In memory
// only: a server that comes back begins anew. Thread-safe.
class ChangeRecorder {
 public:
  // Nobody's list grows beyond `max_ids`.
  explicit ChangeRecorder(std::size_t max_ids = std::size_t{1} << 24) : max_ids_(max_ids) {}

  // After the rows were changed, never before: who takes an id then reads the new values.
  void Changed(std::uint32_t table, std::span<const std::int64_t> ids);

  struct Taken {
    bool restarted = false;         // what changed before is not known
    std::vector<std::int64_t> ids;  // ascending
  };
  // `call` is counted by the trainer. One that is not expected next begins the recording anew, as
  // does a list that became too long. When too many trainers record, nothing is recorded and every
  // call says `restarted`.
  Taken Take(std::uint64_t trainer, std::uint32_t table, std::uint64_t call);

 private:
  struct Recording {
    std::unordered_set<std::int64_t> ids;
    bool overflowed = false;
    std::uint64_t next_call = 0;
  };

  const std::size_t max_ids_;
  Mutex mutex_;
  // By table and trainer.
  std::map<std::pair<std::uint32_t, std::uint64_t>, Recording> recordings_
      PACELINE_GUARDED_BY(mutex_);
};

}  // namespace paceline::ps
