#include "net/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "base/unique_fd.h"

namespace paceline::net {

namespace {

Status FillRandom(std::span<std::byte> bytes) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) !=
      1) {
    return Status::Error(Code::kInternal, "the system's random generator failed");
  }
  return {};
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Status Bad(const std::string& what) { return Status::Error(Code::kUnauthenticated, what); }

}  // namespace

Result<Secret> Secret::Generate() {
  std::array<std::byte, kBytes> key{};
  PACELINE_TRY(FillRandom(key));
  return Secret(key);
}

// The text itself never appears in the message.
Result<Secret> Secret::FromHex(const std::string& hex) {
  if (hex.size() != 2 * kBytes) {
    return Bad(fmt::format("the secret has {} characters; it must be {} hexadecimal digits",
                           hex.size(), 2 * kBytes));
  }
  std::array<std::byte, kBytes> key{};
  for (std::size_t i = 0; i < kBytes; ++i) {
    const int high = HexDigit(hex[2 * i]), low = HexDigit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return Bad("the secret holds something else than hexadecimal digits");
    key[i] = static_cast<std::byte>(16 * high + low);
  }
  return Secret(key);
}

Result<Secret> Secret::FromFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    return Bad(fmt::format("secret file {}: {}", path, std::strerror(errno)));
  }
  if ((info.st_mode & 077) != 0) {
    return Bad(fmt::format("secret file {} can be read by others; chmod 600 {}", path, path));
  }
  std::array<char, 2 * kBytes + 2> text{};
  const ssize_t got = ::read(fd.get(), text.data(), text.size());
  std::string hex(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!hex.empty() && (hex.back() == '\n' || hex.back() == ' ')) hex.pop_back();
  auto secret = FromHex(hex);
  if (!secret.ok()) return secret.status().Wrap(fmt::format("secret file {}", path));
  return secret;
}

Result<Secret> Secret::FromEnvironment(const GetEnv& getenv) {
  if (const char* hex = getenv("PACELINE_SECRET")) {
    auto secret = FromHex(hex);
    if (!secret.ok()) return secret.status().Wrap("PACELINE_SECRET");
    return secret;
  }
  if (const char* path = getenv("PACELINE_SECRET_FILE")) return FromFile(path);
  return Status::Error(Code::kNotFound, "no secret in the environment");
}

bool Secret::open() const {
  return std::all_of(key_.begin(), key_.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::string Secret::ToHex() const {
  std::string hex;
  hex.reserve(2 * kBytes);
  for (const std::byte b : key_) hex += fmt::format("{:02x}", static_cast<unsigned>(b));
  return hex;
}

wire::Digest Secret::Sign(std::span<const std::byte> message) const {
  wire::Digest digest{};
  unsigned length = 0;
  const unsigned char* done =
      HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &length);
  PACELINE_CHECK(done != nullptr && length == digest.size(), "SHA-256 gives 32 bytes");
  return digest;
}

bool Equal(const wire::Digest& a, const wire::Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<wire::Nonce> MakeNonce() {
  wire::Nonce nonce{};
  PACELINE_TRY(FillRandom(nonce));
  return nonce;
}

}  // namespace paceline::net
