// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/device_copy/device_copy_communicator.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "distribute/collective/check_collective.h"
#include "distribute/collective/device_copy/reduce_on_device.h"
#include "distribute/collective/rendezvous.h"
#include "framework/core/buffer.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_status.h"

namespace mirrorflow {
namespace {

// State that the ranks of a process share.
struct Group {
  // One rank's state in the current collective. Only that rank writes it, between two meetings.
  struct Rank {
    Collective collective;
    cudaEvent_t ready = nullptr;  // its input is ready
    cudaEvent_t done = nullptr;  // the rank has read all inputs and written its part of the outputs
  };

  Group(int world_size, absl::Duration timeout) : meeting(world_size, timeout), ranks(world_size) {}
  ~Group() {
    for (Rank& rank : ranks) {
      if (rank.ready != nullptr) cudaEventDestroy(rank.ready);
      if (rank.done != nullptr) cudaEventDestroy(rank.done);
    }
  }

  Rendezvous meeting;
  std::vector<Rank> ranks;
};

class DeviceCopyCommunicator final : public Communicator {
 public:
  DeviceCopyCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}
  // Also fails the other ranks, whose collectives cannot run without this rank.
  ~DeviceCopyCommunicator() override {
    group_->meeting.Fail(absl::CancelledError(
        absl::StrCat("device copy: rank ", rank_, " has left its communicator")));
  }

  int rank() const override { return rank_; }
  int world_size() const override { return group_->meeting.world_size(); }

  absl::Status Start(const Collective& c, Lane* lane) override {
    MF_RETURN_IF_ERROR(CheckCollective(c, rank_, world_size()));
    if (lane == nullptr) return absl::InvalidArgumentError("device copy: a lane is required");
    MF_RETURN_IF_ERROR(group_->meeting.status());
    const absl::Status status = Enqueue(c, StreamOf(*lane));
    if (!status.ok()) group_->meeting.Fail(status);
    return group_->meeting.status();
  }
  absl::Status Finish(const Collective&, Lane*) override { return group_->meeting.status(); }
  absl::Status status() const override { return group_->meeting.status(); }
  void Abort(absl::Status why) override { group_->meeting.Fail(why); }

 private:
  absl::Status Enqueue(const Collective& c, cudaStream_t stream) {
    std::vector<Group::Rank>& ranks = group_->ranks;
    ranks[rank_].collective = c;
    MF_RETURN_IF_CUDA_ERROR(cudaEventRecord(ranks[rank_].ready, stream));
    MF_RETURN_IF_ERROR(group_->meeting.Meet(rank_, c.name));
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (Fingerprint(c) != Fingerprint(ranks[r].collective)) {
        return absl::InvalidArgumentError(
            absl::StrCat("device copy: ranks differ; rank ", rank_, " runs ", CollectiveToString(c),
                         ", rank ", r, " runs ", CollectiveToString(ranks[r].collective)));
      }
    }
    for (const Group::Rank& rank : ranks) {
      MF_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(stream, rank.ready, 0));
    }
    MF_RETURN_IF_ERROR(EnqueuePart(c, stream));
    MF_RETURN_IF_CUDA_ERROR(cudaEventRecord(ranks[rank_].done, stream));
    // After this meeting, all ranks have enqueued their part and recorded its event.
    MF_RETURN_IF_ERROR(group_->meeting.Meet(rank_, c.name));
    for (const Group::Rank& rank : ranks) {
      MF_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(stream, rank.done, 0));
    }
    return absl::OkStatus();
  }

  // Enqueues this rank's part of a collective.
  absl::Status EnqueuePart(const Collective& c, cudaStream_t stream) const {
    return std::visit([&](const auto& what) { return EnqueuePart(what, c, stream); }, c.operation);
  }

  absl::Status EnqueuePart(const Update&, const Collective& c, cudaStream_t) const {
    return NeedsHostMemory(c, rank_);
  }
  absl::Status EnqueuePart(const ProductUpdate&, const Collective& c, cudaStream_t) const {
    return NeedsHostMemory(c, rank_);
  }

  absl::Status EnqueuePart(const Barrier&, const Collective&, cudaStream_t) const {
    return absl::OkStatus();
  }
  absl::Status EnqueuePart(const AllReduce& a, const Collective& c, cudaStream_t stream) const {
    const int64_t begin = a.count * rank_ / world_size();
    const int64_t end = a.count * (rank_ + 1) / world_size();
    Pointers<void*> out;
    for (const Group::Rank& rank : group_->ranks) {
      out.push_back(ByteOffset(rank.collective.out, begin * SizeOf(c)));
    }
    MF_RETURN_IF_CUDA_ERROR(ReduceOnDevice(a.reduction, c.dtype, InsFrom(begin * SizeOf(c)),
                                           absl::MakeSpan(out), end - begin, stream));
    return absl::OkStatus();
  }
  absl::Status EnqueuePart(const ReduceScatter& s, const Collective& c, cudaStream_t stream) const {
    void* const out = c.out;
    MF_RETURN_IF_CUDA_ERROR(ReduceOnDevice(s.reduction, c.dtype,
                                           InsFrom(FirstOf(rank_, s.counts) * SizeOf(c)), {&out, 1},
                                           s.counts[rank_], stream));
    return absl::OkStatus();
  }
  absl::Status EnqueuePart(const AllGather& g, const Collective& c, cudaStream_t stream) const {
    const int64_t first = FirstOf(rank_, g.counts);
    for (const Group::Rank& rank : group_->ranks) {
      MF_RETURN_IF_ERROR(Copy(c.in, ByteOffset(rank.collective.out, first * SizeOf(c)),
                              g.counts[rank_] * SizeOf(c), stream));
    }
    return absl::OkStatus();
  }
  absl::Status EnqueuePart(const Broadcast& b, const Collective& c, cudaStream_t stream) const {
    return Copy(group_->ranks[b.root].collective.in, c.out, b.count * SizeOf(c), stream);
  }

  template <typename T>
  using Pointers = absl::InlinedVector<T, kMaxLogicalGpus>;
  // Returns the addresses at offset `bytes` in the inputs of all ranks.
  Pointers<const void*> InsFrom(int64_t bytes) const {
    Pointers<const void*> in;
    for (const Group::Rank& rank : group_->ranks) {
      in.push_back(ByteOffset(rank.collective.in, bytes));
    }
    return in;
  }
  static int64_t SizeOf(const Collective& c) { return static_cast<int64_t>(DataTypeSize(c.dtype)); }

  static absl::Status Copy(const void* from, void* to, int64_t bytes, cudaStream_t stream) {
    if (bytes == 0 || from == to) return absl::OkStatus();
    MF_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
    return absl::OkStatus();
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> CreateDeviceCopyCommunicators(
    int world_size, int gpu, absl::Duration timeout) {
  if (world_size < 1 || world_size > kMaxLogicalGpus) {
    return absl::InvalidArgumentError(
        absl::StrCat("logical GPUs: expected 1 to ", kMaxLogicalGpus, ", got ", world_size));
  }
  const auto group = std::make_shared<Group>(world_size, timeout);
  MF_RETURN_IF_CUDA_ERROR(cudaSetDevice(gpu));
  for (Group::Rank& rank : group->ranks) {
    MF_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&rank.ready, cudaEventDisableTiming));
    MF_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&rank.done, cudaEventDisableTiming));
  }
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < world_size; ++rank) {
    communicators.push_back(std::make_unique<DeviceCopyCommunicator>(group, rank));
  }
  return communicators;
}

}  // namespace mirrorflow
