#include "job/live_screen.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace paceline::job {
namespace {

TEST(FitToScreen, CutsLinesAndRows) {
  EXPECT_EQ(FitToScreen("abc\nde\nf\n", {.columns = 80, .rows = 24}), "abc\nde\nf\n");
  EXPECT_EQ(FitToScreen("abc\nde\nf\n", {.columns = 3, .rows = 3}), "abc\nde\n");
  EXPECT_EQ(FitToScreen("abc\n", {.columns = 2, .rows = 3}), "ab\x1b[0m\n");
  EXPECT_EQ(FitToScreen("", {.columns = 2, .rows = 3}), "");
  EXPECT_EQ(FitToScreen("a", {.columns = 2, .rows = 0}), "");
}

TEST(FitToScreen, ColoursAndUtf8CountAsTheyShow) {
  EXPECT_EQ(FitToScreen("\x1b[31m±±\x1b[0m\n", {.columns = 2, .rows = 3}), "\x1b[31m±±\x1b[0m\n");
  EXPECT_EQ(FitToScreen("\x1b[31m±±\x1b[0m\n", {.columns = 1, .rows = 3}), "\x1b[31m±\x1b[0m\n");
  EXPECT_EQ(FitToScreen("a\x1b", {.columns = 5, .rows = 3}), "a\x1b\n");
}

TEST(RedrawSequence, ErasesWhatWasThere) {
  EXPECT_EQ(RedrawSequence("a\nb\n", {}), "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n\x1b[J");
}

TEST(LiveScreen, GivesTheTerminalBack) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  {
    LiveScreen screen(to.get());
    screen.Draw("x\n");
  }
  to.Reset();
  std::string text(200, '\0');
  text.resize(static_cast<std::size_t>(::read(from.get(), text.data(), text.size())));
  EXPECT_EQ(text, "\x1b[?1049h\x1b[?25l\x1b[Hx\x1b[K\r\n\x1b[J\x1b[?25h\x1b[?1049l");
}

}  // namespace
}  // namespace paceline::job
