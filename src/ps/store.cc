#include "ps/store.h"

#include <utility>

namespace paceline::ps {

namespace {

class CollectedPush final : public OpenPush {
 public:
  CollectedPush(Store& store, const Push& push, std::span<const std::uint64_t> pulled)
      : store_(store), push_(push), pulled_(pulled.begin(), pulled.end()) {}

  void Append(std::span<const float> floats) override {
    dense_.insert(dense_.end(), floats.begin(), floats.end());
  }
  Status Finish() override {
    push_.dense = dense_;
    return store_.Push(push_, pulled_);
  }

 private:
  Store& store_;
  ps::Push push_;
  const std::vector<std::uint64_t> pulled_;
  std::vector<float> dense_;
};

}  // namespace

Status Store::Announce(const PullRequest& /*request*/) { return {}; }

Result<PullAnswer> Store::PullArriving(const PullRequest& request, const TakeDense& take) {
  PACELINE_ASSIGN(PullAnswer answer, Pull(request));
  take(0, request.dense);
  return answer;
}

Result<std::unique_ptr<OpenPush>> Store::Open(const ps::Push& push,
                                              std::span<const std::uint64_t> pulled) {
  return std::unique_ptr<OpenPush>(std::make_unique<CollectedPush>(*this, push, pulled));
}

}  // namespace paceline::ps
