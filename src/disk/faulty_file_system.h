#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "disk/file_system.h"

namespace paceline::disk {

// What goes wrong, and at which operation (the first is number 1).
struct FaultPlan {
  enum class Action {
    kNone,
    kKillBefore,  // SIGKILL to ourselves instead of the operation
    kKillAfter,   // SIGKILL once it is done
    kKillTorn,    // a write stops half way, then SIGKILL; anything else: as kKillAfter
    kFail,        // returns `error` instead of the operation
    kFailFrom,    // the same for this and every later operation
    kShortWrite,  // a write stops half way and returns `error`; anything else: as kFail
  };
  Action action = Action::kNone;
  std::uint64_t at = 0;
  int error = 0;
};

// "kill-before=7", "kill-after=7", "kill-torn=7", "fail=7:ENOSPC", "fail-from=7:EIO",
// "short-write=7:ENOSPC", or "" for none. kInvalidArgument names what it does not understand.
Result<FaultPlan> ParseFaultPlan(std::string_view text);

// Passes every operation on to another file system and carries out a plan on the way. Operations
// are counted over all files in the order in which they start. Thread-safe. Borrows `base`, which
// must outlive it and its files. Does not lose data that was not synced: the kernel of a killed
// process keeps it. Order of syncs is checked through `observer`, which sees "rename a to b" before
// each operation.
class FaultyFileSystem final : public FileSystem {
 public:
  using Observer = std::function<void(const std::string&)>;

  FaultyFileSystem(FileSystem& base, FaultPlan plan, Observer observer = nullptr);
  ~FaultyFileSystem() override;

  std::uint64_t operations() const;  // started so far

  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                      ReadBack reads) override;
  Status SyncDir(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status MakeDir(const std::string& path) override;
  Status RemoveAll(const std::string& path) override;
  Result<bool> Exists(const std::string& path) override;
  Result<std::vector<DirEntry>> List(const std::string& path) override;
  Result<std::uint64_t> Size(const std::string& path) override;
  Result<std::size_t> ReadAt(const std::string& path, std::uint64_t offset,
                             std::span<std::byte> into) override;

 private:
  class Injector;
  class File;

  FileSystem& base_;
  std::unique_ptr<Injector> injector_;
};

}  // namespace paceline::disk
