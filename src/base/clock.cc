#include "base/clock.h"

namespace paceline {

namespace {

class RealClock final : public Clock {
 public:
  Instant Now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
  std::int64_t UnixSeconds() const override {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

const Clock& SystemClock() {
  static const RealClock clock;
  return clock;
}

}  // namespace paceline
