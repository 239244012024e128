#include "base/status.h"

#include <cstring>

#include <fmt/format.h>

namespace paceline {

namespace {

struct CodeInfo {
  const char* name;
  int exit_code;
};

// One place for both names; docs/errors.md lists the same table and a test compares them.
CodeInfo Info(Code code) {
  switch (code) {
    case Code::kOk: return {"ok", 0};
    case Code::kInvalidArgument: return {"invalid_argument", 2};
    case Code::kMismatch: return {"mismatch", 10};
    case Code::kUnauthenticated: return {"unauthenticated", 11};
    case Code::kBadData: return {"bad_data", 12};
    case Code::kBadCheckpoint: return {"bad_checkpoint", 13};
    case Code::kBelowMinWorkers: return {"below_min_workers", 14};
    case Code::kNotFinite: return {"not_finite", 15};
    case Code::kDisk: return {"disk", 16};
    case Code::kFenced: return {"fenced", 17};
    case Code::kAlreadyRunning: return {"already_running", 18};
    case Code::kTimeout: return {"timeout", 75};
    case Code::kPeerLost: return {"peer_lost", 75};
    case Code::kStaleGeneration: return {"stale_generation", 17};
    case Code::kProtocol: return {"protocol", 70};
    case Code::kNotFound: return {"not_found", 2};
    case Code::kAborted: return {"aborted", 75};
    case Code::kUnavailable: return {"unavailable", 75};
    case Code::kInternal: return {"internal", 70};
  }
  return {"unknown", 70};
}

const char* BaseName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

}  // namespace

const char* CodeName(Code code) { return Info(code).name; }

int ExitCode(Code code) { return Info(code).exit_code; }

Status Status::Error(Code code, std::string message, const char* file, int line) {
  PACELINE_CHECK(code != Code::kOk, "an error needs an error code");
  return Status(std::make_shared<const Node>(Node{code, std::move(message), file, line, nullptr}));
}

Code Status::code() const { return node_ == nullptr ? Code::kOk : node_->code; }

Status Status::Wrap(const std::string& context) const {
  if (ok()) return {};
  return Status(
      std::make_shared<const Node>(Node{node_->code, context, node_->file, node_->line, node_}));
}

std::string Status::message() const {
  std::string text;
  for (const Node* node = node_.get(); node != nullptr; node = node->cause.get()) {
    if (!text.empty()) text += ": ";
    text += node->message;
  }
  return text;
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return fmt::format("{} [{} {}:{}]", message(), CodeName(code()), BaseName(node_->file),
                     node_->line);
}

}  // namespace paceline
