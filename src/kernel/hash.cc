#include "kernel/hash.h"

#include <new>
#include <string_view>

#include <fmt/format.h>
#include <xxhash.h>

#include "base/check.h"

namespace paceline::kernel {

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  PACELINE_CHECK(state_->xxh != nullptr, "memory for a hash state");
  XXH3_128bits_reset(state_->xxh);
}

Hasher::~Hasher() = default;

void Hasher::Update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Hasher::Update(std::string_view text) {
  Update(std::as_bytes(std::span(text.data(), text.size())));
}

std::string Hasher::Hex() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(state_->xxh);
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

}  // namespace paceline::kernel
