#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace paceline::kernel {

// XXH3-128 over a sequence of byte ranges; equal content gives equal text however it was cut.
// For comparing states, not for security. Thread-compatible.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text);

  // 32 hexadecimal digits.
  std::string Hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline::kernel
