#include "bench/svg_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "bench/html.h"

namespace paceline::bench {

namespace {

struct Geometry {
  double width, left, right, top, bottom, font;
  bool narrow;
};

Geometry MakeGeometry(ChartSize size) {
  if (size == ChartSize::kNarrow) return {340, 30, 0, 64, 30, 12, true};
  return {760, 34, 0, 68, 30, 13, false};
}

std::string Open(const Chart& chart, ChartSize size, double width, double height) {
  const std::string id =
      fmt::format("{}-{}", HtmlEscape(chart.id), size == ChartSize::kNarrow ? "narrow" : "wide");
  return fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
      "aria-labelledby=\"{}-title {}-desc\"><title id=\"{}-title\">{}</title>"
      "<desc id=\"{}-desc\">{}</desc>\n",
      width, height, id, id, id, HtmlEscape(chart.title), id, HtmlEscape(chart.description));
}

std::string Line(const char* css, double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", css, x1, y1,
      x2, y2);
}

struct TextStyle {
  const char* css = "label";
  const char* anchor = "middle";
  double size = 13;
};

std::string Text(double x, double y, const std::string& text, const TextStyle& style) {
  return fmt::format(
      "<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" "
      "font-size=\"{:g}\">{}</text>\n",
      style.css, x, y, style.anchor, style.size, HtmlEscape(text));
}

// Names of the series with their colours in one line; the estimate of a letter's width is generous.
std::string Legend(const Chart& chart, double y, double font) {
  std::string svg;
  double x = 0;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    svg += fmt::format(
        "<rect class=\"s{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" rx=\"2\"/>\n", i,
        x, y - 9);
    svg += Text(x + 15, y, chart.series[i].name, {"name", "start", font});
    x += 34 + static_cast<double>(chart.series[i].name.size()) * font * 0.6;
  }
  return svg;
}

struct Range {
  double low = 0;
  double high = 0;
};

Range FindRange(const Chart& chart, double include) {
  Range range{include, include};
  for (const ChartSeries& series : chart.series) {
    for (const auto& value : series.values) {
      if (!value) continue;
      range.low = std::min({range.low, value->value, value->low});
      range.high = std::max({range.high, value->value, value->high});
    }
  }
  return range;
}

// As many decimals as the step needs: 0.25 gives 1.00, 1.25.
std::string FormatTick(double tick, double step) {
  int decimals = 0;
  for (double scaled = step; decimals < 6; ++decimals, scaled *= 10) {
    if (std::abs(scaled - std::round(scaled)) < 1e-6) break;
  }
  return fmt::format("{:.{}f}", tick, decimals);
}

struct BarPlace {
  double x, width, y, base;
  double low_y, high_y;
};

std::string Bar(const BarPlace& place, std::size_t series, const std::string& label, double font) {
  const double middle = place.x + place.width / 2;
  const double cap = std::min(4.0, place.width / 4);
  std::string svg = fmt::format(
      "<rect class=\"s{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "rx=\"2\"/>\n",
      series, place.x, place.y, place.width, std::max(0.0, place.base - place.y));
  // The halo keeps the whisker visible where it crosses the bar.
  svg += Line("halo", middle, place.low_y, middle, place.high_y);
  svg += Line("whisker", middle, place.low_y, middle, place.high_y);
  svg += Line("whisker", middle - cap, place.low_y, middle + cap, place.low_y);
  svg += Line("whisker", middle - cap, place.high_y, middle + cap, place.high_y);
  svg += Text(middle, std::min(place.y, place.high_y) - 6, label, {"value", "middle", font});
  return svg;
}

}  // namespace

