// SPDX-License-Identifier: Apache-2.0
//
// Test sockets: a network that can be cut, and connections that a test can send anything over.
#ifndef MIRRORFLOW_TESTS_SUPPORT_TCP_PROXY_H_
#define MIRRORFLOW_TESTS_SUPPORT_TCP_PROXY_H_

#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace mirrorflow {

// Returns a socket connected to a port of this host; fails the test if the connection is refused.
int ConnectToPort(int port);

// Forwards connections from a port of the proxy to another port of this host, and keeps a copy of
// all bytes.
class TcpProxy {
 public:
  // Starts a proxy that delivers bytes after `delay`, in both directions.
  explicit TcpProxy(int to_port, absl::Duration delay = absl::ZeroDuration());
  ~TcpProxy();

  int port() const { return port_; }
  // Returns all forwarded bytes, one direction of a connection after the other, starting with the
  // bytes from the first caller.
  std::string captured();
  // Closes all connections and accepts no more.
  void Cut();
  // Closes all connections at both ends, or only at the callers' end, so that the other end does
  // not notice.
  enum class Ends { kBoth, kCallers };
  void Break(Ends ends);

 private:
  struct Connection {
    int caller, called;
    bool only_caller = false;  // whether only the caller's end has been closed
  };

  void Accept();
  void Forward(const Connection* connection, bool to_called, std::string* capture);

  const int to_port_;
  const absl::Duration delay_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> cut_{false};
  std::mutex mu_;
  std::list<Connection> connections_;  // guarded by mu_
  std::vector<std::thread> forwards_;  // guarded by mu_
  std::list<std::string> captures_;    // by direction of a connection; guarded by mu_
  std::thread accept_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_TCP_PROXY_H_
