// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tcp_proxy.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "framework/core/monotonic_time.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

}  // namespace

int ConnectToPort(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

TcpProxy::TcpProxy(int to_port, absl::Duration delay) : to_port_(to_port), delay_(delay) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener_, 16), 0);
  EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  accept_ = std::thread([this] { Accept(); });
}

TcpProxy::~TcpProxy() {
  Cut();
  accept_.join();
  for (std::thread& forward : forwards_) forward.join();
  for (const Connection& one : connections_) {
    close(one.caller);
    close(one.called);
  }
  close(listener_);
}

void TcpProxy::Cut() {
  cut_ = true;
  shutdown(listener_, SHUT_RDWR);
  Break(Ends::kBoth);
}

void TcpProxy::Break(Ends ends) {
  std::lock_guard<std::mutex> lock(mu_);
  for (Connection& one : connections_) {
    one.only_caller = ends == Ends::kCallers;
    shutdown(one.caller, SHUT_RDWR);
    if (!one.only_caller) shutdown(one.called, SHUT_RDWR);
  }
}

std::string TcpProxy::captured() {
  std::lock_guard<std::mutex> lock(mu_);
  std::string all;
  for (const std::string& capture : captures_) all += capture;
  return all;
}

void TcpProxy::Accept() {
  while (!cut_) {
    const int from = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (from < 0) return;
    const int to = ConnectToPort(to_port_);
    std::lock_guard<std::mutex> lock(mu_);
    const Connection* const connection = &connections_.emplace_back(Connection{from, to});
    if (cut_) shutdown(from, SHUT_RDWR);
    for (const bool to_called : {true, false}) {
      forwards_.emplace_back([this, connection, to_called, capture = &captures_.emplace_back()] {
        Forward(connection, to_called, capture);
      });
    }
  }
}

void TcpProxy::Forward(const Connection* connection, bool to_called, std::string* capture) {
  const int from = to_called ? connection->caller : connection->called;
  const int to = to_called ? connection->called : connection->caller;
  std::deque<std::pair<MonotonicTime, std::string>> on_the_way;
  for (bool ended = false; !ended || !on_the_way.empty();) {
    pollfd polled = {.fd = ended ? -1 : from, .events = POLLIN, .revents = 0};
    // Adds a millisecond, because converting the time until the next arrival rounds it down.
    poll(&polled, 1,
         on_the_way.empty()
             ? -1
             : static_cast<int>(absl::ToInt64Milliseconds(std::max(
                   on_the_way.front().first - MonotonicTime::Now(), absl::ZeroDuration()))) +
                   1);
    if (polled.revents != 0) {
      std::string bytes(1 << 14, '\0');
      const ssize_t size = recv(from, bytes.data(), bytes.size(), 0);
      ended = size <= 0;
      bytes.resize(std::max<ssize_t>(size, 0));
      {
        std::lock_guard<std::mutex> lock(mu_);
        capture->append(bytes);
      }
      if (!ended) on_the_way.emplace_back(MonotonicTime::Now() + delay_, std::move(bytes));
    }
    while (!on_the_way.empty() && on_the_way.front().first <= MonotonicTime::Now()) {
      const std::string bytes = std::move(on_the_way.front().second);
      on_the_way.pop_front();
      for (size_t sent = 0; sent < bytes.size();) {
        const ssize_t more = send(to, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (more <= 0) return;
        sent += more;
      }
    }
  }
  std::lock_guard<std::mutex> lock(mu_);
  if (!connection->only_caller) shutdown(to, SHUT_RDWR);
}

}  // namespace mirrorflow
