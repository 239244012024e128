#include "store/etcd_test_util.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "store/etcd_client.h"

namespace paceline::store {

using namespace std::chrono_literals;

std::optional<std::string> EtcdMissing() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/etcd").c_str(), X_OK) == 0) return std::nullopt;
  }
  return "skipped: etcd is not installed (apt-get install etcd-server)";
}

net::Endpoint UnusedEndpoint() {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  return {"127.0.0.1", ntohs(address.sin_port)};
}

std::unique_ptr<EtcdServer> EtcdServer::Start() {
  constexpr int kAttempts = 5;  // another process may take the port before etcd does
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::unique_ptr<EtcdServer> server(new EtcdServer);
    if (server->TryStart()) return server;
    if (attempt + 1 == kAttempts) {
      ADD_FAILURE() << "etcd does not start:\n" << testing::ReadFile(server->dir_ / "log");
    }
  }
  return nullptr;
}

bool EtcdServer::TryStart() {
  // etcd's gateway connects to etcd's own port by number, so the number cannot be left to etcd.
  endpoint_ = UnusedEndpoint();
  const std::string client = "http://" + endpoint_.ToString();
  const std::string peer = "http://127.0.0.1:0";
  // A short election makes short leases possible: etcd's minimum is one and a half of it.
  const std::string arguments = " --data-dir '" + (dir_ / "data") + "' --listen-client-urls " +
                                client + " --advertise-client-urls " + client +
                                " --listen-peer-urls " + peer + " --initial-advertise-peer-urls " +
                                peer + " --initial-cluster default=" + peer +
                                " --heartbeat-interval 20 --election-timeout 200 --logger zap";
  auto process = Subprocess::Start(
      {.argv = {"sh", "-c", "exec etcd" + arguments + " > '" + (dir_ / "log") + "' 2>&1"}});
  if (!process.ok()) return false;
  process_ = std::move(*process);
  EtcdClient probe({endpoint_}, 2s);
  const Instant deadline = SystemClock().Now() + 60s;
  while (SystemClock().Now() < deadline) {
    if (probe.Get("probe").ok()) return true;
    if (process_->Wait(20ms).ok()) return false;  // it has ended
  }
  return false;
}

void EtcdServer::Pause() const {
  process_->Signal(SIGSTOP);
  // A signal only begins to stop the threads of a process; its parent hears when all have stopped.
  siginfo_t info{};
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(process_->pid()), &info, WSTOPPED), 0);
}
void EtcdServer::Resume() const { process_->Signal(SIGCONT); }

void EtcdServer::Kill() {
  process_->Signal(SIGKILL);
  EXPECT_TRUE(process_->Wait(30s).ok());
}

}  // namespace paceline::store
