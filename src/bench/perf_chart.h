#pragma once

#include <string>
#include <vector>

#include "bench/svg_chart.h"

namespace paceline::bench {

// Lines over two logarithmic axes, coloured and sized like the charts of svg_chart.h.
struct LogPoint {
  double x = 0;
  ChartValue y;
};
struct LogSeries {
  std::string name;
  std::vector<LogPoint>
      points;  // with falling or rising x; values that are not above 0 are left out
};
struct LogChart {
  std::string id;  // unique in the page
  std::string title;
  std::string description;  // the figures as a sentence
  std::string x_label;
  std::string y_label;
  std::vector<LogSeries> series;
};

// Ticks of the x axis are powers of two written as sizes (4K, 64K); of the y axis powers of ten.
std::string LogLogChartSvg(const LogChart& chart, ChartSize size);

}  // namespace paceline::bench
