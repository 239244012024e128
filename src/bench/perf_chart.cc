#include "bench/perf_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "bench/html.h"
#include "bench/perf_case.h"

namespace paceline::bench {

namespace {

// Exponents at both ends of an axis.
struct Axis {
  int low = 0;
  int high = 1;
  double base = 10;
  double begin = 0, end = 1;  // places on the page

  double Place(double value) const {
    const double exponent = std::log(value) / std::log(base);
    return begin + (exponent - low) / (high - low) * (end - begin);
  }
};

bool Shown(const LogPoint& point) { return point.x > 0 && point.y.value > 0; }

template <typename Pick>
Axis MakeAxis(const LogChart& chart, double base, Pick&& pick) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const LogSeries& series : chart.series) {
    for (const LogPoint& point : series.points) {
      if (!Shown(point)) continue;
      low = std::min(low, pick(point));
      high = std::max(high, pick(point));
    }
  }
  Axis axis{.base = base};
  if (high <= 0) return axis;
  // The tolerance keeps an exact power from becoming the next one.
  axis.low = static_cast<int>(std::floor(std::log(low) / std::log(base) + 1e-9));
  axis.high = static_cast<int>(std::ceil(std::log(high) / std::log(base) - 1e-9));
  axis.high = std::max(axis.high, axis.low + 1);
  return axis;
}

std::string ChartLine(const char* css, double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", css, x1, y1,
      x2, y2);
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"12\">{}</text>\n", x, y,
      anchor, HtmlEscape(text));
}

std::string PowerOfTen(int exponent) {
  return exponent < 0 ? fmt::format("{:.{}f}", std::pow(10, exponent), -exponent)
                      : fmt::format("{:.0f}", std::pow(10, exponent));
}

std::string Grid(const Axis& x, const Axis& y, int x_every) {
  std::string svg;
  for (int exponent = y.low; exponent <= y.high; ++exponent) {
    const double place = y.Place(std::pow(10, exponent));
    svg += ChartLine(exponent == y.low ? "axis" : "grid", x.begin, place, x.end, place);
    svg += Text(x.begin - 8, place + 4, "end", PowerOfTen(exponent));
  }
  for (int exponent = x.low; exponent <= x.high; exponent += x_every) {
    const double value = std::pow(2, exponent);
    svg += ChartLine("grid", x.Place(value), y.begin, x.Place(value), y.end);
    svg +=
        Text(x.Place(value), y.begin + 18, "middle", FormatSize(static_cast<std::size_t>(value)));
  }
  return svg;
}

std::string SeriesSvg(const LogSeries& series, std::size_t index, const Axis& x, const Axis& y) {
  std::string path, marks;
  for (const LogPoint& point : series.points) {
    if (!Shown(point)) continue;
    const double px = x.Place(point.x), py = y.Place(point.y.value);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", px, py);
    if (point.y.low > 0 && point.y.high > 0) {
      const double top = std::max(y.Place(point.y.high), y.end);
      const double bottom = std::min(y.Place(point.y.low), y.begin);
      marks += ChartLine(fmt::format("span s{}", index).c_str(), px, bottom, px, top);
    }
    marks +=
        fmt::format("<circle class=\"s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n", index, px, py);
  }
  return fmt::format("<path class=\"s{}\" style=\"fill:none\" stroke-width=\"2\" d=\"{}\"/>\n",
                     index, path) +
         marks;
}

std::string Legend(const LogChart& chart) {
  std::string svg;
  double left = 0;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    svg += fmt::format(
        "<rect class=\"s{}\" x=\"{:.1f}\" y=\"27\" width=\"10\" height=\"10\" rx=\"2\"/>\n", i,
        left);
    svg += Text(left + 15, 36, "start", chart.series[i].name);
    left += 34 + static_cast<double>(chart.series[i].name.size()) * 8;
  }
  return svg;
}

}  // namespace

std::string LogLogChartSvg(const LogChart& chart, ChartSize size) {
  const bool narrow = size == ChartSize::kNarrow;
  const double width = narrow ? 340 : 760, height = narrow ? 320 : 400;
  Axis x = MakeAxis(chart, 2, [](const LogPoint& point) { return point.x; });
  Axis y = MakeAxis(chart, 10, [](const LogPoint& point) { return point.y.value; });
  x.begin = 52;
  x.end = width - 14;
  y.begin = height - 46;
  y.end = 58;
  const int most_ticks = narrow ? 5 : 10;
  const int x_every = std::max(1, (x.high - x.low + most_ticks - 1) / most_ticks);
  const std::string id = fmt::format("{}-{}", HtmlEscape(chart.id), narrow ? "narrow" : "wide");
  std::string svg = fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-labelledby=\"{}-title {}-desc\"><title id=\"{}-title\">{}</title>"
      "<desc id=\"{}-desc\">{}</desc>\n",
      width, height, id, id, id, HtmlEscape(chart.title), id, HtmlEscape(chart.description));
  svg += Text(0, 14, "start", chart.y_label) + Legend(chart) + Grid(x, y, x_every);
  svg += Text((x.begin + x.end) / 2, height - 8, "middle", chart.x_label);
  // Ours, the first, is drawn last and so on top.
  for (std::size_t i = chart.series.size(); i-- > 0;) svg += SeriesSvg(chart.series[i], i, x, y);
  return svg + "</svg>\n";
}

}  // namespace paceline::bench
