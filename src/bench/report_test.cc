#include "bench/report.h"

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>

#include "bench/html.h"
#include "bench/svg_chart.h"
#include "bench/table.h"
#include "bench/test_results.h"

namespace paceline::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(SingleNodeTable, LooksLikeThis) {
  EXPECT_EQ(
      SingleNodeTable(SampleResults()),
      R"(vgg16 training, samples/s; 1 thread pinned to CPU 1; median ± MAD of 3 rounds of 128 samples or more

Batch size                             32             128
Paceline 0.1.0              64.00 ± 14.00    64.00 ± 0.00
PyTorch 1.13.1               32.00 ± 0.00    32.00 ± 0.00
Paceline / PyTorch          2.00 ± 0.00 ×   2.00 ± 0.00 ×
Memory Paceline                    800 MB         1000 MB
Memory PyTorch                     900 MB         2000 MB
Memory Paceline / PyTorch          0.89 ×          0.50 ×

not available: tensorflow: not installed
warning: Paceline, batch 32: the spread is 22 % of the median.
)");
}

TEST(SingleNodeTable, ManyBatchSizesStayWithinOneHundredColumns) {
  SingleNodeResults results = SampleResults();
  for (int i = 0; i < 7; ++i) results.batches.push_back(results.batches[0]);
  std::istringstream lines(SingleNodeTable(results));
  for (std::string line; std::getline(lines, line);) {
    const auto letters = std::count_if(line.begin(), line.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    });
    EXPECT_LE(letters, 100) << line;
  }
}

TEST(SingleNodeTable, APartialResultSaysWhy) {
  SingleNodeResults results;
  results.systems = {{.name = "Paceline"}};
  results.partial = true;
  results.failure = "PyTorch: exit code 1";
  EXPECT_THAT(SingleNodeTable(results), HasSubstr("partial result: PyTorch: exit code 1"));
}

TEST(HtmlEscape, LeavesNoMarkup) {
  EXPECT_EQ(HtmlEscape("<a href=\"x\" id='y'>&amp;"),
            "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;");
}

TEST(Report, EscapesWhatSystemsAndUsersSay) {
  const std::string evil = "<script>alert('x')</script>";
  SingleNodeResults results = SampleResults();
  results.provenance.command_line = evil;
  results.provenance.commit = evil;
  results.machine.cpu_model = evil;
  results.config.model = evil;
  for (SystemInfo& system : results.systems) system.name = system.version = evil;
  results.systems[2].unavailable = evil;
  results.partial = true;
  results.failure = evil;
  const std::string html = SingleNodeReport(results);
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
}

TEST(Report, IsOneFileWithoutExternalResources) {
  const std::string html = SingleNodeReport(SampleResults());
  for (const char* word : {"http:", "https:", "src=", "<link", "@import", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(word)));
  }
}

TEST(Report, CarriesCommandCommitMachineAndReferenceRows) {
  const std::string html = SingleNodeReport(SampleResults());
  for (const char* word :
       {"paceline bench single-node --batches 32,128", "0123abcd with uncommitted changes",
        "Example CPU", "2023-11-14 22:13 UTC", "PaddlePaddle Fluid", "E5-2620 v4, 2018",
        "Not available: tensorflow: not installed", "2.00 ± 0.00 ×"}) {
    EXPECT_THAT(html, HasSubstr(word));
  }
}

TEST(Report, AResultWithoutMeasurementsIsStillAPage) {
  SingleNodeResults results;
  results.systems = {{.name = "Paceline"}};
  results.partial = true;
  results.failure = "stopped";
  const std::string html = SingleNodeReport(results);
  EXPECT_THAT(html, HasSubstr("This result is partial"));
  EXPECT_THAT(html, HasSubstr("</html>"));
  EXPECT_THAT(html, Not(HasSubstr("<svg")));
}

// The axis moves to the right when its figures need the room.
TEST(Charts, TheFiguresOfAnAxisFitBesideIt) {
  const auto left = [](double value) {
    const Chart chart{.id = "c", .categories = {"a"}, .series = {{"one", {ChartValue{value}}}}};
    const std::string svg = BarChartSvg(chart, ChartSize::kWide);
    const std::string axis = "class=\"axis\" x1=\"";
    return std::stod(svg.substr(svg.find(axis) + axis.size()));
  };
  EXPECT_EQ(left(4), left(40));
  EXPECT_GT(left(18'520), left(40));
}

TEST(Charts, NameThemselvesAndDrawEveryValue) {
  const Chart chart{.id = "c",
                    .title = "T & co",
                    .description = "D",
                    .categories = {"a", "b"},
                    .series = {{"one", {ChartValue{1, 0.5, 2}, std::nullopt}},
                               {"two", {ChartValue{3, 3, 3}, ChartValue{4, 4, 4}}}}};
  for (const ChartSize size : {ChartSize::kWide, ChartSize::kNarrow}) {
    const std::string bars = BarChartSvg(chart, size);
    EXPECT_THAT(bars, HasSubstr(">T &amp; co</title>"));
    EXPECT_THAT(bars, HasSubstr(">D</desc>"));
    EXPECT_EQ(Count(bars, "<rect class=\"s0\""), 2U);  // legend and one bar
    EXPECT_EQ(Count(bars, "<rect class=\"s1\""), 3U);
    EXPECT_EQ(Count(DotChartSvg(chart, 1, size), "<circle"), 3U);
  }
}

TEST(Charts, NothingToDrawIsDrawn) {
  const Chart chart{.id = "c", .title = "T"};
  EXPECT_THAT(BarChartSvg(chart, ChartSize::kWide), Not(HasSubstr("nan")));
  EXPECT_THAT(DotChartSvg(chart, 1, ChartSize::kWide), Not(HasSubstr("nan")));
}

TEST(TickStep, IsRound) {
  EXPECT_DOUBLE_EQ(TickStep(100, 5), 20);
  EXPECT_DOUBLE_EQ(TickStep(64, 5), 20);
  EXPECT_DOUBLE_EQ(TickStep(0.9, 4), 0.25);
  EXPECT_DOUBLE_EQ(TickStep(0, 5), 1);
}

}  // namespace
}  // namespace paceline::bench
