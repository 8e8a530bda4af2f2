// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_STRANGERS_H_
#define MIRRORFLOW_TESTS_SUPPORT_STRANGERS_H_

#include <atomic>
#include <list>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/owned_socket.h"

namespace mirrorflow {

// Simulates processes that do not belong to the cluster: until destroyed, connects over and over to
// every TCP port that this process listens on. Sends garbage, lengths of 4 GiB, the beginnings of
// Mirrorflow's protocols, gRPC and TLS, a hello with another secret, one byte per second, or
// nothing, and hangs up immediately or never. Does not speak UCX's protocol, because a wrong length
// after the protocol's magic number makes Debian's UCX 1.13 abort (SECURITY.md).
class Strangers {
 public:
  Strangers();
  ~Strangers();

  int calls() const { return calls_; }
  int num_ports() const { return num_ports_; }  // ports that were called

 private:
  void Work();
  void Call(int port);

  std::vector<std::string> greetings_;
  std::list<OwnedSocket> open_;  // oldest first
  std::set<int> ports_;
  std::atomic<int> calls_{0}, num_ports_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_STRANGERS_H_
