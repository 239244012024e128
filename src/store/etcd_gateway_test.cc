// Servers that are not etcd, or not well.
#include "store/etcd_gateway.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/thread.h"
#include "base/unique_fd.h"
#include "store/etcd_client.h"
#include "store/etcd_test_util.h"
#include "testing/status_matchers.h"

namespace paceline::store {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

// Listens on a free port. Without a reply it lets connections wait; else it reads each request,
// sends the reply and closes.
class CannedServer {
 public:
  enum class Read { kRequest, kNothing };

  CannedServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), any, length), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    EXPECT_EQ(::getsockname(listener_.get(), any, &length), 0);
    endpoint_ = {"127.0.0.1", ntohs(address.sin_port)};
  }
  explicit CannedServer(std::string reply, Read read = Read::kRequest) : CannedServer() {
    thread_ = StartThread("canned", [this, reply = std::move(reply), read] {
      for (;;) {
        const UniqueFd peer(::accept(listener_.get(), nullptr, nullptr));
        if (!peer.valid()) return;
        if (read == Read::kRequest) ReadRequest(peer.get());
        Send(peer.get(), reply);
        ::shutdown(peer.get(), SHUT_WR);
      }
    });
  }
  ~CannedServer() { ::shutdown(listener_.get(), SHUT_RDWR); }  // ends accept
  CannedServer(const CannedServer&) = delete;
  CannedServer& operator=(const CannedServer&) = delete;

  const net::Endpoint& endpoint() const { return endpoint_; }

 private:
  static void ReadRequest(int fd) {
    constexpr std::string_view kLength = "Content-Length: ";
    std::string text;
    std::string part(4096, ' ');
    for (;;) {
      const std::size_t head = text.find("\r\n\r\n");
      if (head != std::string::npos) {
        const std::size_t length = text.find(kLength);
        if (text.size() >= head + 4 + std::stoul(text.substr(length + kLength.size()))) return;
      }
      const ssize_t n = ::recv(fd, part.data(), part.size(), 0);
      if (n <= 0) return;
      text.append(part, 0, static_cast<std::size_t>(n));
    }
  }
  static void Send(int fd, std::string_view reply) {
    while (!reply.empty()) {
      const ssize_t n = ::send(fd, reply.data(), reply.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      reply.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  UniqueFd listener_;
  net::Endpoint endpoint_;
  std::jthread thread_;  // last: uses the listener
};

std::string Reply(const std::string& status, const std::string& body) {
  return fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body);
}

Result<std::string> PostTo(const CannedServer& server, const std::string& body = "{}") {
  return EtcdGateway({server.endpoint()}, 20s).Post("/v3/kv/range", body);
}

TEST(EtcdGateway, GivesTheBodyOfAnAnswer) {
  const CannedServer server(Reply("200 OK", "{\"a\":1}"));
  auto body = PostTo(server);
  ASSERT_THAT(body, IsOk());
  EXPECT_EQ(*body, "{\"a\":1}");
}

TEST(EtcdGateway, ANobodyAtTheEndpointIsUnavailableAndNamed) {
  const net::Endpoint first = UnusedEndpoint();
  const net::Endpoint second = UnusedEndpoint();
  EtcdGateway gateway({first, second}, 20s);
  EXPECT_EQ(gateway.Describe(), first.ToString() + "," + second.ToString());
  EXPECT_THAT(gateway.Post("/v3/kv/range", "{}"),
              StatusIs(Code::kUnavailable, AllOf(HasSubstr("etcd " + first.ToString()),
                                                 HasSubstr("etcd " + second.ToString()))));
}

TEST(EtcdGateway, AServerThatHangsIsUnavailableAfterTheTimeout) {
  const CannedServer server;  // accepts in the kernel alone
  EXPECT_THAT(EtcdGateway({server.endpoint()}, 50ms).Post("/v3/kv/range", "{}"),
              StatusIs(Code::kUnavailable, HasSubstr(server.endpoint().ToString())));
}

TEST(EtcdGateway, TheNextEndpointIsAskedAndRemembered) {
  const CannedServer sick(Reply("503 Service Unavailable", "no leader"));
  const CannedServer well(Reply("200 OK", "{}"));
  EtcdGateway gateway({sick.endpoint(), well.endpoint()}, 20s);
  EXPECT_THAT(gateway.Post("/v3/kv/range", "{}"), IsOk());
  EXPECT_THAT(gateway.Post("/v3/kv/range", "{}"), IsOk());
}

TEST(EtcdGateway, ARefusalHasACodeAndItsText) {
  const std::pair<const char*, Code> refusals[] = {{"400 Bad Request", Code::kInternal},
                                                   {"401 Unauthorized", Code::kUnauthenticated},
                                                   {"403 Forbidden", Code::kUnauthenticated},
                                                   {"404 Not Found", Code::kNotFound},
                                                   {"429 Too Many Requests", Code::kUnavailable},
                                                   {"503 Unavailable", Code::kUnavailable},
                                                   {"302 Found", Code::kInternal}};
  for (const auto& [status, code] : refusals) {
    const CannedServer server(Reply(status, "the\nreason"));
    EXPECT_THAT(PostTo(server), StatusIs(code, AllOf(HasSubstr(server.endpoint().ToString()),
                                                     HasSubstr("the reason"))))
        << status;
  }
}

TEST(EtcdGateway, TrailersBehindARefusalDoNotHideIt) {
  const CannedServer server(
      "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nTrailer: Grpc-Trailer-A\r\n\r\n"
      "7\r\n{\"b\":2}\r\n0\r\nGrpc-Trailer-A: x\r\n\r\n");
  EXPECT_THAT(PostTo(server), StatusIs(Code::kNotFound, HasSubstr("{\"b\":2}")));
}

TEST(EtcdGateway, AnAnswerThatIsCutOffOrNotHttpIsUnavailable) {
  const std::string replies[] = {"", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\n",
                                 "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}"};
  for (const std::string& reply : replies) {
    const CannedServer server(reply);
    EXPECT_THAT(PostTo(server), StatusIs(Code::kUnavailable, HasSubstr("does not answer")))
        << reply;
  }
}

TEST(EtcdGateway, AnEndlessAnswerIsCutOff) {
  const CannedServer server(Reply("200 OK", std::string(std::size_t{9} << 20, 'x')));
  EXPECT_THAT(PostTo(server), StatusIs(Code::kUnavailable, HasSubstr("does not answer")));
}

TEST(EtcdGateway, AServerThatClosesWhileWeSendDoesNotEndUs) {
  const CannedServer server("", CannedServer::Read::kNothing);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(PostTo(server, std::string(std::size_t{4} << 20, 'x')),
                StatusIs(Code::kUnavailable, HasSubstr("does not answer")));
  }
}

