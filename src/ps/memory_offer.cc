#include "ps/memory_offer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "net/secret.h"
#include "ps/message_fields.h"
#include "ps/protocol.h"

namespace paceline::ps {

namespace {

constexpr std::size_t kLongestName = 107;  // of a Unix socket
constexpr std::chrono::milliseconds kFetchTimeout(2000);

struct Offered {
  std::shared_ptr<net::SharedMemory> memory;
  std::unique_ptr<net::FdServer> server;
  MemoryOffer offer;
};

Result<Offered> MakeMemory(MemoryUse use, std::size_t bytes) {
  bytes += kCookieBytes;
  PACELINE_ASSIGN(net::SharedMemory memory, net::SharedMemory::Create(bytes));
  PACELINE_ASSIGN(const wire::Nonce cookie, net::MakeNonce());
  std::ranges::copy(cookie, memory.bytes().begin());
  PACELINE_ASSIGN(auto server, net::FdServer::Start(memory.fd()));
  MemoryOffer offer{.use = use, .bytes = bytes, .cookie = cookie, .socket = server->name()};
  return Offered{std::make_shared<net::SharedMemory>(std::move(memory)), std::move(server),
                 std::move(offer)};
}

}  // namespace

MessageBytes EncodeOffer(const MemoryOffer& offer) {
  const std::span<const std::byte> cookie(offer.cookie);
  const std::span<const char> name(offer.socket);
  internal::FieldWriter writer(24 + cookie.size() + internal::Padded(name.size()));
  writer.Number(static_cast<std::uint64_t>(offer.use));
  writer.Number(offer.bytes);
  writer.Array(cookie);
  writer.Number(std::uint64_t{name.size()});
  writer.Array(name);
  return writer.Take();
}

Result<MemoryOffer> DecodeOffer(std::span<const std::byte> message) {
  internal::FieldReader reader(message);
  const auto use = reader.Number<std::uint64_t>();
  const auto bytes = reader.Number<std::uint64_t>();
  MemoryOffer offer{.use = MemoryUse{use}, .bytes = bytes, .cookie = {}, .socket = {}};
  const auto cookie = reader.Array<std::byte>(offer.cookie.size());
  const auto name = reader.Array<char>(reader.Number<std::uint64_t>());
  const bool known = use >= static_cast<std::uint64_t>(MemoryUse::kToTrainer) &&
                     use <= static_cast<std::uint64_t>(MemoryUse::kValues);
  if (!reader.ok() || !reader.at_end() || !known || bytes <= kCookieBytes || name.empty() ||
      name.size() > kLongestName) {
    return Status::Error(Code::kProtocol, "an offer of memory that nobody makes");
  }
  std::ranges::copy(cookie, offer.cookie.begin());
  offer.socket.assign(name.begin(), name.end());
  return offer;
}

Result<net::SharedMemory> FetchMemory(const MemoryOffer& offer) {
  PACELINE_ASSIGN(UniqueFd fd, net::FetchFd(offer.socket, kFetchTimeout));
  const auto bytes = static_cast<std::size_t>(offer.bytes);
  PACELINE_ASSIGN(auto memory, offer.use == MemoryUse::kValues
                                   ? net::SharedMemory::MapForReading(std::move(fd), bytes)
                                   : net::SharedMemory::Map(std::move(fd), bytes));
  if (!std::equal(offer.cookie.begin(), offer.cookie.end(), memory.bytes().begin())) {
    return Status::Error(Code::kProtocol, "the shared memory belongs to somebody else");
  }
  return memory;
}

std::span<std::byte> AreaOf(const net::SharedMemory& memory) {
  return memory.bytes().subspan(kCookieBytes);
}

Result<std::shared_ptr<net::SharedMemory>> OfferMemory(Channel& channel, MemoryUse use,
                                                       std::size_t bytes, Deadline deadline) {
  auto made = MakeMemory(use, bytes);
  if (!made.ok()) return std::shared_ptr<net::SharedMemory>();
  PACELINE_TRY(
      channel.Send(MessageKind::kShareMemory, AsBytes(EncodeOffer(made->offer)), deadline));
  PACELINE_ASSIGN(const Message answer, channel.Receive(deadline));
  PACELINE_TRY(answer.status);
  if (answer.kind != MessageKind::kShareMemory) {
    return Status::Error(Code::kProtocol, "an answer to another question");
  }
  PACELINE_ASSIGN(const auto taken, DecodeNumbers(answer.payload, 1));
  if (taken[0] == 0) return std::shared_ptr<net::SharedMemory>();
  channel.Share(made->memory, AreaOf(*made->memory),
                use == MemoryUse::kToServer ? Sharing::kOutgoing : Sharing::kIncomingInPlace);
  return std::move(made->memory);
}

Result<MemoryOffer> AskForValues(Channel& channel, Deadline deadline) {
  PACELINE_TRY(channel.Send(MessageKind::kShareValues, {}, deadline));
  PACELINE_ASSIGN(const Message answer, channel.Receive(deadline));
  PACELINE_TRY(answer.status);
  if (answer.kind != MessageKind::kShareValues) {
    return Status::Error(Code::kProtocol, "an answer to another question");
  }
  if (answer.payload.empty()) return Status::Error(Code::kNotFound, "no values are shared");
  PACELINE_ASSIGN(MemoryOffer offer, DecodeOffer(answer.payload));
  if (offer.use == MemoryUse::kValues) return offer;
  return Status::Error(Code::kProtocol, "memory for something else than values");
}

Status AcceptMemory(Channel& channel, std::span<const std::byte> message) {
  PACELINE_ASSIGN(const MemoryOffer offer, DecodeOffer(message));
  if (offer.use == MemoryUse::kValues) {
    return Status::Error(Code::kProtocol, "values that a trainer shares");
  }
  auto memory = FetchMemory(offer);
  if (memory.ok()) {
    auto shared = std::make_shared<net::SharedMemory>(std::move(*memory));
    const auto area = AreaOf(*shared);
    channel.Share(
        std::move(shared), area,
        offer.use == MemoryUse::kToTrainer ? Sharing::kOutgoing : Sharing::kIncomingCopied);
  }
  channel.SendSmall(MessageKind::kShareMemory, {},
                    EncodeNumbers(std::vector<std::uint64_t>{memory.ok() ? 1U : 0U}));
  return {};
}

}  // namespace paceline::ps