double TickStep(double span, int count) {
  if (!(span > 0) || !std::isfinite(span)) return 1;
  const double raw = span / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::string BarChartSvg(const Chart& chart, ChartSize size) {
  Geometry g = MakeGeometry(size);
  const double height = g.narrow ? 300 : 360;
  const double base = height - g.bottom;
  const Range range = FindRange(chart, 0);
  const double step = TickStep(range.high, g.narrow ? 4 : 5);
  const double top_value = std::max(step, std::ceil(range.high / step) * step);
  const auto y_of = [&](double value) { return base - value / top_value * (base - g.top); };
  // A digit is two thirds of the font's size wide at most.
  const auto digits = static_cast<double>(FormatTick(top_value, step).size());
  g.left = std::max(g.left, 8 + digits * g.font * 2 / 3);

  std::string svg = Open(chart, size, g.width, height);
  svg += Text(0, 14, chart.value_label, {"label", "start", g.font});
  svg += Legend(chart, 36, g.font);
  for (int i = 0; i <= std::lround(top_value / step); ++i) {
    const double tick = i * step;
    svg += Line(tick == 0 ? "axis" : "grid", g.left, y_of(tick), g.width - g.right, y_of(tick));
    svg += Text(g.left - 8, y_of(tick) + 4, FormatTick(tick, step), {"label", "end", g.font});
  }
  const auto groups = static_cast<double>(std::max<std::size_t>(1, chart.categories.size()));
  const auto bars = static_cast<double>(std::max<std::size_t>(1, chart.series.size()));
  const double group_width = (g.width - g.left - g.right) / groups;
  const double bar_width = std::min(group_width * 0.76 / bars, 56.0);
  for (std::size_t c = 0; c < chart.categories.size(); ++c) {
    const double middle = g.left + group_width * (static_cast<double>(c) + 0.5);
    svg += Text(middle, base + 20, chart.categories[c], {"name", "middle", g.font});
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
      if (c >= chart.series[s].values.size() || !chart.series[s].values[c]) continue;
      const ChartValue& value = *chart.series[s].values[c];
      const double x = middle + (static_cast<double>(s) - bars / 2) * bar_width;
      // Neighbouring labels must not touch: without decimals where bars are slim.
      const std::string label = fmt::format("{:.{}f}", value.value, bar_width < 34 ? 0 : 1);
      svg +=
          Bar({x + 1.5, bar_width - 3, y_of(value.value), base, y_of(value.low), y_of(value.high)},
              s, label, g.narrow ? 11 : 12);
    }
  }
  return svg + "</svg>\n";
}

std::string DotChartSvg(const Chart& chart, double reference, ChartSize size) {
  const Geometry g = MakeGeometry(size);
  const double row = g.narrow ? 30 : 34;
  const auto rows = static_cast<double>(chart.categories.size() * chart.series.size());
  const double top = chart.series.size() > 1 ? 52 : 28;
  const double base = top + row * std::max(1.0, rows);
  const double left = g.narrow ? 84 : 120;
  const Range range = FindRange(chart, reference);
  const double step = TickStep(std::max(range.high - range.low, reference * 0.2), g.narrow ? 4 : 6);
  const double low = std::floor((range.low - step * 0.1) / step) * step;
  const double high = std::ceil((range.high + step * 0.1) / step) * step;
  const double right = g.width - (g.narrow ? 48 : 64);  // room for the value
  const auto x_of = [&](double value) {
    return left + (value - low) / (high - low) * (right - left);
  };

  std::string svg = Open(chart, size, g.width, base + 46);
  if (chart.series.size() > 1) svg += Legend(chart, 14, g.font);
  for (int i = 0; i <= std::lround((high - low) / step); ++i) {
    const double tick = low + i * step;
    svg += Line("grid", x_of(tick), top, x_of(tick), base);
    svg += Text(x_of(tick), base + 18, FormatTick(tick, step), {"label", "middle", g.font});
  }
  svg += Line("reference", x_of(reference), top - 6, x_of(reference), base);
  svg += Text(x_of(reference), top - 11, "equal", {"label", "middle", g.font});
  svg += Text((left + right) / 2, base + 38, chart.value_label, {"label", "middle", g.font});
  double y = top + row / 2;
  for (std::size_t c = 0; c < chart.categories.size(); ++c) {
    svg += Text(0, y + 4, chart.categories[c], {"name", "start", g.font});
    for (std::size_t s = 0; s < chart.series.size(); ++s, y += row) {
      if (c >= chart.series[s].values.size() || !chart.series[s].values[c]) continue;
      const ChartValue& value = *chart.series[s].values[c];
      svg += Line(fmt::format("span s{}", s).c_str(), x_of(value.low), y, x_of(value.high), y);
      svg += fmt::format("<circle class=\"s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\"/>\n", s,
                         x_of(value.value), y);
      svg += Text(g.width, y + 4, fmt::format("{:.2f} ×", value.value), {"value", "end", g.font});
    }
  }
  return svg + "</svg>\n";
}

}  // namespace paceline::bench
