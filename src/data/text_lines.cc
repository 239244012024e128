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

#include "data/fnv.h"

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

// The part of `bytes` that is whole lines: all of it at the end of a file.
std::string_view WholeLines(std::string_view bytes, bool last) {
  return last ? bytes : bytes.substr(0, bytes.rfind('\n') + 1);
}

// "line 12, byte offset 345"
std::string PlaceText(std::uint64_t line, std::uint64_t offset) {
  return fmt::format("line {}, byte offset {}", line, offset);
}

}  // namespace

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

Result<std::vector<std::filesystem::path>> FilesAt(const std::filesystem::path& path) {
  std::error_code ignored;  // opening it will tell
  if (!std::filesystem::is_directory(path, ignored)) return std::vector{path};
  PACELINE_ASSIGN(auto files, FilesOf(path));
  if (!files.empty()) return files;
  return Status::Error(Code::kBadData, fmt::format("{}: no file in this folder", path.string()));
}

Result<TextLines> TextLines::Open(const std::filesystem::path& path, const Visit& visit) {
  PACELINE_ASSIGN(const auto files, FilesAt(path));
  return Open(files, visit);
}

Result<TextLines> TextLines::Open(const std::vector<std::filesystem::path>& files,
                                  const Visit& visit) {
  TextLines lines;
  for (const auto& file : files) PACELINE_TRY(lines.AddFile(file, visit));
  if (lines.size() == 0) {
    return Status::Error(
        Code::kBadData,
        fmt::format("{}: no line", files.empty() ? "no file" : files.front().string()));
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
  std::uint64_t hash = kFnvStart;
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
    hash = Fnv(rest, hash);
    while (!rest.empty()) {
      line = rest.substr(0, rest.find('\n'));
      const std::size_t used = std::min(rest.size(), line.size() + 1);
      if (file.lines++ % kStride == 0) file.places.push_back(offset);
      if (const Status seen = visit(line); !seen.ok()) {
        return seen.Wrap(fmt::format("{}: {}", file.path, PlaceText(file.lines, offset)));
      }
      offset += used;
      rest.remove_prefix(used);
    }
  }
  fingerprint_ += fmt::format(
      "{}:{}:{:016x} ", std::filesystem::path(file.path).filename().string(), file.bytes, hash);
  lines_ += file.lines;
  return {};
}

const TextLines::File& TextLines::FileOf(std::uint64_t number) const {
  return *std::prev(std::ranges::upper_bound(files_, number, {}, &File::first_line));
}

std::vector<TextLines::FileLines> TextLines::Files() const {
  std::vector<FileLines> files;
  for (const File& file : files_) files.push_back({file.path, file.first_line, file.lines});
  return files;
}

Status TextLines::ReadBlock(const File& file, std::uint64_t block, std::string& bytes) {
  const std::uint64_t begin = file.places[block];
  const std::uint64_t end = block + 1 < file.places.size() ? file.places[block + 1] : file.bytes;
  bytes.resize(end - begin);
  PACELINE_ASSIGN(const std::size_t got, ReadUpTo(file.fd.get(), file.path, begin, bytes));
  if (got == bytes.size()) return {};
  return BadText(file.path, begin + got, "the file ends here; it has shrunk since it was opened");
}

Status TextLines::ForEach(std::uint64_t first, std::uint64_t count, const VisitAgain& visit) const {
  if (first > lines_ || count > lines_ - first) {
    return Status::Error(Code::kInvalidArgument,
                         fmt::format("lines {} to {} of {}", first, first + count, lines_));
  }
  std::string bytes;
  for (std::uint64_t next = first; next < first + count;) {
    const File& file = FileOf(next);
    const std::uint64_t block = (next - file.first_line) / kStride;
    PACELINE_TRY(ReadBlock(file, block, bytes));
    std::string_view rest = bytes;
    std::uint64_t number = file.first_line + block * kStride;
    const std::uint64_t end =
        std::min({first + count, number + kStride, file.first_line + file.lines});
    for (; number < end; ++number) {
      if (rest.empty()) {
        return BadText(file.path, file.places[block], "fewer lines than when it was opened");
      }
      const std::string_view line = rest.substr(0, rest.find('\n'));
      if (number >= next) PACELINE_TRY(visit(number, line));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    }
    next = number;
  }
  return {};
}

Status TextLines::Read(std::uint64_t number, std::string& line) const {
  if (number >= lines_) {
    return Status::Error(Code::kInvalidArgument, fmt::format("line {} of {}", number, lines_));
  }
  return ForEach(number, 1, [&line](std::uint64_t, std::string_view text) -> Status {
    line = text;
    return {};
  });
}

std::string TextLines::Describe(std::uint64_t number) const {
  const File& file = FileOf(number);
  const std::uint64_t local = number - file.first_line;
  const std::uint64_t block = local / kStride;
  std::uint64_t offset = file.places[block];
  // Only for a message: what cannot be read any more does not count.
  const Status read = ForEach(number - local % kStride, local % kStride,
                              [&offset](std::uint64_t, std::string_view line) -> Status {
                                offset += line.size() + 1;
                                return {};
                              });
  return fmt::format("{}: {}", file.path,
                     read.ok() ? PlaceText(local + 1, offset) : fmt::format("line {}", local + 1));
}

}  // namespace paceline::data
