#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "ps/push_message.h"
#include "ps/store.h"

// The payloads of messages between trainers and servers that are not described elsewhere (pushes:
// ps/push_message.h, the job: ps/job_spec.h). docs/wire.md has the bytes.
namespace paceline::ps {

// What one server is asked for. Spans point into the message when decoded.
struct PullCall {
  struct Rows {
    std::uint32_t table = 0;
    std::span<const std::int64_t> ids;
  };
  std::uint64_t trainer = 0;
  std::uint64_t min_version = 0;
  std::uint64_t own_batches = 0;
  Touch touch = Touch::kTrain;
  bool dense = false;
  // Of a trainer that has the server's values mapped: a count of changes is enough.
  bool dense_is_mapped = false;
  DenseOrder order = DenseOrder::kFromFirst;
  std::vector<Rows> rows;
};
MessageBytes EncodePull(const PullCall& call);
Result<PullCall> DecodePull(std::span<const std::byte> message);

// The answer: two numbers, then floats: the rows in the order of the call, then the dense values,
// or where these are mapped SharedFloats::changes(). The caller knows how many of each.
struct PulledNumbers {
  std::uint64_t version = 0;
  std::uint64_t pushes = 0;
};
inline constexpr std::size_t kPulledHeadBytes = 16;
void WritePulledHead(std::span<std::byte> message, const PulledNumbers& numbers);
// kProtocol unless exactly `floats` follow.
struct Pulled {
  PulledNumbers numbers;
  std::span<const float> floats;
};
Result<Pulled> DecodePulled(std::span<const std::byte> message, std::size_t floats);
// How often the dense values had changed, the end of an answer that has them not; and cuts it off.
inline constexpr std::size_t kChangesBytes = 8;
Result<std::uint64_t> TakeChanges(std::span<const std::byte>& message);

// The answer to a push: its lease and batch, which are also how the push begins.
inline constexpr std::size_t kPushNameBytes = 16;

// Numbers alone: a lease, a batch, (trainer, table, call).
std::vector<std::byte> EncodeNumbers(std::span<const std::uint64_t> numbers);
Result<std::vector<std::uint64_t>> DecodeNumbers(std::span<const std::byte> message,
                                                 std::size_t count);

MessageBytes EncodeChanged(const ChangedRows& rows);
Result<ChangedRows> DecodeChanged(std::span<const std::byte> message, std::size_t dim);

}  // namespace paceline::ps
