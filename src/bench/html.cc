#include "bench/html.h"

#include <fmt/format.h>

#include "bench/html_style.h"

namespace paceline::bench {

std::string HtmlEscape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string ParagraphHtml(std::string_view text) {
  return fmt::format("<p>{}</p>\n", HtmlEscape(text));
}

std::string CodeHtml(std::string_view text) {
  return fmt::format("<pre><code>{}</code></pre>\n", HtmlEscape(text));
}

std::string TableHtml(const HtmlTable& table) {
  // The box is focusable, so that the keyboard can scroll it; the caption stays in view outside it.
  std::string html = fmt::format(
      "<p class=\"caption\">{0}</p>\n"
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">"
      "<table aria-label=\"{0}\">\n<thead><tr>",
      HtmlEscape(table.caption));
  for (const std::string& cell : table.header) {
    html += fmt::format("<th scope=\"col\">{}</th>", HtmlEscape(cell));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    html += r < table.emphasized_rows ? "<tr class=\"ours\">" : "<tr>";
    for (std::size_t c = 0; c < table.rows[r].size(); ++c) {
      html += c == 0 ? fmt::format("<th scope=\"row\">{}</th>", HtmlEscape(table.rows[r][c]))
                     : fmt::format("<td>{}</td>", HtmlEscape(table.rows[r][c]));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string FactsHtml(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string html = "<dl>\n";
  for (const auto& [name, value] : facts) {
    html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", HtmlEscape(name), HtmlEscape(value));
  }
  return html + "</dl>\n";
}

std::string TilesHtml(const std::vector<Tile>& tiles) {
  std::string html = "<ul class=\"tiles\">\n";
  for (const Tile& tile : tiles) {
    html += fmt::format("<li><strong>{}</strong><span>{}</span><small>{}</small></li>\n",
                        HtmlEscape(tile.value), HtmlEscape(tile.label), HtmlEscape(tile.detail));
  }
  return html + "</ul>\n";
}

std::string NoticeHtml(Tone tone, std::string_view heading, const std::vector<std::string>& lines) {
  std::string html = fmt::format("<aside class=\"{}\"><h2>{}</h2><ul>\n",
                                 tone == Tone::kError ? "error" : "warning", HtmlEscape(heading));
  for (const std::string& line : lines) html += fmt::format("<li>{}</li>\n", HtmlEscape(line));
  return html + "</ul></aside>\n";
}

std::string FigureHtml(std::string_view wide_svg_html, std::string_view narrow_svg_html,
                       std::string_view caption) {
  return fmt::format(
      "<figure><div class=\"wide\">{}</div><div class=\"narrow\">{}</div>"
      "<figcaption>{}</figcaption></figure>\n",
      wide_svg_html, narrow_svg_html, HtmlEscape(caption));
}

std::string PageHtml(const PageOptions& options, const std::vector<PageSection>& sections) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<header>\n<p class=\"brand\">Paceline</p>\n"
      "<h1>{0}</h1>\n<p class=\"lead\">{2}</p>\n</header>\n<main>\n",
      HtmlEscape(options.title), kPageStyle, HtmlEscape(options.lead));
  for (const PageSection& section : sections) {
    html += "<section>\n";
    if (!section.heading.empty()) {
      html += fmt::format("<h2>{}</h2>\n", HtmlEscape(section.heading));
    }
    html += section.html + "</section>\n";
  }
  return html + fmt::format("</main>\n<footer><p>{}</p></footer>\n</body>\n</html>\n",
                            HtmlEscape(options.footer));
}

}  // namespace paceline::bench
