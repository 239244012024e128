#include "disk/faulty_file_system.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace paceline::disk {

namespace {

using Action = FaultPlan::Action;

struct ActionName {
  std::string_view name;
  Action action;
  bool takes_error;
};

constexpr std::array<ActionName, 6> kActions{{{"kill-before", Action::kKillBefore, false},
                                              {"kill-after", Action::kKillAfter, false},
                                              {"kill-torn", Action::kKillTorn, false},
                                              {"fail", Action::kFail, true},
                                              {"fail-from", Action::kFailFrom, true},
                                              {"short-write", Action::kShortWrite, true}}};

constexpr std::array<std::pair<std::string_view, int>, 5> kErrors{
    {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EROFS", EROFS}, {"EFBIG", EFBIG}, {"EACCES", EACCES}}};

// Like a power cut: no destructor, no handler.
void KillSelf() { ::kill(::getpid(), SIGKILL); }

}  // namespace

Result<FaultPlan> ParseFaultPlan(std::string_view text) {
  if (text.empty()) return FaultPlan{};
  const auto bad = [&](const char* what) {
    return Status::Error(Code::kInvalidArgument, fmt::format("fault plan \"{}\": {}", text, what));
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return bad("expected action=operation");
  const std::string_view name = text.substr(0, equals);
  const ActionName* action = nullptr;
  for (const ActionName& known : kActions) {
    if (known.name == name) action = &known;
  }
  if (action == nullptr) return bad("unknown action");

  FaultPlan plan{.action = action->action};
  const char* const end = text.data() + text.size();
  const auto number = std::from_chars(text.data() + equals + 1, end, plan.at);
  if (number.ec != std::errc() || plan.at == 0) return bad("operation is no positive number");
  std::string_view rest(number.ptr, static_cast<std::size_t>(end - number.ptr));
  if (!action->takes_error) return rest.empty() ? Result<FaultPlan>(plan) : bad("text at the end");
  if (!rest.starts_with(':')) return bad("expected :ERRNO at the end");
  rest.remove_prefix(1);
  for (const auto& [error_name, error] : kErrors) {
    if (error_name == rest) plan.error = error;
  }
  if (plan.error == 0) return bad("unknown error name");
  return plan;
}

// Counts, and decides what happens to one operation. Thread-safe.
class FaultyFileSystem::Injector {
 public:
  Injector(FaultPlan plan, Observer observer) : plan_(plan), observer_(std::move(observer)) {}

  std::uint64_t operations() const { return operations_.load(); }

  // Runs `perform`, or what the plan has in its place. `half` is a torn version of it.
  template <typename Perform, typename Half>
  auto Run(const char* operation, const std::string& path, Perform perform, Half half)
      -> decltype(perform()) {
    const std::uint64_t n = ++operations_;
    if (observer_) observer_(fmt::format("{} {}", operation, path));
    if (plan_.action == Action::kNone || n < plan_.at) return perform();
    if (plan_.action == Action::kFailFrom) return DiskError(operation, path, plan_.error);
    if (n > plan_.at) return perform();
    switch (plan_.action) {
      case Action::kKillBefore: KillSelf(); break;
      case Action::kFail: return DiskError(operation, path, plan_.error);
      case Action::kKillTorn:
        half();
        KillSelf();
        break;
      case Action::kShortWrite: half(); return DiskError(operation, path, plan_.error);
      default: break;
    }
    auto result = perform();
    if (plan_.action == Action::kKillAfter) KillSelf();
    return result;
  }

  // For everything that has no torn version.
  template <typename Perform>
  auto Run(const char* operation, const std::string& path, Perform perform) {
    return Run(operation, path, perform, [this, &perform] {
      if (plan_.action == Action::kKillTorn) static_cast<void>(perform());
    });
  }

 private:
  const FaultPlan plan_;
  const Observer observer_;
  std::atomic<std::uint64_t> operations_{0};
};

class FaultyFileSystem::File final : public WritableFile {
 public:
  File(std::unique_ptr<WritableFile> base, Injector& injector, std::string path)
      : base_(std::move(base)), injector_(injector), path_(std::move(path)) {}

  Status Append(std::span<const std::byte> data) override {
    return injector_.Run(
        "write", path_, [&] { return base_->Append(data); },
        [&] { static_cast<void>(base_->Append(data.first(data.size() / 2))); });
  }
  Status Sync() override {
    return injector_.Run("fsync", path_, [&] { return base_->Sync(); });
  }
  Status Close() override {
    return injector_.Run("close", path_, [&] { return base_->Close(); });
  }

 private:
  std::unique_ptr<WritableFile> base_;
  Injector& injector_;
  std::string path_;
};

FaultyFileSystem::FaultyFileSystem(FileSystem& base, FaultPlan plan, Observer observer)
    : base_(base), injector_(std::make_unique<Injector>(plan, std::move(observer))) {}

FaultyFileSystem::~FaultyFileSystem() = default;

std::uint64_t FaultyFileSystem::operations() const { return injector_->operations(); }

Result<std::unique_ptr<WritableFile>> FaultyFileSystem::Create(const std::string& path) {
  return injector_->Run("create", path, [&]() -> Result<std::unique_ptr<WritableFile>> {
    PACELINE_ASSIGN(auto file, base_.Create(path));
    return std::unique_ptr<WritableFile>(new File(std::move(file), *injector_, path));
  });
}

Result<std::unique_ptr<WritableFile>> FaultyFileSystem::OpenForAppend(const std::string& path,
                                                                      ReadBack reads) {
  return injector_->Run("open", path, [&]() -> Result<std::unique_ptr<WritableFile>> {
    PACELINE_ASSIGN(auto file, base_.OpenForAppend(path, reads));
    return std::unique_ptr<WritableFile>(new File(std::move(file), *injector_, path));
  });
}

Status FaultyFileSystem::SyncDir(const std::string& path) {
  return injector_->Run("fsync", path, [&] { return base_.SyncDir(path); });
}

Status FaultyFileSystem::Rename(const std::string& from, const std::string& to) {
  return injector_->Run("rename", fmt::format("{} to {}", from, to),
                        [&] { return base_.Rename(from, to); });
}

Status FaultyFileSystem::MakeDir(const std::string& path) {
  return injector_->Run("mkdir", path, [&] { return base_.MakeDir(path); });
}

Status FaultyFileSystem::RemoveAll(const std::string& path) {
  return injector_->Run("remove", path, [&] { return base_.RemoveAll(path); });
}

Result<bool> FaultyFileSystem::Exists(const std::string& path) {
  return injector_->Run("stat", path, [&] { return base_.Exists(path); });
}

Result<std::vector<DirEntry>> FaultyFileSystem::List(const std::string& path) {
  return injector_->Run("list", path, [&] { return base_.List(path); });
}

Result<std::uint64_t> FaultyFileSystem::Size(const std::string& path) {
  return injector_->Run("size", path, [&] { return base_.Size(path); });
}

Result<std::size_t> FaultyFileSystem::ReadAt(const std::string& path, std::uint64_t offset,
                                             std::span<std::byte> into) {
  return injector_->Run("read", path, [&] { return base_.ReadAt(path, offset, into); });
}

}  // namespace paceline::disk
