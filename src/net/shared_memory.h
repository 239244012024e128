#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "base/status.h"
#include "base/unique_fd.h"

namespace paceline::net {

// Anonymous memory (memfd) that several processes map. It has no name and disappears with the last
// process that maps it, however that ends. Its size is sealed, so that no process can make another
// one fault. Thread-compatible.
class SharedMemory {
 public:
  static Result<SharedMemory> Create(std::size_t bytes);
  // Other processes can only read it.
  static Result<SharedMemory> CreateForReaders(std::size_t bytes);
  // Map what another process made with Create() or CreateForReaders(); kProtocol when it is not
  // sealed in that way or not of this size.
  static Result<SharedMemory> Map(UniqueFd fd, std::size_t bytes);
  static Result<SharedMemory> MapForReading(UniqueFd fd, std::size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::span<std::byte> bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }

 private:
  static Result<SharedMemory> CreateSealed(std::size_t bytes, int seals);
  static Result<SharedMemory> MapSealed(UniqueFd fd, std::size_t bytes, int seals);
  SharedMemory(UniqueFd fd, std::span<std::byte> bytes) : fd_(std::move(fd)), bytes_(bytes) {}

  UniqueFd fd_;
  std::span<std::byte> bytes_;
};

// Hands a file descriptor to every process of the same user that connects to an abstract Unix
// socket. Such a socket exists in one network namespace and leaves no file. A thread of its own
// serves until it is destroyed.
class FdServer {
 public:
  static Result<std::unique_ptr<FdServer>> Start(int fd);
  ~FdServer();
  FdServer(const FdServer&) = delete;
  FdServer& operator=(const FdServer&) = delete;

  const std::string& name() const { return name_; }

 private:
  FdServer(UniqueFd listener, UniqueFd end, std::string name, int fd);
  void Serve() const;

  UniqueFd listener_, end_;
  std::string name_;
  int fd_;
  std::jthread thread_;
};

// The descriptor that an FdServer hands out. kUnavailable when nobody of that name is here.
Result<UniqueFd> FetchFd(const std::string& name, std::chrono::milliseconds timeout);

}  // namespace paceline::net
