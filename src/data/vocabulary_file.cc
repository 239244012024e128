#include "data/vocabulary_file.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "data/fnv.h"
#include "data/input_file.h"

namespace paceline::data {

namespace {

constexpr std::string_view kFirstLine = "paceline-vocabulary 1";

Status BadLine(std::size_t line, std::string_view what) {
  return Status::Error(Code::kBadData, fmt::format("line {}: {}", line, what));
}

// Lines of a text, with their numbers. Thread-compatible.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : text_(text), rest_(text) {}

  std::size_t number() const { return number_; }  // of the line that Next gave last
  std::size_t begin() const { return begin_; }    // its first byte
  bool AtEnd() const { return rest_.empty(); }

  Result<std::string_view> Next() {
    ++number_;
    begin_ = text_.size() - rest_.size();
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) return BadLine(number_, "the file ends here; it was cut");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }

  // The value of a line "name value".
  Result<std::string_view> Field(std::string_view name) {
    PACELINE_ASSIGN(std::string_view line, Next());
    if (!line.starts_with(name) || line.substr(name.size(), 1) != " ") {
      return BadLine(number_, fmt::format("not \"{} ...\"", name));
    }
    return line.substr(name.size() + 1);
  }

 private:
  std::string_view text_, rest_;
  std::size_t number_ = 0, begin_ = 0;
};

Status CheckSum(LineReader& lines, std::string_view text, std::string_view line) {
  const std::string wanted = fmt::format("checksum {:016x}", Fnv(text.substr(0, lines.begin())));
  if (line != wanted) return BadLine(lines.number(), "the checksum is wrong; the file is damaged");
  if (!lines.AtEnd()) return BadLine(lines.number() + 1, "more after the checksum");
  return {};
}

}  // namespace

std::string VocabularyFile::ToText() const {
  std::string text = fmt::format("{}\nkind {}\ncase {}\nlearnt-from {}\n", kFirstLine, kind,
                                 lower_case ? "lower" : "keep", learnt_from);
  for (const std::string& entry : entries) (text += entry) += '\n';
  return text + fmt::format("checksum {:016x}\n", Fnv(text));
}

Result<VocabularyFile> VocabularyFile::Parse(std::string_view text) {
  LineReader lines(text);
  VocabularyFile file;
  PACELINE_ASSIGN(const std::string_view first, lines.Next());
  if (first != kFirstLine) return BadLine(1, fmt::format("not \"{}\"", kFirstLine));
  PACELINE_ASSIGN(file.kind, lines.Field("kind"));
  PACELINE_ASSIGN(const std::string_view letters, lines.Field("case"));
  if (letters != "keep" && letters != "lower") return BadLine(3, "the case is not keep or lower");
  file.lower_case = letters == "lower";
  PACELINE_ASSIGN(file.learnt_from, lines.Field("learnt-from"));
  for (;;) {
    PACELINE_ASSIGN(const std::string_view line, lines.Next());
    // An entry may begin like this too, but never is the last line.
    if (line.starts_with("checksum ") && lines.AtEnd()) {
      PACELINE_TRY(CheckSum(lines, text, line));
      return file;
    }
    file.entries.emplace_back(line);
  }
}

Result<VocabularyFile> VocabularyFile::Load(const std::filesystem::path& path) {
  PACELINE_ASSIGN(const InputFile input, InputFile::Open(path.string()));
  if (input.bytes() > kMaxBytes) {
    return Status::Error(Code::kBadData, fmt::format("{}: {} bytes; a vocabulary has at most {}",
                                                     path.string(), input.bytes(), kMaxBytes));
  }
  std::string text(input.bytes(), '\0');
  PACELINE_TRY(input.ReadAt(0, std::as_writable_bytes(std::span(text))));
  Result<VocabularyFile> file = Parse(text);
  return file.ok() ? std::move(file) : file.status().Wrap(path.string());
}

Status VocabularyFile::Save(const std::filesystem::path& path) const {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  // Other processes may write the same at the same time; the last rename wins, with equal bytes.
  const std::filesystem::path unfinished = fmt::format("{}.{}.tmp", path.string(), ::getpid());
  std::ofstream stream(unfinished, std::ios::binary);
  stream << ToText();
  stream.close();
  if (stream) std::filesystem::rename(unfinished, path, error);
  if (stream && !error) return {};
  std::error_code ignored;
  std::filesystem::remove(unfinished, ignored);
  return Status::Error(Code::kDisk, fmt::format("{}: cannot be written{}", path.string(),
                                                error ? ": " + error.message() : ""));
}

std::string EscapePiece(std::string_view piece) {
  std::string text;
  for (const char c : piece) {
    if (c > ' ' && c < 0x7F && c != '\\') {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text;
}

Result<std::string> UnescapePiece(std::string_view text) {
  std::string piece;
  while (!text.empty()) {
    std::size_t used = 1;
    char c = text.front();
    if (c == '\\') {
      unsigned byte = 0;
      const auto [end, error] =
          std::from_chars(text.data() + std::min<std::size_t>(2, text.size()),
                          text.data() + std::min<std::size_t>(4, text.size()), byte, 16);
      if (!text.starts_with("\\x") || error != std::errc{} || end != text.data() + 4) {
        return Status::Error(Code::kBadData, "a backslash without xHH");
      }
      c = static_cast<char>(byte);
      used = 4;
    } else if (c <= ' ' || c >= 0x7F) {
      return Status::Error(Code::kBadData, "a byte that should be written as \\xHH");
    }
    piece += c;
    text.remove_prefix(used);
  }
  return piece;
}

Status BadEntry(std::size_t entry, std::string_view what) {
  return BadLine(VocabularyFile::kFirstEntryLine + entry, what);
}

}  // namespace paceline::data
