#include "data/image_scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "data/input_file.h"
#include "data/jpeg.h"
#include "data/kept_file.h"
#include "data/tar.h"
#include "disk/file_system.h"

namespace paceline::data {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestImage = 256 << 20;  // bytes; larger is no photograph
constexpr std::size_t kLongestLabel = 20;
constexpr std::size_t kLongestMessage = 1000;

bool IsJpegSuffix(std::string_view suffix) { return suffix == "jpg" || suffix == "jpeg"; }

bool HasJpegName(std::string_view name) {
  std::string suffix(name.substr(std::min(name.rfind('.'), name.size() - 1) + 1));
  std::ranges::transform(suffix, suffix.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return !name.starts_with('.') && IsJpegSuffix(suffix);
}

void CountBad(ImageIndex& index, std::string message) {
  if (++index.bad_records > 1) return;
  // Names out of a tar file can be anything.
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  index.first_bad = message.substr(0, kLongestMessage);
}

std::optional<ImageIndex::Container> Look(const fs::path& root, const std::string& path, bool tar) {
  struct stat info {};
  if (::stat((root / path).c_str(), &info) != 0) return std::nullopt;
  return ImageIndex::Container{
      .path = path,
      .bytes = tar ? static_cast<std::uint64_t>(info.st_size) : 0,
      .changed_ns = static_cast<std::uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000 +
                    static_cast<std::uint64_t>(info.st_mtim.tv_nsec)};
}

Result<ImageIndex::Container> LookOrFail(const ImageLocation& location, const std::string& path) {
  const auto container = Look(location.root, path, location.tar);
  if (container) return *container;
  return Status::Error(Code::kBadData, fmt::format("{}: {}", (location.root / path).string(),
                                                   std::generic_category().message(errno)));
}

// Why a file cannot be an image, or nothing.
Status CheckImage(const InputFile& file, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes > kLargestImage) {
    return Status::Error(Code::kBadData, fmt::format("{} bytes are no photograph", bytes));
  }
  std::array<std::byte, 3> start{};
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, start.size()));
  PACELINE_TRY(file.ReadAt(offset, std::span(start).first(count)));
  if (LooksLikeJpeg(std::span(start).first(count))) return {};
  return Status::Error(Code::kBadData, "not a JPEG: it does not begin with ff d8 ff");
}

// The names in a folder, sorted.
Result<std::vector<std::string>> Names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) {
    return Status::Error(Code::kBadData, fmt::format("{}: {}", folder.string(), error.message()));
  }
  std::ranges::sort(names);
  return names;
}

Status ScanFolder(const ImageLocation& location, const std::string& path, std::uint32_t label,
                  ImageIndex& index) {
  PACELINE_ASSIGN(ImageIndex::Container container, LookOrFail(location, path));
  index.containers.push_back(std::move(container));
  PACELINE_ASSIGN(const std::vector<std::string> names, Names(location.root / path));
  for (const std::string& name : names) {
    if (!HasJpegName(name)) continue;
    const std::string file_path = (location.root / path / name).string();
    const auto file = InputFile::Open(file_path);
    if (!file.ok()) {
      CountBad(index, file.status().message());
      continue;
    }
    if (const Status status = CheckImage(*file, 0, file->bytes()); !status.ok()) {
      CountBad(index, fmt::format("{}: byte offset 0: {}", file_path, status.message()));
      continue;
    }
    index.images.push_back({.container = static_cast<std::uint32_t>(index.containers.size() - 1),
                            .label = label,
                            .bytes = static_cast<std::uint32_t>(file->bytes()),
                            .place = index.names.size()});
    index.names.append(name).push_back('\0');
  }
  return {};
}

Status ScanFolders(const ImageLocation& location, ImageIndex& index) {
  PACELINE_ASSIGN(ImageIndex::Container top, LookOrFail(location, location.paths.at(0)));
  index.containers.push_back(std::move(top));  // so that new classes are noticed
  for (std::size_t label = 0; label < location.classes.size(); ++label) {
    const std::string path = location.paths.at(0) + "/" + location.classes[label];
    std::error_code ignored;
    if (!fs::is_directory(location.root / path, ignored)) continue;
    PACELINE_TRY(ScanFolder(location, path, static_cast<std::uint32_t>(label), index));
  }
  return {};
}

// Members of a tar file become samples: those side by side that share all up to the first dot.
class ShardScan {
 public:
  ShardScan(const InputFile& file, ImageIndex& index) : file_(file), index_(index) {}

  void Run() {
    TarHeaders headers(file_.bytes(), [this](std::uint64_t offset, std::span<std::byte> bytes) {
      return file_.ReadAt(offset, bytes);
    });
    for (;;) {
      const auto member = headers.Next();
      if (!member.ok() || !*member) {
        Finish();  // what came before is whole
        if (!member.ok()) {
          CountBad(index_, fmt::format("{}: {}", file_.path(), member.status().message()));
        }
        return;
      }
      Take(**member);
    }
  }

