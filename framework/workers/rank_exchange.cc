// SPDX-License-Identifier: Apache-2.0
#include "framework/workers/rank_exchange.h"

#include <memory>

#include "absl/time/clock.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Workers wait for each other in the first barriers; most later ones take one round trip.
constexpr int kBarriers = 32;

}  // namespace

absl::Status RankExchange::OnEachReplica(absl::FunctionRef<absl::Status(Replica&, Lane&)> work) {
  const uint64_t step = counters_.writing.load(std::memory_order_relaxed);
  std::vector<absl::Status> statuses(replicas_.size());
  const RunProgress::Run run(connection_.progress(), step);
  replicas_.Run([&](int r) {
    Replica& replica = replicas_[r];
    if (replica.communicator() != nullptr) replica.communicator()->BeginStep(step);
    constexpr LaneKind kLane = LaneKind::kCommunicate;
    statuses[r] = replica.device().Execute(
        {.count = 1,
         .lane_of = [](int) { return kLane; },
         .repetition_of = [](int) { return Repetition::kNone; },
         .run =
             [&](int) {
               return CatchOutOfMemory([&] { return work(replica, replica.device().lane(kLane)); });
             },
         .meanwhile = [] {},
         .deadline = MonotonicTime::Now() + options_.timeout,
         .recording = nullptr,
         .outcome = nullptr});
    // Otherwise the other replicas would wait for this one's collectives.
    if (!statuses[r].ok() && replica.communicator() != nullptr) {
      replica.communicator()->Abort(statuses[r]);
    }
  });
  for (const absl::Status& status : statuses) {
    if (status.ok()) continue;
    return connection_.Break(status, step, MonotonicTime::Now() + options_.report_timeout);
  }
  return absl::OkStatus();
}

absl::Status RankExchange::Barrier(absl::string_view name) {
  return OnEachReplica([&](Replica& replica, Lane& lane) {
    return replica.communicator()->Run({.operation = mirrorflow::Barrier{}, .name = name}, &lane);
  });
}

absl::StatusOr<std::vector<Passage>> RankExchange::PassBarriers() {
  std::vector<Passage> passages(kBarriers);
  for (Passage& passage : passages) {
    passage.enter_ns = absl::GetCurrentTimeNanos();
    MF_RETURN_IF_ERROR(Barrier("clocks"));
    passage.leave_ns = absl::GetCurrentTimeNanos();
  }
  return passages;
}

absl::StatusOr<std::vector<uint32_t>> RankExchange::AllGather(
    const std::vector<std::vector<uint32_t>>& own, absl::string_view name) {
  const size_t count = own[0].size(), bytes = count * sizeof(uint32_t);
  const int world_size = connection_.topology().world_size();
  const std::vector<int64_t> counts(world_size, static_cast<int64_t>(count));
  std::vector<uint32_t> all(world_size * count);
  std::vector<std::shared_ptr<std::byte>> ins(own.size()), outs(own.size());
  MF_RETURN_IF_ERROR(OnEachReplica([&](Replica& replica, Lane& lane) -> absl::Status {
    Device& device = replica.device();
    const int r = replicas_.IndexOf(replica);
    MF_ASSIGN_OR_RETURN(ins[r], device.AllocateForCollectives(bytes));
    MF_ASSIGN_OR_RETURN(outs[r], device.AllocateForCollectives(bytes * counts.size()));
    MF_RETURN_IF_ERROR(
        device.CopyIn(reinterpret_cast<const std::byte*>(own[r].data()), ins[r].get(), bytes));
    return replica.communicator()->Run({.operation = mirrorflow::AllGather{counts},
                                        .dtype = DT_INT32,
                                        .in = device.KernelAddress(ins[r].get()),
                                        .out = device.KernelAddress(outs[r].get()),
                                        .name = name},
                                       &lane);
  }));
  MF_RETURN_IF_ERROR(replicas_.first().device().CopyOut(
      outs[0].get(), reinterpret_cast<std::byte*>(all.data()), bytes * counts.size()));
  return all;
}

absl::StatusOr<Tensor> RankExchange::Broadcast(const VariableInfo& variable, int root,
                                               const Tensor& value) {
  std::vector<std::shared_ptr<std::byte>> buffers(replicas_.size());
  MF_RETURN_IF_ERROR(OnEachReplica([&](Replica& replica, Lane& lane) -> absl::Status {
    Device& device = replica.device();
    std::shared_ptr<std::byte>& buffer = buffers[replicas_.IndexOf(replica)];
    MF_ASSIGN_OR_RETURN(buffer, device.AllocateForCollectives(variable.bytes()));
    if (replica.rank() == root) {
      MF_RETURN_IF_ERROR(device.CopyIn(value.raw(), buffer.get(), value.bytes()));
    }
    std::byte* const memory = device.KernelAddress(buffer.get());
    return replica.communicator()->Run(
        {.operation = mirrorflow::Broadcast{.count = variable.shape.num_elements(), .root = root},
         .dtype = variable.dtype,
         .in = memory,
         .out = memory,
         .name = variable.name},
        &lane);
  }));
  MF_ASSIGN_OR_RETURN(Tensor received, Tensor::Allocate(variable.dtype, variable.shape));
  MF_RETURN_IF_ERROR(
      replicas_.first().device().CopyOut(buffers[0].get(), received.raw(), received.bytes()));
  return received;
}

absl::StatusOr<Tensor> RankExchange::Sum(const VariableInfo& variable) {
  std::vector<std::shared_ptr<std::byte>> sums(replicas_.size());
  MF_RETURN_IF_ERROR(OnEachReplica([&](Replica& replica, Lane& lane) -> absl::Status {
    std::shared_ptr<std::byte>& sum = sums[replicas_.IndexOf(replica)];
    MF_ASSIGN_OR_RETURN(sum, replica.device().Allocate(variable.bytes()));
    return replica.communicator()->Run(
        {.operation = AllReduce{Reduction::kSum, variable.shape.num_elements()},
         .dtype = variable.dtype,
         .in = replica.VariableAddress(variable),
         .out = replica.device().KernelAddress(sum.get()),
         .name = variable.name},
        &lane);
  }));
  MF_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(variable.dtype, variable.shape));
  MF_RETURN_IF_ERROR(replicas_.first().device().CopyOut(sums[0].get(), value.raw(), value.bytes()));
  return value;
}

}  // namespace mirrorflow
