#pragma once

#include <optional>
#include <string>
#include <vector>

namespace paceline::bench {

// Charts as inline SVG for the pages of html.h, whose style sheet colours them: class s0 is the
// first series, s1 the second and so on. Every chart carries a title and a description for screen
// readers. All texts are escaped.

// A value with its spread.
struct ChartValue {
  double value = 0;
  double low = 0;
  double high = 0;
};

struct ChartSeries {
  std::string name;
  std::vector<std::optional<ChartValue>> values;  // one per category; none leaves a gap
};

struct Chart {
  std::string id;  // unique in the page
  std::string title;
  std::string description;  // the figures as a sentence
  std::string value_label;
  std::vector<std::string> categories;
  std::vector<ChartSeries> series;
};

enum class ChartSize { kWide, kNarrow };  // 760 and 340 units, for desk and phone

// Groups of vertical bars from zero, one group per category, with error bars.
std::string BarChartSvg(const Chart& chart, ChartSize size);

// One line per category and series on a horizontal axis: a dot with its spread, and a vertical
// line at `reference`, where both sides are equal.
std::string DotChartSvg(const Chart& chart, double reference, ChartSize size);

// A round step so that [0, span] has at most `count` + 1 ticks: 1, 2, 2.5 or 5 times a power of 10.
double TickStep(double span, int count);

}  // namespace paceline::bench