 private:
  void Take(const TarMember& member) {
    const std::optional<SampleName> name = SplitSampleName(member.name);
    if (!name) return;
    if (name->sample != sample_) {
      Finish();
      sample_ = name->sample;
      first_offset_ = member.offset;
    }
    if (IsJpegSuffix(name->suffix)) {
      Note(image_.has_value() ? "two images" : "");
      image_ = member;
    } else if (name->suffix == "cls") {
      Note(label_.has_value() ? "two labels" : "");
      label_ = member;
    } else {
      Note(std::ranges::count(others_, name->suffix) > 0 ? "two files with one suffix" : "");
      others_.push_back(name->suffix);
    }
  }

  void Note(const char* wrong) {
    if (wrong_.empty()) wrong_ = wrong;
  }

  void Finish() {
    if (image_ || label_ || !wrong_.empty()) {
      if (const Status status = Add(); !status.ok()) {
        CountBad(index_, fmt::format("{}: sample '{}' at byte offset {}: {}", file_.path(), sample_,
                                     image_ ? image_->offset : first_offset_, status.message()));
      }
    }
    sample_.clear();
    image_.reset();
    label_.reset();
    others_.clear();
    wrong_.clear();
  }

  Status Add() {
    const auto bad = [](const char* what) { return Status::Error(Code::kBadData, what); };
    if (!wrong_.empty()) return bad(wrong_.c_str());
    if (!image_) return bad("no jpg");
    if (!label_) return bad("no cls");
    PACELINE_TRY(CheckImage(file_, image_->offset, image_->bytes));
    PACELINE_ASSIGN(const std::uint32_t label, ReadLabel());
    index_.images.push_back({.container = static_cast<std::uint32_t>(index_.containers.size() - 1),
                             .label = label,
                             .bytes = static_cast<std::uint32_t>(image_->bytes),
                             .place = image_->offset});
    return {};
  }

  // Decimal digits, perhaps with white space around them.
  Result<std::uint32_t> ReadLabel() const {
    std::array<char, kLongestLabel> buffer{};
    const std::size_t count =
        static_cast<std::size_t>(std::min<std::uint64_t>(label_->bytes, buffer.size()));
    PACELINE_TRY(
        file_.ReadAt(label_->offset, std::as_writable_bytes(std::span(buffer).first(count))));
    std::string_view text(buffer.data(), count);
    constexpr std::string_view kSpace = " \t\r\n";
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    text = text.substr(0, text.find_last_not_of(kSpace) + 1);
    std::uint32_t label = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
    if (error != std::errc{} || end != text.data() + text.size() || label_->bytes > count) {
      return Status::Error(Code::kBadData,
                           fmt::format("its cls at byte offset {} is no number", label_->offset));
    }
    return label;
  }

  const InputFile& file_;
  ImageIndex& index_;
  std::string sample_;
  std::uint64_t first_offset_ = 0;
  std::optional<TarMember> image_, label_;
  std::vector<std::string> others_;
  std::string wrong_;
};

}  // namespace

Result<ImageIndex> ScanImages(const ImageLocation& location) {
  ImageIndex index{.tar = location.tar, .classes = location.classes};
  if (!location.tar) {
    PACELINE_TRY(ScanFolders(location, index));
    return index;
  }
  for (const std::string& path : location.paths) {
    PACELINE_ASSIGN(ImageIndex::Container container, LookOrFail(location, path));
    PACELINE_ASSIGN(const InputFile file, InputFile::Open((location.root / path).string()));
    container.bytes = file.bytes();
    index.containers.push_back(std::move(container));
    ShardScan(file, index).Run();
  }
  return index;
}

bool IsCurrent(const ImageIndex& index, const ImageLocation& location) {
  if (index.tar != location.tar || index.classes != location.classes) return false;
  std::vector<std::string> paths;
  for (const ImageIndex::Container& container : index.containers) {
    if (Look(location.root, container.path, index.tar) != container) return false;
    paths.push_back(container.path);
  }
  // The folder that holds the classes comes first, so a new class has changed it.
  return index.tar ? paths == location.paths : !paths.empty() && paths[0] == location.paths.at(0);
}

Result<KeptIndex> LoadOrScan(const ImageLocation& location, const std::filesystem::path& file) {
  KeptIndex kept;
  disk::PosixFileSystem files;
  const auto bytes = disk::ReadWhole(files, file.string(), kMostIndexBytes);
  if (bytes.ok()) {
    auto index = DecodeImageIndex(*bytes);
    if (index.ok() && IsCurrent(*index, location)) {
      kept.index = std::move(index).value();
      return kept;
    }
    if (!index.ok()) {
      kept.warnings.push_back(
          fmt::format("{}: {}; made anew", file.string(), index.status().message()));
    }
  }
  PACELINE_ASSIGN(kept.index, ScanImages(location));
  if (const Status status = KeepFile(file, EncodeImageIndex(kept.index)); !status.ok()) {
    kept.warnings.push_back("the index of images is not kept: " + status.message());
  }
  return kept;
}

}  // namespace paceline::data
