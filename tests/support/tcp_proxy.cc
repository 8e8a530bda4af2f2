// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tcp_proxy.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

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

TcpProxy::TcpProxy(int to_port) : to_port_(to_port) {
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
  for (const int fd : sockets_) close(fd);
  close(listener_);
}

void TcpProxy::Cut() {
  cut_ = true;
  shutdown(listener_, SHUT_RDWR);
  std::lock_guard<std::mutex> lock(mu_);
  for (const int fd : sockets_) shutdown(fd, SHUT_RDWR);
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
    sockets_.insert(sockets_.end(), {from, to});
    if (cut_) shutdown(from, SHUT_RDWR);
    for (const auto& [source, target] : {std::pair(from, to), std::pair(to, from)}) {
      forwards_.emplace_back([this, source = source, target = target,
                              capture = &captures_.emplace_back()] {  //
        Forward(source, target, capture);
      });
    }
  }
}

void TcpProxy::Forward(int from, int to, std::string* capture) {
  char buffer[1 << 14];
  for (ssize_t size; (size = recv(from, buffer, sizeof(buffer), 0)) > 0;) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      capture->append(buffer, size);
    }
    for (ssize_t sent = 0; sent < size;) {
      const ssize_t more = send(to, buffer + sent, size - sent, MSG_NOSIGNAL);
      if (more <= 0) return;
      sent += more;
    }
  }
  shutdown(to, SHUT_RDWR);
}

}  // namespace mirrorflow
