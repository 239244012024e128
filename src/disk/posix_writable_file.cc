#include "disk/posix_writable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

namespace paceline::disk {

namespace {

// Past the cache, memory, offsets and lengths are multiples of a page: enough for every device, and
// no page is then written both ways.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPiece = std::size_t{1} << 20;  // that is copied to aligned memory at a time

}  // namespace

void PosixWritableFile::Free::operator()(std::byte* memory) const { std::free(memory); }

PosixWritableFile::PosixWritableFile(UniqueFd fd, const std::string& path, std::uint64_t bytes,
                                     ReadBack reads)
    : fd_(std::move(fd)), path_(path), end_(bytes), reads_(reads) {
  if (reads == ReadBack::kSoon) return;
  // Not by its path, which may name another file by now.
  const std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
  past_cache_ = UniqueFd(::open(self.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC));
  aligned_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, kPiece)));
  if (aligned_ == nullptr) past_cache_ = UniqueFd();
}

Status PosixWritableFile::Append(std::span<const std::byte> data) {
  const bool is_long = data.size() >= kPiece;
  return is_long && past_cache_.valid() ? AppendPastCache(data) : AppendThroughCache(data);
}

Status PosixWritableFile::AppendThroughCache(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd_.get(), data.data(), std::min(data.size(), kMaxTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return DiskError("write", path_, errno);
    end_ += static_cast<std::uint64_t>(n);
    data = data.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

// All whole pages; what is before and behind them goes through the cache.
Status PosixWritableFile::AppendPastCache(std::span<const std::byte> data) {
  const std::size_t before = static_cast<std::size_t>((kPage - end_ % kPage) % kPage);
  PACELINE_TRY(AppendThroughCache(data.first(before)));
  data = data.subspan(before);
  while (data.size() >= kPage && past_cache_.valid()) {
    const auto piece = data.first(std::min(data.size(), kPiece) / kPage * kPage);
    data = data.subspan(WritePastCache(piece));
  }
  return AppendThroughCache(data);
}

// Returns how much of it is in the file. Where that is refused, or stops half-way because the disk
// is full, writing through the cache goes on from there, or tells why not.
std::size_t PosixWritableFile::WritePastCache(std::span<const std::byte> piece) {
  std::ranges::copy(piece, aligned_.get());
  const ssize_t n =
      ::pwrite(past_cache_.get(), aligned_.get(), piece.size(), static_cast<off_t>(end_));
  const auto written = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  if (written != piece.size()) past_cache_ = UniqueFd();
  end_ += written;
  return written;
}

Status PosixWritableFile::Sync() {
  if (::fsync(fd_.get()) != 0) return DiskError("fsync", path_, errno);
  if (reads_ == ReadBack::kNotSoon) ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

Status PosixWritableFile::Close() {
  past_cache_ = UniqueFd();
  // Linux frees the descriptor even when close reports an error.
  return ::close(fd_.Release()) == 0 ? Status() : DiskError("close", path_, errno);
}

}  // namespace paceline::disk
