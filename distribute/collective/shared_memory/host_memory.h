// SPDX-License-Identifier: Apache-2.0
//
// HostMemory: the memory that the workers of one host share. Each worker has a heap that all other
// workers map.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_HOST_MEMORY_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_HOST_MEMORY_H_

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "distribute/collective/address_space.h"
#include "distribute/collective/shared_memory/heap.h"
#include "distribute/collective/shared_memory/unix_socket.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

class HostMemory final : public AddressSpace, public std::enable_shared_from_this<HostMemory> {
 public:
  // Connects the workers of this host. `workers` lists them in ascending order, and all of them
  // must call it. They find one another through the group and pass their heaps over Unix sockets,
  // only to processes of the same user and network namespace. If a worker belongs to another user,
  // Connect fails on all workers without waiting. Tests pass a `user` other than the process's.
  static absl::StatusOr<std::shared_ptr<HostMemory>> Connect(absl::Span<const int> workers,
                                                             WorkerGroup& group,
                                                             MonotonicTime deadline,
                                                             uid_t user = geteuid());

  ~HostMemory() override;

  // The workers that share the memory; process i of the address space is workers()[i].
  const std::vector<int>& workers() const { return workers_; }

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override;
  int num_processes() const override { return static_cast<int>(workers_.size()); }
  int process() const override { return process_; }
  bool IsAlive(int process) const override;

  // Returns the same zeroed memory to all workers of the host. They find it under `name` in
  // `group`, which need not be the group passed to Connect. All must pass the same size. The memory
  // is freed some time after all workers have released it.
  absl::StatusOr<std::shared_ptr<std::byte>> Share(size_t bytes, absl::string_view name,
                                                   WorkerGroup& group, MonotonicTime deadline);

 private:
  // Another process's heap, as mapped into this process. Empty for this process itself.
  struct Peer {
    UnixSocket socket;  // closed by the system when the peer ends
    std::unique_ptr<const SharedSegment> segment;
  };
  class Meeting;

  HostMemory(absl::Span<const int> workers, int process, std::shared_ptr<SharedHeap> heap,
             std::vector<Peer> peers);
  static std::vector<Segment> SegmentsOf(const SharedHeap& own, const std::vector<Peer>& peers);

  const std::vector<int> workers_;
  const int process_;
  const std::shared_ptr<SharedHeap> heap_;
  const std::vector<Peer> peers_;  // by process
  // The blocks that Share has returned; only the first process owns any.
  struct Lent {
    std::shared_ptr<std::byte> memory;
    std::atomic<int>* holders;
  };
  absl::StatusOr<std::byte*> Lend(size_t bytes);
  Mutex mu_;
  std::vector<Lent> lent_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_SHARED_MEMORY_HOST_MEMORY_H_
