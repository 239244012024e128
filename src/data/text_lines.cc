#include "data/text_lines.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
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

// The part of `bytes` that is whole lines: all of it at the end of a file.
std::string_view WholeLines(std::string_view bytes, bool last) {
  return last ? bytes : bytes.substr(0, bytes.rfind('\n') + 1);
}

}  // namespace

Result<TextLines> TextLines::Open(const std::filesystem::path& folder, const Visit& visit) {
  PACELINE_ASSIGN(const auto paths, FilesOf(folder));
  TextLines lines;
  for (const auto& path : paths) PACELINE_TRY(lines.AddFile(path, visit));
  if (lines.size() == 0) {
    return Status::Error(Code::kBadData, fmt::format("{}: no line", folder.string()));
  }
  return lines;
}

Status TextLines::AddFile(const std::filesystem::path& path, const Visit& visit) {
  // Not blocking: opening a FIFO would otherwise wait for a writer for ever.
  File file{.path = path.string(),
            .fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
            .first_line = lines_};
  struct stat info {};
  if (!file.fd.valid() || ::fstat(file.fd.get(), &info) != 0) {
    return Status::Error(Code::kBadData, fmt::format("{}: cannot be opened: {}", file.path,
                                                     std::generic_category().message(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return Status::Error(Code::kBadData, fmt::format("{}: is not a regular file", file.path));
  }
  file.bytes = static_cast<std::uint64_t>(info.st_size);
  PACELINE_TRY(ScanFile(file, visit));
  files_.push_back(std::move(file));
  return {};
}

Status TextLines::ScanFile(File& file, const Visit& visit) {
  std::vector<char> buffer(kLongestLine);
  std::string line;
  std::uint64_t lines = 0, hash = 0xCBF29CE484222325ULL;
  for (std::uint64_t offset = 0; offset < file.bytes;) {
    const std::uint64_t wanted = std::min<std::uint64_t>(buffer.size(), file.bytes - offset);
    PACELINE_ASSIGN(const std::size_t got,
                    ReadUpTo(file.fd.get(), file.path, offset, {buffer.data(), wanted}));
    const std::string_view bytes(buffer.data(), got);
    if (const std::size_t zero = bytes.find('\0'); zero != std::string_view::npos) {
      return BadText(file.path, offset + zero, "a byte 0; this is not text");
    }
    std::string_view rest = WholeLines(bytes, offset + got == file.bytes);
    if (rest.empty()) {
      return BadText(file.path, offset, fmt::format("no end of line for {} bytes", got));
    }
    hash = Hash(rest, hash);
    while (!rest.empty()) {
      line = rest.substr(0, rest.find('\n'));
      const std::size_t used = std::min(rest.size(), line.size() + 1);
      if (lines++ % kStride == 0) file.places.push_back(offset);
      PACELINE_TRY(visit(line).Wrap(fmt::format("{}: byte offset {}", file.path, offset)));
      offset += used;
      rest.remove_prefix(used);
    }
  }
  fingerprint_ += fmt::format(
      "{}:{}:{:016x} ", std::filesystem::path(file.path).filename().string(), file.bytes, hash);
  lines_ += lines;
  return {};
}

const TextLines::File& TextLines::FileOf(std::uint64_t number) const {
  return *std::prev(std::ranges::upper_bound(files_, number, {}, &File::first_line));
}

std::string TextLines::Describe(std::uint64_t number) const {
  const File& file = FileOf(number);
  return fmt::format("{}: line {}", file.path, number - file.first_line + 1);
}

Status TextLines::Read(std::uint64_t number, std::string& line) const {
  if (number >= lines_) {
    return Status::Error(Code::kInvalidArgument, fmt::format("line {} of {}", number, lines_));
  }
  const File& file = FileOf(number);
  const std::uint64_t block = (number - file.first_line) / kStride;
  const std::uint64_t begin = file.places[block];
  const std::uint64_t end = block + 1 < file.places.size() ? file.places[block + 1] : file.bytes;
  line.resize(end - begin);
  PACELINE_ASSIGN(const std::size_t got, ReadUpTo(file.fd.get(), file.path, begin, line));
  if (got != line.size()) {
    return BadText(file.path, begin + got, "the file ends here; it has shrunk since it was opened");
  }
  std::size_t first = 0;
  for (std::uint64_t skip = (number - file.first_line) % kStride; skip > 0; --skip) {
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

}  // namespace paceline::data
