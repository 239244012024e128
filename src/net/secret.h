#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "wire/messages.h"

namespace paceline::net {

// The key that all processes of a job share: 32 bytes that are never printed. Immutable.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  // From the system's generator.
  static Result<Secret> Generate();
  // 64 hexadecimal digits.
  static Result<Secret> FromHex(const std::string& hex);
  // A file with 64 hexadecimal digits that nobody but its owner can read.
  static Result<Secret> FromFile(const std::string& path);
  // PACELINE_SECRET, or the file that PACELINE_SECRET_FILE names; kNotFound when neither is set.
  static Result<Secret> FromEnvironment(const GetEnv& getenv);
  // A key that everybody knows: for a job that only loopback reaches and that has no secret.
  static Secret Open() { return Secret({}); }

  bool open() const;
  std::string ToHex() const;  // for a child's environment, never for a log

  // HMAC-SHA-256.
  wire::Digest Sign(std::span<const std::byte> message) const;

 private:
  explicit Secret(const std::array<std::byte, kBytes>& key) : key_(key) {}

  std::array<std::byte, kBytes> key_;
};

// In constant time.
bool Equal(const wire::Digest& a, const wire::Digest& b);

Result<wire::Nonce> MakeNonce();

}  // namespace paceline::net
