#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace paceline {

// What a caller can do about a failure. The code, never the text, decides.
enum class Code {
  kOk,
  kInvalidArgument,  // the caller's flag or argument is wrong
  kMismatch,         // configuration, version or model differs from the other side
  kUnauthenticated,  // wrong or missing secret
  kBadData,          // input data is missing, truncated or corrupt
  kBadCheckpoint,    // no usable checkpoint generation
  kBelowMinWorkers,  // too few workers for too long
  kNotFinite,        // NaN or Inf where the policy forbids it
  kDisk,             // writing or reading our own files failed
  kFenced,           // this process was evicted; an older generation may not write
  kAlreadyRunning,   // somebody else holds the run
  kTimeout,          // a deadline passed
  kPeerLost,         // a peer died or closed its connection
  kStaleGeneration,  // a message of an older generation: drop it
  kProtocol,         // bytes from a peer that break the protocol: cut the connection
  kNotFound,         // a named thing does not exist
  kAborted,          // cancelled by our own side
  kUnavailable,      // temporary: the same call may succeed later
  kInternal,         // a bug, or a failure of a library that we cannot name better
};

// Name for logs and JSON, e.g. "bad_data".
const char* CodeName(Code code);

// Process exit code documented in docs/errors.md.
int ExitCode(Code code);

// Success, or a code with a chain of messages, the outermost context first.
// Immutable and cheap to copy; success is a null pointer.
class [[nodiscard]] Status {
 public:
  Status() = default;

  static Status Error(Code code, std::string message, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE());

  bool ok() const { return node_ == nullptr; }
  Code code() const;

  // Adds one line of context in front; success stays success.
  Status Wrap(const std::string& context) const;

  // "context: cause: root cause", for people.
  std::string message() const;

  // message() plus code and the source line of the root cause, for logs.
  std::string ToString() const;

 private:
  struct Node {
    Code code;
    std::string message;
    const char* file;
    int line;
    std::shared_ptr<const Node> cause;
  };
  explicit Status(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

  std::shared_ptr<const Node> node_;
};

// A value or the Status that explains its absence.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    PACELINE_CHECK(!status_.ok(), "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & { return Checked(); }
  const T& value() const& { return const_cast<Result*>(this)->Checked(); }
  T&& value() && { return std::move(Checked()); }

  T& operator*() & { return Checked(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &value(); }

 private:
  T& Checked() {
    PACELINE_CHECK(value_.has_value(), "value() of a failed Result");
    return *value_;
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace paceline

#define PACELINE_CONCAT_INNER(a, b) a##b
#define PACELINE_CONCAT(a, b) PACELINE_CONCAT_INNER(a, b)

// Returns early from a function that returns Status or Result.
#define PACELINE_TRY(expr)                                                    \
  do {                                                                        \
    if (::paceline::Status paceline_status = (expr); !paceline_status.ok()) { \
      return paceline_status;                                                 \
    }                                                                         \
  } while (false)

// PACELINE_ASSIGN(auto view, ReadView(store)); binds the value or returns the error.
#define PACELINE_ASSIGN(declaration, expr)                       \
  auto PACELINE_CONCAT(paceline_result_, __LINE__) = (expr);     \
  if (!PACELINE_CONCAT(paceline_result_, __LINE__).ok()) {       \
    return PACELINE_CONCAT(paceline_result_, __LINE__).status(); \
  }                                                              \
  declaration = std::move(PACELINE_CONCAT(paceline_result_, __LINE__)).value()
