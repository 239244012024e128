#include "ps/touch_counter.h"

#include <cstring>

namespace paceline::ps {

namespace {

struct TouchCount {
  std::uint32_t tick;
  std::uint32_t touches;
};
constexpr std::size_t kWords = sizeof(TouchCount) / sizeof(float);

TouchCount LoadCount(const float* row) {
  TouchCount count{};
  std::memcpy(&count, row, sizeof(count));
  return count;
}

void StoreCount(const TouchCount& count, float* row) { std::memcpy(row, &count, sizeof(count)); }

}  // namespace

TouchCounter::TouchCounter() : counts_(kWords) {}

bool TouchCounter::Touch(std::int64_t id, std::uint32_t tick, std::uint32_t enough) {
  if (enough <= 1) return true;
  const std::uint64_t hash = HashId(id);
  RowStore::RowNumber row = counts_.Find(hash, id);
  if (row == RowStore::kNoRow) {
    row = counts_.Insert(hash, id);
    if (row != RowStore::kNoRow) StoreCount({.tick = tick, .touches = 1}, counts_.Floats(row));
    return false;
  }
  const std::uint32_t touches = LoadCount(counts_.Floats(row)).touches + 1;
  if (touches >= enough) return counts_.Erase(hash, id);
  StoreCount({.tick = tick, .touches = touches}, counts_.Floats(row));
  return false;
}

void TouchCounter::ForgetUntouchedSince(std::uint32_t tick) {
  for (const RowStore::RowNumber row : counts_.Rows()) {
    if (LoadCount(counts_.Floats(row)).tick >= tick) continue;
    const std::int64_t id = counts_.IdOf(row);
    counts_.Erase(HashId(id), id);
  }
}

void TouchCounter::Restore(const WaitingId& waiting) {
  const std::uint64_t hash = HashId(waiting.id);
  RowStore::RowNumber row = counts_.Find(hash, waiting.id);
  if (row == RowStore::kNoRow) row = counts_.Insert(hash, waiting.id);
  if (row == RowStore::kNoRow) return;
  StoreCount({.tick = waiting.tick, .touches = waiting.touches}, counts_.Floats(row));
}

void TouchCounter::AppendTo(std::vector<WaitingId>& all) const {
  for (const RowStore::RowNumber row : counts_.Rows()) {
    const TouchCount count = LoadCount(counts_.Floats(row));
    all.push_back({.id = counts_.IdOf(row), .tick = count.tick, .touches = count.touches});
  }
}

}  // namespace paceline::ps
