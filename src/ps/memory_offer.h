#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "net/shared_memory.h"
#include "ps/channel.h"
#include "ps/push_message.h"
#include "wire/messages.h"

// How a trainer and a server of one host come to share memory. The trainer makes it for messages,
// one for each connection: whatever an old connection's server still reads is never written again.
// The server makes it for its dense values.
namespace paceline::ps {

enum class MemoryUse : std::uint64_t {
  kToTrainer = 1,  // the server writes, one answer after the other
  kToServer = 2,   // the trainer writes
  kValues = 3,     // ps/shared_floats.h: the server writes, trainers only read
};

inline constexpr std::size_t kCookieBytes = 4096;  // a page: the area begins on one

struct MemoryOffer {
  MemoryUse use = MemoryUse::kToTrainer;
  std::uint64_t bytes = 0;  // of the whole memory
  wire::Nonce cookie{};     // its first bytes
  std::string socket;       // of the net::FdServer that hands it out
};
MessageBytes EncodeOffer(const MemoryOffer& offer);
Result<MemoryOffer> DecodeOffer(std::span<const std::byte> message);

// What is behind the cookie.
std::span<std::byte> AreaOf(const net::SharedMemory& memory);
// What was offered, if it is on this host.
Result<net::SharedMemory> FetchMemory(const MemoryOffer& offer);

// The trainer's side, after `configure`: null when the server is elsewhere, or when there is no
// memory to be had. An error is one of the connection.
Result<std::shared_ptr<net::SharedMemory>> OfferMemory(Channel& channel, MemoryUse use,
                                                       std::size_t bytes, Deadline deadline);
// The same of the server's dense values.
Result<MemoryOffer> AskForValues(Channel& channel, Deadline deadline);

// The server's side; answers whether it has it.
Status AcceptMemory(Channel& channel, std::span<const std::byte> message);

}  // namespace paceline::ps
