#include "job/live_screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace paceline::job {

namespace {

// xterm's control sequences: alternate screen, cursor.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kReset = "\x1b[0m";

void WriteToTerminal(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(to, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the terminal is gone; nobody is left to tell
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string FitLine(std::string_view line, int columns) {
  std::string fitted;
  int width = 0;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == '\x1b') {
      const std::size_t end = std::min(line.find('m', i), line.size() - 1);
      fitted += line.substr(i, end + 1 - i);
      i = end + 1;
      continue;
    }
    const bool begins_letter = (static_cast<unsigned char>(line[i]) & 0xC0) != 0x80;
    if (begins_letter && ++width > columns) return fitted + std::string(kReset);
    fitted += line[i++];
  }
  return fitted;
}

ScreenSize SizeOf(int terminal) {
  winsize size{};
  if (::ioctl(terminal, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

}  // namespace

std::string FitToScreen(std::string_view text, ScreenSize size) {
  std::string fitted;
  for (int row = 1; row < size.rows && !text.empty(); ++row) {
    const std::size_t newline = std::min(text.find('\n'), text.size());
    fitted += FitLine(text.substr(0, newline), size.columns) + "\n";
    text.remove_prefix(std::min(newline + 1, text.size()));
  }
  return fitted;
}

std::string RedrawSequence(std::string_view text, ScreenSize size) {
  std::string sequence = "\x1b[H";
  for (const char c : FitToScreen(text, size)) {
    sequence += c == '\n' ? std::string("\x1b[K\r\n") : std::string(1, c);
  }
  return sequence + "\x1b[J";
}

LiveScreen::LiveScreen(int terminal) : terminal_(terminal) { WriteToTerminal(terminal_, kEnter); }

LiveScreen::~LiveScreen() { WriteToTerminal(terminal_, kLeave); }

void LiveScreen::Draw(std::string_view text) {
  WriteToTerminal(terminal_, RedrawSequence(text, SizeOf(terminal_)));
}

}  // namespace paceline::job
