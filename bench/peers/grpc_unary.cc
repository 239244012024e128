// The peers of `paceline perf ps`: unary calls of gRPC that carry bytes as they are, and the same
// in a message of protocol buffers with one field `bytes`, as a generated stub would.
//   grpc_unary serve                prints {"port":N}, serves until stdin ends
//   grpc_unary call PORT BYTES      prints {"ready":true}; then for each line "push" or "pull" (as
//                                   they are), "push message" or "pull message" on stdin
//                                   {"seconds":S}: a call that carries BYTES there, or back
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

namespace {

using google::protobuf::BytesValue;
using MessageTraits = grpc::SerializationTraits<BytesValue>;

constexpr char kPush[] = "/bytes/push", kPull[] = "/bytes/pull";
constexpr char kPushMessage[] = "/message/push", kPullMessage[] = "/message/pull";

// The memory outlives the call: nothing is copied.
grpc::ByteBuffer Lend(const std::vector<char>& bytes) {
  const grpc::Slice slice(bytes.data(), bytes.size(), grpc::Slice::STATIC_SLICE);
  return {&slice, 1};
}

std::string TextOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  static_cast<void>(buffer.Dump(&slices));
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// What the server sends back, and the messages of its calls, which are used again. One client, one
// call at a time.
struct Values {
  std::vector<char> bytes;
  BytesValue request, answer;

  void Resize(const std::string& length) {
    bytes.resize(std::strtoull(length.c_str(), nullptr, 10), 1);
  }
};

// A push is answered with nothing, a pull (a length in text) with as many bytes.
bool Answer(const std::string& method, grpc::ByteBuffer& request, Values& values,
            grpc::ByteBuffer& answer) {
  if (method == kPush) {
    const grpc::Slice nothing;
    answer = grpc::ByteBuffer(&nothing, 1);
    return true;
  }
  if (method == kPull) {
    values.Resize(TextOf(request));
    answer = Lend(values.bytes);
    return true;
  }
  if (!MessageTraits::Deserialize(&request, &values.request).ok()) return false;
  values.answer.clear_value();
  if (method == kPullMessage) {
    values.Resize(values.request.value());
    values.answer.set_value(values.bytes.data(), values.bytes.size());
  }
  bool own_buffer = false;
  return MessageTraits::Serialize(values.answer, &answer, &own_buffer).ok();
}

class Call final : public grpc::ServerGenericBidiReactor {
 public:
  Call(std::string method, Values& values) : method_(std::move(method)), values_(values) {
    StartRead(&request_);
  }
  void OnReadDone(bool ok) override {
    if (!ok || !Answer(method_, request_, values_, answer_)) {
      return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no message"));
    }
    StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  const std::string method_;
  Values& values_;
  grpc::ByteBuffer request_, answer_;
};

class Service final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Call(context->method(), values_);
  }

 private:
  Values values_;
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
  Client(const std::string& port, std::size_t bytes)
      : values_(bytes, 1), channel_(Connect(port)), plain_(channel_), messages_(channel_) {}

  bool Run(const std::string& what) {
    if (what == "push") return Push();
    if (what == "pull") return Pull();
    if (what == "push message") return PushMessage();
    return what == "pull message" && PullMessage();
  }

 private:
  bool Push() {
    const grpc::ByteBuffer request = Lend(values_);
    grpc::ByteBuffer answer;
    return Wait(plain_, kPush, request, answer);
  }
  // Into memory of the caller, as a trainer needs them.
  bool Pull() {
    const grpc::Slice length(std::to_string(values_.size()));
    const grpc::ByteBuffer request(&length, 1);
    grpc::ByteBuffer answer;
    if (!Wait(plain_, kPull, request, answer) || answer.Length() != values_.size()) return false;
    std::vector<grpc::Slice> slices;
    if (!answer.Dump(&slices).ok()) return false;
    char* to = values_.data();
    for (const grpc::Slice& slice : slices) {
      std::memcpy(to, slice.begin(), slice.size());
      to += slice.size();
    }
    return true;
  }

  // Gradients lie elsewhere than in a message: its field gets a copy of them.
  bool PushMessage() {
    request_.set_value(values_.data(), values_.size());
    return Wait(messages_, kPushMessage, request_, answer_);
  }
  bool PullMessage() {
    length_.set_value(std::to_string(values_.size()));
    if (!Wait(messages_, kPullMessage, length_, answer_)) return false;
    if (answer_.value().size() != values_.size()) return false;
    std::memcpy(values_.data(), answer_.value().data(), values_.size());
    return true;
  }

  static std::shared_ptr<grpc::Channel> Connect(const std::string& port) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    return grpc::CreateCustomChannel("127.0.0.1:" + port, grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  template <typename Message>
  static bool Wait(grpc::TemplatedGenericStub<Message, Message>& stub, const std::string& method,
                   const Message& request, Message& answer) {
    grpc::ClientContext context;
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, method, {}, &request, &answer,
                   [&](grpc::Status status) { done.set_value(std::move(status)); });
    const grpc::Status status = done.get_future().get();
    if (!status.ok()) std::cerr << "gRPC: " << status.error_message() << std::endl;
    return status.ok();
  }

  std::vector<char> values_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub plain_;
  grpc::TemplatedGenericStub<BytesValue, BytesValue> messages_;
  BytesValue request_, length_, answer_;  // used again
};

int CallOnCommand(const std::string& port, std::size_t bytes) {
  Client client(port, bytes);
  if (!client.Run("push")) return 1;
  std::cout << "{\"ready\":true}" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    if (!client.Run(line)) return 1;
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
