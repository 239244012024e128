#include "data/text_corpus.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

namespace paceline::data {

namespace {

Status BadText(const std::string& path, std::uint64_t offset, std::string_view what) {
  return Status::Error(Code::kBadData, fmt::format("{}: byte offset {}: {}", path, offset, what));
}

// Reads at most bytes.size() bytes; fewer only at the end of the file.
Result<std::size_t> ReadUpTo(int fd, const std::string& path, std::uint64_t offset,
                             std::span<char> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return BadText(path, offset + done, std::generic_category().message(errno));
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void CountWords(std::string& line, WordCounts& counts) {
  NormaliseLine(line);
  for (std::string_view rest = line; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    auto found = counts.find(word);
    if (found == counts.end()) found = counts.emplace(word, 0).first;
    ++found->second;
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
}

// FNV-1a, 64 bits. Tells different files apart; not meant against an attacker.
std::uint64_t Hash(std::string_view bytes, std::uint64_t hash) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return hash;
}

Result<std::vector<std::filesystem::path>> FilesOf(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with('.')) paths.push_back(entry->path());
  }
  if (error) {
    return Status::Error(Code::kBadData, fmt::format("{}: {}", folder.string(), error.message()));
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

Result<std::unique_ptr<TextCorpus>> TextCorpus::Open(const std::filesystem::path& folder,
                                                     const TextCorpusOptions& options) {
  PACELINE_ASSIGN(const auto paths, FilesOf(folder));
  std::unique_ptr<TextCorpus> corpus(new TextCorpus());
  const bool count = options.vocabulary.empty();
  if (!count) {
    PACELINE_ASSIGN(corpus->vocabulary_, Vocabulary::Load(options.vocabulary));
  }
  corpus->fingerprint_ = "text";
  WordCounts counts;
  for (const auto& path : paths) {
    PACELINE_TRY(corpus->AddFile(path, count ? &counts : nullptr));
  }
  if (corpus->sentences_ == 0) {
    return Status::Error(Code::kBadData, fmt::format("{}: no sentence", folder.string()));
  }
  if (count) corpus->vocabulary_ = Vocabulary(counts, options.min_count);
  std::uint64_t hash = 0;
  for (std::size_t id = 0; id < corpus->vocabulary_.size(); ++id) {
    hash = Hash(corpus->vocabulary_.word(static_cast<std::int32_t>(id)), hash);
    hash = Hash(" ", hash);
  }
  corpus->fingerprint_ += fmt::format(" sentences:{} words:{}:{:016x}", corpus->sentences_,
                                      corpus->vocabulary_.size(), hash);
  return corpus;
}

Status TextCorpus::AddFile(const std::filesystem::path& path, WordCounts* counts) {
  // Not blocking: opening a FIFO would otherwise wait for a writer for ever.
  File file{.path = path.string(),
            .fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
            .first_sentence = sentences_};
  struct stat info {};
  if (!file.fd.valid() || ::fstat(file.fd.get(), &info) != 0) {
    return Status::Error(Code::kBadData, fmt::format("{}: cannot be opened: {}", file.path,
                                                     std::generic_category().message(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return Status::Error(Code::kBadData, fmt::format("{}: is not a regular file", file.path));
  }
  file.bytes = static_cast<std::uint64_t>(info.st_size);
  PACELINE_TRY(ScanFile(file, counts));
  files_.push_back(std::move(file));
  return {};
}

Status TextCorpus::ScanFile(File& file, WordCounts* counts) {
  std::vector<char> buffer(kLongestLine);
  std::string line;
  std::uint64_t lines = 0, hash = 0xCBF29CE484222325ULL;
  for (std::uint64_t offset = 0; offset < file.bytes;) {
    const std::uint64_t wanted = std::min<std::uint64_t>(buffer.size(), file.bytes - offset);
    PACELINE_ASSIGN(const std::size_t got,
                    ReadUpTo(file.fd.get(), file.path, offset, {buffer.data(), wanted}));
    std::string_view rest(buffer.data(), got);
    if (const std::size_t zero = rest.find('\0'); zero != std::string_view::npos) {
      return BadText(file.path, offset + zero, "a byte 0; this is not text");
    }
    const bool last = offset + got == file.bytes;
    const std::uint64_t start = offset;
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      if (end == std::string_view::npos && !last) break;  // goes on in the next part
      line = rest.substr(0, end);
      if (lines++ % kStride == 0) file.places.push_back(offset);
      hash = Hash(line, hash);
      if (counts != nullptr) CountWords(line, *counts);
      const std::size_t used = std::min(rest.size(), end == rest.npos ? end : end + 1);
      offset += used;
      rest.remove_prefix(used);
    }
    if (offset == start) {
      return BadText(file.path, offset, fmt::format("no end of line for {} bytes", got));
    }
  }
  fingerprint_ += fmt::format(
      " {}:{}:{:016x}", std::filesystem::path(file.path).filename().string(), file.bytes, hash);
  sentences_ += lines;
  return {};
}

Status TextCorpus::ReadLine(std::uint64_t sentence, std::string& line) const {
  const auto after = std::ranges::upper_bound(files_, sentence, {}, &File::first_sentence);
  const File& file = *std::prev(after);
  const std::uint64_t number = sentence - file.first_sentence, block = number / kStride;
  const std::uint64_t begin = file.places[block];
  const std::uint64_t end = block + 1 < file.places.size() ? file.places[block + 1] : file.bytes;
  line.resize(end - begin);
  PACELINE_ASSIGN(const std::size_t got, ReadUpTo(file.fd.get(), file.path, begin, line));
  if (got != line.size()) {
    return BadText(file.path, begin + got, "the file ends here; it has shrunk since it was opened");
  }
  std::size_t first = 0;
  for (std::uint64_t skip = number % kStride; skip > 0; --skip) {
    const std::size_t newline = line.find('\n', first);
    if (newline == std::string::npos) {
      return BadText(file.path, begin, "fewer lines than when it was opened");
    }
    first = newline + 1;
  }
  line.erase(std::min(line.find('\n', first), line.size()));
  line.erase(0, first);
  return {};
}

Status TextCorpus::Read(std::uint64_t sentence, std::vector<std::int32_t>& words) const {
  if (sentence >= sentences_) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("sentence {} of {}", sentence, sentences_));
  }
  std::string line;
  PACELINE_TRY(ReadLine(sentence, line));
  NormaliseLine(line);
  words.clear();
  for (std::string_view rest = line; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    words.push_back(vocabulary_.Find(word));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  return {};
}

}  // namespace paceline::data