TEST(EtcdClient, AnAnswerThatMakesNoSenseIsAProtocolError) {
  for (const char* body : {"", "7", "[]", "\"text\"", "{", "{\"ID\":7}", "{\"ID\":\"x\"}", "{}"}) {
    const CannedServer server(Reply("200 OK", body));
    EtcdClient client({server.endpoint()}, 20s);
    EXPECT_THAT(client.GrantLease(10s), StatusIs(Code::kProtocol, HasSubstr("etcd"))) << body;
  }
  for (const char* body :
       {"{\"kvs\":[7]}", "{\"kvs\":[{\"value\":7}]}", "{\"kvs\":[{\"value\":\"?\"}]}"}) {
    const CannedServer server(Reply("200 OK", body));
    EtcdClient client({server.endpoint()}, 20s);
    EXPECT_THAT(client.Get("key"), StatusIs(Code::kProtocol, HasSubstr("etcd"))) << body;
  }
  for (const char* body : {"{}", "{\"responses\":7}", "{\"responses\":[]}", "{\"responses\":[7,7]}",
                           "{\"succeeded\":true,\"responses\":[{}]}"}) {
    const CannedServer server(Reply("200 OK", body));
    EtcdClient client({server.endpoint()}, 20s);
    EXPECT_THAT(client.PutIfAbsent({}), StatusIs(Code::kProtocol, HasSubstr("etcd"))) << body;
  }
}

}  // namespace
}  // namespace paceline::store
