#include "data/mteval_words.h"

#include <utility>

#include "data/characters.h"

namespace paceline::data {

namespace {

constexpr std::pair<std::string_view, std::string_view> kReplaced[] = {
    {"<skipped>", ""}, {"-\n", ""}, {"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}};

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsStop(char c) { return c == '.' || c == ','; }

// Signs of ASCII but for apostrophe, dash, full stop and comma.
bool IsSign(char c) {
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

std::string SetSignsApart(std::string_view text) {
  std::string apart;
  for (const char c : text) {
    if (IsSign(c)) {
      apart += {' ', c, ' '};
    } else {
      apart += c;
    }
  }
  return apart;
}

// Two neighbours, of which one gets blanks around it.
struct PairRule {
  bool (*first)(char);
  bool (*second)(char);
  enum { kFirst, kSecond } apart;
};
constexpr PairRule kPairRules[] = {
    {[](char c) { return !IsDigit(c); }, IsStop, PairRule::kSecond},
    {IsStop, [](char c) { return !IsDigit(c); }, PairRule::kFirst},
    {IsDigit, [](char c) { return c == '-'; }, PairRule::kSecond},
};

// From left to right, no character in two pairs: the script's expressions match that way.
std::string SetPairsApart(std::string_view text, const PairRule& rule) {
  std::string apart;
  std::size_t i = 0;
  for (; i + 1 < text.size(); ++i) {
    const char first = text[i], second = text[i + 1];
    if (!rule.first(first) || !rule.second(second)) {
      apart += first;
      continue;
    }
    if (rule.apart == PairRule::kFirst) {
      apart += {' ', first, ' ', second};
    } else {
      apart += {first, ' ', second, ' '};
    }
    ++i;
  }
  return apart.append(text.substr(i));
}

std::vector<std::string> SplitAtSpace(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  while (!text.empty()) {
    const Character next = FirstCharacter(text);
    const bool space = ClassOf(next.code) == CharacterClass::kSpace;
    if (!space && !inside) words.emplace_back();
    inside = !space;
    if (inside) words.back() += text.substr(0, next.bytes);
    text.remove_prefix(next.bytes);
  }
  return words;
}

}  // namespace

std::vector<std::string> MtevalWords(std::string_view text) {
  std::string line(text);
  for (const auto& [from, to] : kReplaced) ReplaceAll(line, from, to);
  line = SetSignsApart(" " + line + " ");
  for (const PairRule& rule : kPairRules) line = SetPairsApart(line, rule);
  return SplitAtSpace(line);
}

}  // namespace paceline::data
