#include "net/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace paceline::net {
namespace {

using ::testing::_;
using testing::IsOk;
using testing::StatusIs;

TEST(SharedMemory, TwoMappingsShowTheSameBytes) {
  auto mine = SharedMemory::Create(8192);
  ASSERT_THAT(mine, IsOk());
  auto theirs = SharedMemory::Map(UniqueFd(::dup(mine->fd())), 8192);
  ASSERT_THAT(theirs, IsOk());
  mine->bytes()[5000] = std::byte{42};
  EXPECT_EQ(theirs->bytes()[5000], std::byte{42});
}

TEST(SharedMemory, NobodyCanShrinkItUnderTheOthers) {
  auto memory = SharedMemory::Create(8192);
  ASSERT_THAT(memory, IsOk());
  EXPECT_NE(::ftruncate(memory->fd(), 0), 0);
}

TEST(SharedMemory, OtherFilesAreRefused) {
  auto memory = SharedMemory::Create(8192);
  ASSERT_THAT(memory, IsOk());
  EXPECT_THAT(SharedMemory::Map(UniqueFd(::dup(memory->fd())), 4096), StatusIs(Code::kProtocol, _));
  UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), 8192), 0);
  EXPECT_THAT(SharedMemory::Map(std::move(unsealed), 8192), StatusIs(Code::kProtocol, _));
}

TEST(FdServer, HandsTheDescriptorToWhoeverAsks) {
  auto memory = SharedMemory::Create(4096);
  ASSERT_THAT(memory, IsOk());
  memory->bytes()[0] = std::byte{7};
  auto server = FdServer::Start(memory->fd());
  ASSERT_THAT(server, IsOk());
  for (int i = 0; i < 3; ++i) {
    auto fd = FetchFd((*server)->name(), std::chrono::seconds(10));
    ASSERT_THAT(fd, IsOk());
    auto mapped = SharedMemory::Map(std::move(*fd), 4096);
    ASSERT_THAT(mapped, IsOk());
    EXPECT_EQ(mapped->bytes()[0], std::byte{7});
  }
  const std::string name = (*server)->name();
  server->reset();
  EXPECT_THAT(FetchFd(name, std::chrono::seconds(10)), StatusIs(Code::kUnavailable, _));
}

}  // namespace
}  // namespace paceline::net
