#pragma once

#include <string>
#include <string_view>

namespace paceline::job {

struct ScreenSize {
  int columns = 80;
  int rows = 24;
};

// The text cut to what a screen can show: no line wraps, the last row stays free. Colours do not
// count as letters, and a line that was cut ends without one. Pure.
std::string FitToScreen(std::string_view text, ScreenSize size);

// What makes a screen show exactly this text without flicker: from the top, each line erased to
// its end, then everything below. Pure.
std::string RedrawSequence(std::string_view text, ScreenSize size);

// Draws on a terminal's alternate screen while it is alive; what was there before comes back
// afterwards. Thread-compatible. Does not own the descriptor, and does not catch signals: its
// owner must end in order.
class LiveScreen {
 public:
  explicit LiveScreen(int terminal);
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  void Draw(std::string_view text);

 private:
  int terminal_;
};

}  // namespace paceline::job
