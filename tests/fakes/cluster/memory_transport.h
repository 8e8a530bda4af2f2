// SPDX-License-Identifier: Apache-2.0
//
// MemoryNetwork: a network in the memory of one process, for tests with several workers. It
// connects the same ranks as a real cluster does (DomainPartners). Each message is copied twice. A
// test can silence a rank.
#ifndef MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_TRANSPORT_H_
#define MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_TRANSPORT_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "distribute/collective/domain_partners.h"
#include "distribute/collective/transport.h"
#include "framework/core/mutex.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

class MemoryNetwork : public std::enable_shared_from_this<MemoryNetwork> {
 public:
  static std::shared_ptr<MemoryNetwork> Create(const Topology& topology);

  // Returns the transport of a rank.
  std::unique_ptr<Transport> TransportOf(int rank);

  // Drops all future messages from and to the rank. Thread-safe.
  void Silence(int rank);

 private:
  class End;
  struct Message {
    MessageTag tag;
    std::vector<std::byte> bytes;
  };

  explicit MemoryNetwork(const Topology& topology)
      : partners_(topology),
        world_size_(topology.world_size()),
        boxes_(world_size_ * world_size_),
        events_(world_size_, -1) {}
  std::deque<Message>& Box(int from, int to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return boxes_[from * world_size_ + to];
  }

  const DomainPartners partners_;
  const int world_size_;
  Mutex mu_;
  std::vector<std::deque<Message>> boxes_ ABSL_GUARDED_BY(mu_);  // messages not yet received
  std::vector<int> events_ ABSL_GUARDED_BY(mu_);  // by rank: an eventfd that signals changes
  std::set<int> silent_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_TRANSPORT_H_
