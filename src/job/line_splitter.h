#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::job {

constexpr std::size_t kMaxLineBytes = 64 << 10;  // a longer line is passed on in pieces

// Cuts a stream of bytes into lines, however the bytes arrive. Thread-compatible.
class LineSplitter {
 public:
  // The lines that are complete now, without their ends ("\n" or "\r\n").
  std::vector<std::string> Feed(std::string_view bytes);
  // The last line when the stream ended without "\n".
  std::optional<std::string> Finish();

 private:
  std::string pending_;
};

// "[w1] line\n"; without a label "line\n".
std::string PrefixLine(std::string_view label, std::string_view line);

// What a process complained about last: its last line that speaks of an error, else its last line
// that is not blank. Thread-compatible.
class LastError {
 public:
  void Observe(std::string_view line);
  // Cut to a few hundred bytes, without control characters.
  std::string Text() const { return error_.empty() ? last_ : error_; }

 private:
  std::string error_;
  std::string last_;
};

}  // namespace paceline::job
