#include "net/handshake.h"

#include <array>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/bytes.h"

namespace paceline::net {

using wire::FrameType;

namespace {

constexpr std::string_view kCalleeLabel = "paceline handshake 1 callee";
constexpr std::string_view kCallerLabel = "paceline handshake 1 caller";

// What a proof signs: the whole conversation so far, and who is proving.
wire::Digest Prove(const Secret& secret, std::string_view label, const HandshakeContext& context,
                   const wire::Hello& hello, const wire::Challenge& challenge) {
  wire::ByteWriter writer;
  writer.Text(label);
  writer.Number(context.cluster);
  writer.Number(context.generation.value());
  writer.Bytes(hello.Encode());
  writer.Number(static_cast<std::uint8_t>(challenge.role));
  writer.Number(challenge.rank.value());
  writer.Bytes(challenge.nonce);
  return secret.Sign(writer.Take());
}

wire::Failure WrongSecret() {
  return {.code = Code::kUnauthenticated, .text = "wrong secret: this job has another one"};
}

// One conversation; each step keeps it alive until the next.
class Conversation : public std::enable_shared_from_this<Conversation> {
 public:
  Conversation(Connection& connection, const Secret& secret, const Identity& self,
               const HandshakeContext& context, HandshakeDone done)
      : connection_(connection),
        secret_(secret),
        self_(self),
        context_(context),
        done_(std::move(done)) {}

  void Call() {
    const auto nonce = MakeNonce();
    if (!nonce.ok()) return Finish(nonce.status());
    hello_ = {.role = self_.role, .rank = self_.rank, .nonce = *nonce};
    Send(FrameType::kHello, hello_.Encode());
    Receive(FrameType::kChallenge, [](Conversation& c, auto bytes) { c.OnChallenge(bytes); });
  }

  void Answer() {
    Receive(FrameType::kHello, [](Conversation& c, auto bytes) { c.OnHello(bytes); });
  }

 private:
  using Handler = void (*)(Conversation&, std::span<const std::byte>);

  void Send(FrameType type, std::vector<std::byte> payload) {
    sent_.push_back(std::move(payload));
    connection_.Send(type, 0, sent_.back(), [self = shared_from_this()](const Status&) {});
  }

  void Receive(FrameType type, Handler handler) {
    connection_.Receive(
        {.type = type, .tag = 0, .exact = false}, buffer_,
        [self = shared_from_this(), handler](const Status& status, std::size_t bytes) {
          if (!status.ok()) return self->Finish(status);
          handler(*self, std::span(self->buffer_).first(bytes));
        });
  }

  void OnHello(std::span<const std::byte> bytes) {
    const auto hello = wire::Hello::Decode(bytes);
    const auto nonce = MakeNonce();
    if (!hello.ok()) return Refuse({.code = Code::kProtocol, .text = hello.status().message()});
    if (!nonce.ok()) return Finish(nonce.status());
    hello_ = *hello;
    challenge_ = {.role = self_.role, .rank = self_.rank, .nonce = *nonce};
    challenge_.proof = Prove(secret_, kCalleeLabel, context_, hello_, challenge_);
    Send(FrameType::kChallenge, challenge_.Encode());
    Receive(FrameType::kProof, [](Conversation& c, auto proof) { c.OnProof(proof); });
  }

  void OnChallenge(std::span<const std::byte> bytes) {
    const auto challenge = wire::Challenge::Decode(bytes);
    if (!challenge.ok()) {
      return Refuse({.code = Code::kProtocol, .text = challenge.status().message()});
    }
    challenge_ = *challenge;
    if (!Equal(challenge_.proof, Prove(secret_, kCalleeLabel, context_, hello_, challenge_))) {
      return Refuse(WrongSecret());
    }
    const wire::Proof proof{Prove(secret_, kCallerLabel, context_, hello_, challenge_)};
    Send(FrameType::kProof, proof.Encode());
    Receive(FrameType::kWelcome, [](Conversation& c, auto) {
      c.Finish({}, {c.challenge_.role, c.challenge_.rank});
    });
  }

  void OnProof(std::span<const std::byte> bytes) {
    const auto proof = wire::Proof::Decode(bytes);
    if (!proof.ok()) return Refuse({.code = Code::kProtocol, .text = proof.status().message()});
    if (!Equal(proof->proof, Prove(secret_, kCallerLabel, context_, hello_, challenge_))) {
      return Refuse(WrongSecret());
    }
    // Whoever gets the connection may send at once; the welcome must be first.
    connection_.Send(FrameType::kWelcome, 0, {}, [self = shared_from_this()](const Status& status) {
      self->Finish(status, {self->hello_.role, self->hello_.rank});
    });
  }

  void Refuse(const wire::Failure& why) {
    connection_.Abort(why);
    Finish(Status::Error(why.code, why.text));
  }

  void Finish(const Status& status, const Identity& peer = {}) { done_(status, peer); }

  Connection& connection_;
  Secret secret_;
  Identity self_;
  HandshakeContext context_;
  HandshakeDone done_;
  wire::Hello hello_;
  wire::Challenge challenge_;
  std::array<std::byte, 512> buffer_{};
  std::deque<std::vector<std::byte>> sent_;  // lent to the connection
};

}  // namespace

void Call(Connection& connection, const Secret& secret, const Identity& self,
          const HandshakeContext& context, HandshakeDone done) {
  std::make_shared<Conversation>(connection, secret, self, context, std::move(done))->Call();
}

void Answer(Connection& connection, const Secret& secret, const Identity& self,
            const HandshakeContext& context, HandshakeDone done) {
  std::make_shared<Conversation>(connection, secret, self, context, std::move(done))->Answer();
}

}  // namespace paceline::net
