#include "store/etcd_gateway.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <httplib.h>

#include "base/clock.h"

namespace paceline::store {

namespace {

constexpr std::size_t kMaxAnswerBytes = std::size_t{8} << 20;  // a state in base64, several times
constexpr std::size_t kMaxQuotedBytes = 200;                   // of an answer, in a message

// The library writes to sockets whose other end may be gone; without this that ends the process.
class PipeSignalBlocked {
 public:
  PipeSignalBlocked() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalBlocked() {
    const timespec now{};
    if (::sigismember(&before_, SIGPIPE) == 0) ::sigtimedwait(&pipe_, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
};

struct Answer {
  int status = 0;
  std::string body;
};

// One line of printable text.
std::string Quoted(std::string text) {
  text.resize(std::min(text.size(), kMaxQuotedBytes));
  for (char& c : text) c = c >= 0 && c < ' ' ? ' ' : c;
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

Result<Answer> PostTo(const net::Endpoint& endpoint, std::chrono::milliseconds timeout,
                      const std::string& path, const std::string& body) {
  httplib::Client client(endpoint.host, endpoint.port);
  client.set_connection_timeout(timeout);
  client.set_read_timeout(timeout);
  client.set_write_timeout(timeout);
  Answer answer;
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.body = body;
  request.set_header("Content-Type", "application/json");
  const Instant deadline = SystemClock().Now() + 2 * timeout;  // for a server that drips
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    answer.body.append(data, size);
    return answer.body.size() <= kMaxAnswerBytes && SystemClock().Now() < deadline;
  };
  httplib::Response response;
  httplib::Error error = httplib::Error::Success;
  const PipeSignalBlocked blocked;
  const bool complete = client.send(request, response, error);
  answer.status = response.status;
  // etcd puts trailers behind its refusals, which this library takes for an error of reading.
  if (complete || answer.status >= 400) return answer;
  return Status::Error(Code::kUnavailable,
                       fmt::format("etcd {} does not answer {} ({})", endpoint.ToString(), path,
                                   httplib::to_string(error)));
}

// The gateway maps gRPC's codes to these; see google.rpc.Code.
Code CodeOf(int http_status) {
  switch (http_status) {
    case 401:
    case 403: return Code::kUnauthenticated;
    case 404: return Code::kNotFound;
    case 408:                             // the cluster took too long
    case 429:                             // too many requests, or its database is full
    case 500:                             // "request timed out" among others
    case 502:                             // something between us and etcd
    case 503:                             // no leader
    case 504: return Code::kUnavailable;  // no majority in time
    default: return Code::kInternal;
  }
}

}  // namespace

Result<std::string> EtcdGateway::Post(const std::string& path, const std::string& body) {
  const std::size_t first = preferred_.load();
  std::string failures;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    const std::size_t index = (first + i) % endpoints_.size();
    const net::Endpoint& endpoint = endpoints_[index];
    auto answer = PostTo(endpoint, timeout_, path, body);
    if (answer.ok() && answer->status == 200) {
      preferred_ = index;
      return std::move(answer->body);
    }
    const Status failure =
        answer.ok()
            ? Status::Error(CodeOf(answer->status),
                            fmt::format("etcd {} answered {} with {}: {}", endpoint.ToString(),
                                        path, answer->status, Quoted(answer->body)))
            : answer.status();
    if (failure.code() != Code::kUnavailable) return failure;
    failures += (failures.empty() ? "" : "; ") + failure.message();
  }
  return Status::Error(Code::kUnavailable, failures);
}

std::string EtcdGateway::Describe() const {
  std::string text;
  for (const net::Endpoint& endpoint : endpoints_) {
    text += (text.empty() ? "" : ",") + endpoint.ToString();
  }
  return text;
}

}  // namespace paceline::store
