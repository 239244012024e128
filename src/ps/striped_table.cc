#include "ps/striped_table.h"

#include <algorithm>

namespace paceline::ps {

StripedTable::StripedTable(const TableOptions& options)
    : format_(options), admission_(options.admission), stripes_(options.stripes) {}

Status StripedTable::Pull(std::span<const std::int64_t> ids, Touch touch, std::span<float> out) {
  PACELINE_TRY(format_.CheckLength(ids.size(), out.size()));
  const Access access = touch == Touch::kPeek ? Access::kPeek : Access::kRead;
  return ForRows(ids, access, [&](const Item& item, float* row) {
    const auto target = out.subspan(item.position * format_.dim(), format_.dim());
    if (row == nullptr) {
      format_.InitialValues(item.id, target);
    } else {
      std::ranges::copy(format_.Values(row), target.begin());
    }
  });
}

Status StripedTable::Push(std::span<const std::int64_t> ids, std::span<const float> gradients,
                          float learning_rate) {
  PACELINE_TRY(format_.CheckLength(ids.size(), gradients.size()));
  return ForRows(ids, Access::kChange, [&](const Item& item, float* row) {
    if (row == nullptr) return;
    format_.Apply(learning_rate, gradients.subspan(item.position * format_.dim(), format_.dim()),
                  row);
  });
}

Status StripedTable::Add(std::span<const std::int64_t> ids, std::span<const float> deltas) {
  PACELINE_TRY(format_.CheckLength(ids.size(), deltas.size()));
  return ForRows(ids, Access::kChange, [&](const Item& item, float* row) {
    if (row == nullptr) return;
    format_.Add(deltas.subspan(item.position * format_.dim(), format_.dim()), row);
  });
}

Status StripedTable::Has(std::span<const std::int64_t> ids, std::span<std::uint8_t> out) {
  if (out.size() != ids.size()) {
    return Status::Error(Code::kInvalidArgument, "one answer for each id");
  }
  return ForRows(ids, Access::kPeek, [&](const Item& item, float* row) {
    out[item.position] = row == nullptr ? 0 : 1;
  });
}

bool StripedTable::Admitted(TouchCounter& counter, const Item& item, Access access) const {
  if (access == Access::kPeek) return false;
  switch (admission_.rule) {
    case AdmissionRule::kAll: return true;
    case AdmissionRule::kAfterTouches:
      // A step pulls a row before it pushes to it; only the pull counts.
      return access == Access::kRead && counter.Touch(item.hash, admission_.touches);
    case AdmissionRule::kByChance: return format_.AdmittedByChance(item.id, admission_.probability);
  }
  return false;
}

TouchCounter StripedTable::NewCounter() const {
  const bool counts = admission_.rule == AdmissionRule::kAfterTouches;
  return TouchCounter(counts ? admission_.counted_ids / stripes_ + 1 : 0);
}

}  // namespace paceline::ps
