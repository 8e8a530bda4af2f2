// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_LINKS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/relay.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {

// The coordination service's connections to workers. Only a few of thousands are active at a time.
// The cost of polling and serving depends only on the active connections (epoll). Not thread-safe.
class ServiceLinks {
 public:
  // Called when the link with this name has ended because it was closed or the network failed.
  // `handshake` is how long its handshake took. Must not call this object.
  using OnEnd =
      std::function<void(const std::string& name, absl::Duration handshake, bool network_failed)>;

  // Must have succeeded before any other function is called.
  absl::Status Start();

  // Closes the link with this name, if it exists.
  void Remove(const std::string& name);
  // Adds a link. `name` must not be in use. `handshake` is how long the handshake took.
  void Add(const std::string& name, int worker, absl::Duration handshake,
           std::unique_ptr<Relay> relay);

  bool empty() const { return links_.empty(); }
  size_t size() const { return links_.size(); }
  // Returns how many links the worker has.
  int CountOf(int worker) const;

  // Returns a descriptor that becomes readable when a link can make progress.
  int fd() const { return epoll_.fd(); }
  // Advances the links that can make progress, without blocking. Returns whether it must be called
  // again without waiting for fd().
  bool Advance(const OnEnd& on_end);

 private:
  struct Link;
  struct End {
    Link* link;
    int16_t events = 0;  // the events registered with epoll; 0 if not registered
    int fd = -1;
  };
  struct Link {
    std::string name;
    int worker;
    absl::Duration handshake;
    std::unique_ptr<Relay> relay;
    End network, local;
    bool is_ready = false;  // whether the link is in ready_
    bool network_failed = false;
  };

  void SetReady(Link* link);
  // Registers the events that the link waits for. Returns false if the kernel is out of memory.
  bool Watch(Link* link);
  bool Watch(End* end, int fd, int16_t events);

  OwnedSocket epoll_;
  std::map<std::string, std::unique_ptr<Link>> links_;  // by name
  std::map<int, int> counts_;                           // by worker
  std::vector<Link*> ready_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_SERVICE_LINKS_H_
