#include "collective/native_group_test_util.h"

#include <future>
#include <utility>

#include <gtest/gtest.h>

namespace paceline::collective {

std::vector<std::unique_ptr<NativeRank>> MakeNativeGroup(const NativeGroupOptions& options) {
  const net::Secret secret = *net::Secret::Generate();
  std::vector<std::unique_ptr<NativeRank>> ranks;
  wire::View view{.cluster = 5, .generation = Generation(1)};
  for (std::uint64_t rank = 0; rank < options.world; ++rank) {
    ranks.push_back(std::make_unique<NativeRank>());
    auto acceptor = net::Acceptor::Listen(
        ranks.back()->loop, {.secret = secret, .self = {wire::Role::kWorker, Rank(rank)}});
    if (!acceptor.ok()) {
      ADD_FAILURE() << acceptor.status().ToString();
      return {};
    }
    ranks.back()->acceptor = std::move(*acceptor);
    view.members.push_back({Rank(rank), "host", ranks.back()->acceptor->endpoint().ToString(),
                            options.machines.empty() ? "here" : options.machines[rank]});
  }
  std::vector<std::future<Status>> made;
  for (std::uint64_t rank = 0; rank < options.world; ++rank) {
    made.push_back(std::async(std::launch::async, [&, rank]() -> Status {
      NativeRank& mine = *ranks[rank];
      PACELINE_ASSIGN(mine.mesh, net::Mesh::Connect(mine.loop, *mine.acceptor, view,
                                                    {.secret = secret,
                                                     .self = Rank(rank),
                                                     .deadline = std::chrono::steady_clock::now() +
                                                                 std::chrono::seconds(30)}));
      PACELINE_ASSIGN(mine.engine, MakeNativeEngine(*mine.mesh, options.engine));
      return {};
    }));
  }
  bool all = true;
  for (auto& future : made) {
    const Status status = future.get();
    EXPECT_TRUE(status.ok()) << status.ToString();
    all = all && status.ok();
  }
  if (!all) ranks.clear();
  return ranks;
}

}  // namespace paceline::collective
