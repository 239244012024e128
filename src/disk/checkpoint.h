#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "disk/checkpoint_layout.h"
#include "disk/checkpoint_reader.h"
#include "disk/checkpoint_writer.h"
#include "disk/file_system.h"
#include "disk/manifest.h"

namespace paceline::disk {

enum class Access {
  kOwner,     // the one process that holds the RunLock: saves, tidies up, sets damage aside
  kReadOnly,  // everybody else: loads and changes nothing
};

struct CheckpointStoreOptions {
  std::string cluster_id;  // a checkpoint of another cluster is refused; empty: any, cannot save
  int keep = 3;            // generations on disk; never fewer than 2
  Access access = Access::kOwner;
};

// The checkpoints of one run below one root directory. A generation is either complete or not
// there: a crash or a disk error at any instant leaves the one before it loadable.
// Thread-compatible. Borrows `fs`, which must outlive it. Does not lock the root (RunLock), does
// not retry and does not decide what a failed save means for the run.
class CheckpointStore {
 public:
  CheckpointStore(FileSystem& fs, std::string root, CheckpointStoreOptions options);

  // Writes the next generation and returns its number once it is durable and was read back; only
  // then removes generations beyond `keep`. On kDisk nothing older has been lost, and the
  // generation may exist (if it does, it is complete) or not; the next Save starts afresh.
  // kInvalidArgument when the input cannot be written.
  Result<Generation> Save(const CheckpointMeta& meta, std::span<const CheckpointFile> files);

  // Names a generation that is there the best one of the run, in the place of the one before: from
  // now on it is kept beside the newest ones.
  Status MarkBest(Generation generation);

  // The newest generation that verifies. As owner, removes what dead saves left behind and
  // renames damaged generations to *.broken. kNotFound: there was never a checkpoint;
  // kBadCheckpoint: there are some, all damaged; kMismatch: of another cluster or by a newer
  // program; kDisk: could not be read.
  Result<LoadedCheckpoint> LoadNewest();

  // The generation that MarkBest named last; changes nothing. kNotFound: it never named one;
  // kBadCheckpoint: what it named is damaged or not there; kMismatch and kDisk as above.
  Result<LoadedCheckpoint> LoadBest();

 private:
  std::string Path(const std::string& name) const { return root_ + "/" + name; }
  // A name in the root that LoadNewest removes if nobody else does.
  std::string TemporaryPath(const std::string& purpose);

  Status MakeRoot();
  Result<RootLayout> Scan();
  Status Commit(const std::string& temporary, const CheckpointMeta& meta,
                std::span<const CheckpointFile> files);
  Status WritePointer(const char* name, Generation generation);
  Status VerifyNew(const RootLayout& before, Generation generation);
  Result<std::optional<Generation>> ReadBest();
  Status RemoveOld(const RootLayout& before);
  Result<LoadedCheckpoint> LoadGeneration(const GenerationEntry& entry);
  Status SetAside(const RootLayout& layout, Generation generation);

  FileSystem& fs_;
  const std::string root_;
  const CheckpointStoreOptions options_;
  std::uint64_t temporaries_ = 0;
};

}  // namespace paceline::disk
