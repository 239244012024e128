#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace paceline::data {

// Channel, row, column; one byte each.
struct ImageShape {
  std::size_t channels = 0;
  std::size_t height = 0;
  std::size_t width = 0;

  constexpr std::size_t pixels() const { return channels * height * width; }
  std::string Text() const;  // "3x32x32"
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

inline constexpr ImageShape kCifarShape{3, 32, 32};
inline constexpr std::size_t kCifarPixels = kCifarShape.pixels();

enum class Split { kTrain, kTest };
enum class BadRecord {
  kFail,  // refuse the data set
  kSkip,  // leave corrupt records out and count them
};

// Labelled images of one shape, addressed by index. Immutable after opening and thread-safe: any
// thread may read. Does not shuffle, augment or batch; see algo/batch_plan.h, augment.h, loader.h.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::uint64_t size() const = 0;  // usable records
  virtual std::int64_t classes() const = 0;
  virtual ImageShape image_shape() const { return kCifarShape; }

  // index < size(); image holds exactly image_shape().pixels() bytes. The label is in
  // [0, classes()).
  virtual Status Read(std::uint64_t index, std::span<std::uint8_t> image,
                      std::int64_t& label) const = 0;

  // Equal texts mean equal data: workers compare them when they join.
  virtual std::string Fingerprint() const = 0;

  // Records left out because they are corrupt.
  virtual std::uint64_t BadRecords() const { return 0; }
};

// The argument check that every Read starts with.
Status CheckRead(const Dataset& dataset, std::uint64_t index, std::size_t image_bytes);

}  // namespace paceline::data
