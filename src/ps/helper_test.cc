#include "ps/helper.h"

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace paceline::ps {
namespace {

TEST(Helper, EachTaskRunsOnce) {
  Helper helper;
  for (const std::size_t count : {0U, 1U, 2U, 3U, 100U}) {
    std::vector<std::atomic<int>> runs(count);
    helper.Share(count, [&](std::size_t number) { ++runs[number]; });
    for (const auto& run : runs) EXPECT_EQ(run, 1);
  }
}

// Each of the two tasks ends only when the other one has begun.
TEST(Helper, TwoTasksRunBesideEachOther) {
  Helper helper;
  for (int again = 0; again < 3; ++again) {
    std::vector<std::promise<std::thread::id>> begun(2);
    std::vector<std::thread::id> other(2);
    helper.Share(2, [&](std::size_t number) {
      begun[number].set_value(std::this_thread::get_id());
      other[number] = begun[1 - number].get_future().get();
    });
    EXPECT_NE(other[0], other[1]);
  }
}

TEST(Helper, EverythingIsDoneWhenItReturns) {
  Helper helper;
  for (int again = 0; again < 1000; ++again) {
    std::vector<int> results(7);  // of either thread, read without a lock
    helper.Share(results.size(), [&](std::size_t number) { results[number] = again; });
    EXPECT_EQ(results, std::vector<int>(7, again));
  }
}

}  // namespace
}  // namespace paceline::ps
