#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace paceline::job {

struct ProgressState {
  std::string model;
  std::uint64_t step = 0;  // finished
  std::uint64_t total_steps = 0;
  double epoch = 0;  // fraction of the data set seen
  double loss = 0;
  double accuracy = 0;  // on recent training samples, 0..1; NaN: not known
  double samples_per_second = 0;
  double seconds_left = 0;
};

// "vgg16:  42%|####      | 21/50 [epoch 0.05, loss 2.1034, acc 31.2 %, 30.1 samples/s, ETA 1:23]"
// in at most `width` characters: the bar gives way first, then the end is cut.
std::string RenderProgress(const ProgressState& state, int width);

// "1:02:03", "2:03", "0:07".
std::string RenderDuration(double seconds);

enum class ProgressStyle { kOff, kLines, kTerminal };

// Prints progress on stderr: one line redrawn in place on a terminal, else a plain line now and
// then, so that log files stay readable. Thread-compatible.
class Progress {
 public:
  Progress(const Clock& clock, ProgressStyle style) : clock_(clock), style_(style) {}
  ~Progress() { Finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(const ProgressState& state);
  // A line of its own that does not tear the progress line.
  void Note(const std::string& text);
  // Ends the progress line.
  void Finish();

 private:
  const Clock& clock_;
  ProgressStyle style_;
  Instant last_{};
  bool any_ = false;
  bool line_open_ = false;
};

// kTerminal when stderr is one (and TERM is not "dumb"), else kLines.
ProgressStyle DetectProgressStyle();

}  // namespace paceline::job
