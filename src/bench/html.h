#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::bench {

// Small pieces of self-contained HTML pages: no script, no external resource. Functions named
// `...Html` return markup; every `text` argument is escaped, every `html` argument is not.

std::string HtmlEscape(std::string_view text);

std::string ParagraphHtml(std::string_view text);
std::string CodeHtml(std::string_view text);

// The first column holds row headings. Scrolls inside its own box when the screen is narrow.
struct HtmlTable {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  std::size_t emphasized_rows = 0;  // this many from the top
};
std::string TableHtml(const HtmlTable& table);

// A list of names with their values.
std::string FactsHtml(const std::vector<std::pair<std::string, std::string>>& facts);

// Big figures with a caption each.
struct Tile {
  std::string value;
  std::string label;
  std::string detail;
};
std::string TilesHtml(const std::vector<Tile>& tiles);

enum class Tone { kWarning, kError };
std::string NoticeHtml(Tone tone, std::string_view heading, const std::vector<std::string>& lines);

// A chart in two sizes of the same picture; the style sheet shows the one that fits.
std::string FigureHtml(std::string_view wide_svg_html, std::string_view narrow_svg_html,
                       std::string_view caption);

struct PageSection {
  std::string heading;  // empty: none
  std::string html;
};
struct PageOptions {
  std::string title;
  std::string lead;  // one sentence below the title
  std::string footer;
};
std::string PageHtml(const PageOptions& options, const std::vector<PageSection>& sections);

}  // namespace paceline::bench
