#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"
#include "store/state_store.h"

namespace paceline::store {

inline constexpr std::size_t kMaxLogBytes = std::size_t{64} << 20;  // a larger file is not ours

// A log of states in one file, the last of which counts; see docs/formats.md. `options` must be
// valid (OpenStateStore checks them). Refuses damage, except of a record that a crash cut off: that
// one is moved to PATH.broken with a warning. Locks by flock: one machine, or a file system that
// shares it.
Result<std::unique_ptr<StateStore>> OpenFileStore(const std::string& path,
                                                  const StateStoreOptions& options);

}  // namespace paceline::store
