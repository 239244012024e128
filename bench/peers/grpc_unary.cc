// The peer of `paceline perf ps`: unary calls of gRPC that carry bytes as they are, without
// protocol buffers, which would copy them once more.
//   grpc_unary serve                prints {"port":N}, serves until stdin ends
//   grpc_unary call PORT BYTES      prints {"ready":true}; then for each line "push" or "pull" on
//                                   stdin {"seconds":S}: a call that carries BYTES there, or back
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

namespace {

constexpr char kPush[] = "/bytes/push";

// The memory outlives the call: nothing is copied.
grpc::ByteBuffer Lend(const std::vector<char>& bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size(), grpc::Slice::STATIC_SLICE);
  return {&slice, 1};
}

// "push" is answered with nothing, "pull" (a length in text) with as many bytes.
class Call final : public grpc::ServerGenericBidiReactor {
 public:
  Call(bool is_push, std::vector<char>& values) : is_push_(is_push), values_(values) {
    StartRead(&request_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no message"));
    if (!is_push_) {
      std::vector<grpc::Slice> slices;
      static_cast<void>(request_.Dump(&slices));
      std::string text;
      for (const grpc::Slice& slice : slices) {
        text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
      values_.resize(std::strtoull(text.c_str(), nullptr, 10), 1);
      answer_ = Lend(values_);
    } else {
      const grpc::Slice nothing;
      answer_ = grpc::ByteBuffer(&nothing, 1);
    }
    StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  const bool is_push_;
  std::vector<char>& values_;
  grpc::ByteBuffer request_, answer_;
};

class Service final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Call(context->method() == kPush, values_);
  }

 private:
  std::vector<char> values_;  // one client, one call at a time
};

int Serve() {
  Service service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::cout << "{\"port\":" << port << "}" << std::endl;
  for (std::string line; std::getline(std::cin, line);) continue;
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}

class Client {
 public:
  Client(const std::string& port, std::size_t bytes) : values_(bytes, 1), stub_(Connect(port)) {}

  bool Push() {
    const grpc::ByteBuffer request = Lend(values_);
    grpc::ByteBuffer answer;
    return Wait("/bytes/push", request, answer);
  }
  // Into memory of the caller, as a trainer needs them.
  bool Pull() {
    const grpc::Slice length(std::to_string(values_.size()));
    const grpc::ByteBuffer request(&length, 1);
    grpc::ByteBuffer answer;
    if (!Wait("/bytes/pull", request, answer) || answer.Length() != values_.size()) return false;
    std::vector<grpc::Slice> slices;
    if (!answer.Dump(&slices).ok()) return false;
    char* to = values_.data();
    for (const grpc::Slice& slice : slices) {
      std::memcpy(to, slice.begin(), slice.size());
      to += slice.size();
    }
    return true;
  }

 private:
  static std::shared_ptr<grpc::Channel> Connect(const std::string& port) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    return grpc::CreateCustomChannel("127.0.0.1:" + port, grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  bool Wait(const std::string& method, const grpc::ByteBuffer& request, grpc::ByteBuffer& answer) {
    grpc::ClientContext context;
    std::promise<grpc::Status> done;
    stub_.UnaryCall(&context, method, {}, &request, &answer,
                    [&](grpc::Status status) { done.set_value(std::move(status)); });
    const grpc::Status status = done.get_future().get();
    if (!status.ok()) std::cerr << "gRPC: " << status.error_message() << std::endl;
    return status.ok();
  }

  std::vector<char> values_;
  grpc::GenericStub stub_;
};

int CallOnCommand(const std::string& port, std::size_t bytes) {
  Client client(port, bytes);
  if (!client.Push()) return 1;
  std::cout << "{\"ready\":true}" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    if (!(line == "push" ? client.Push() : client.Pull())) return 1;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("{\"seconds\":%.9f}\n", took.count());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "serve" && argc == 2) return Serve();
  if (what == "call" && argc == 4) return CallOnCommand(argv[2], std::strtoull(argv[3], nullptr, 10));
  std::cerr << "usage: grpc_unary serve | grpc_unary call PORT BYTES\n";
  return 2;
}
