// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/nccl/nccl_communicator.h"

#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "distribute/collective/check_collective.h"
#include "distribute/collective/collective_agreement.h"
#include "framework/core/buffer.h"
#include "framework/core/log.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"
#include "framework/runtime/failure.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/cuda_status.h"

namespace mirrorflow {
namespace {

absl::Status NcclStatus(ncclResult_t result, absl::string_view call) {
  if (result == ncclSuccess || result == ncclInProgress) [[likely]]
    return absl::OkStatus();
  const std::string message = absl::StrCat("NCCL: ", call, ": ", ncclGetErrorString(result));
  switch (result) {
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return absl::InvalidArgumentError(message);
    case ncclRemoteError:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError(message);
  }
}

#define MF_NCCL_STATUS(call) NcclStatus((call), #call)
#define MF_RETURN_IF_NCCL_ERROR(call) MF_RETURN_IF_ERROR(MF_NCCL_STATUS(call))

absl::StatusOr<ncclDataType_t> NcclType(DataType dtype) {
  switch (dtype) {
    case DT_FLOAT:
      return ncclFloat32;
    case DT_DOUBLE:
      return ncclFloat64;
    case DT_HALF:
      return ncclFloat16;
    case DT_BFLOAT16:
      return ncclBfloat16;
    case DT_INT8:
      return ncclInt8;
    case DT_UINT8:
    case DT_BOOL:
      return ncclUint8;
    case DT_INT32:
      return ncclInt32;
    case DT_INT64:
      return ncclInt64;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("NCCL: unsupported dtype ", DataTypeName(dtype)));
  }
}

ncclRedOp_t NcclReduction(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return ncclSum;
    case Reduction::kMean:
      return ncclAvg;
    case Reduction::kMax:
    case Reduction::kAny:  // the bytes are 0 or 1
      return ncclMax;
    case Reduction::kMin:
    case Reduction::kAll:
      return ncclMin;
  }
  return ncclSum;
}

// Sets an environment variable that NCCL reads at its first call, unless the user has set it.
void SetForNccl(const char* name, const std::string& value) {
  if (getenv(name) == nullptr && setenv(name, value.c_str(), 0) == 0) {
    LogInfo(absl::StrCat(name, "=", value));
  }
}

// Lets the ranks of one process use one another's registered buffers in place.
void ShareRegistrations() { SetForNccl("NCCL_SINGLE_PROC_MEM_REG_ENABLE", "1"); }

// How long ~Group waits for recorded graphs that still exist.
constexpr absl::Duration kAbortTimeout = absl::Seconds(10);

// How long a worker that fails to connect tries to report this to the other workers.
constexpr absl::Duration kReportTimeout = absl::Seconds(5);
// How long a worker waits, when it ends, for the other workers to end.
constexpr absl::Duration kEndTimeout = absl::Seconds(10);

// Returns the memory that barriers on a GPU reduce. It is never freed: freeing would wait for all
// work on the GPU, which may never end after a failure.
absl::StatusOr<void*> BarrierMemory(int gpu) {
  struct Memory {
    Mutex mu;
    std::map<int, void*> by_gpu ABSL_GUARDED_BY(mu);
  };
  static auto* const memory = new Memory();
  MutexLock lock(&memory->mu);
  void*& own = memory->by_gpu[gpu];
  if (own == nullptr) {
    MF_RETURN_IF_CUDA_ERROR(cudaSetDevice(gpu));
    MF_RETURN_IF_CUDA_ERROR(cudaMalloc(&own, sizeof(int32_t)));
  }
  return own;
}

// All ranks of one worker, which fail together. Inside this class, ranks are numbered from 0;
// errors name world ranks.
class Group {
 public:
  Group(const Topology& topology, absl::Span<const int> local_ranks, absl::Span<const int> gpus,
        WorkerGroup* workers, const NcclOptions& options)
      : options_(options),
        world_size_(topology.world_size()),
        world_ranks_(local_ranks.begin(), local_ranks.end()),
        gpus_(gpus.begin(), gpus.end()),
        workers_(workers),
        ranks_(gpus.size()),
        agreement_(topology, local_ranks, workers) {}
  ~Group() {
    {
      MutexLock lock(&mu_);
      over_ = true;
      changed_.NotifyAll();
    }
    if (watchdog_.joinable()) watchdog_.join();
    // All enqueued work ended with its step.
    AbortAll();
    // Wait: the memory that is registered with the communicators may be freed next.
    MutexLock lock(&aborts_->mu);
    aborts_->changed.WaitFor(
        lock, kAbortTimeout,
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(aborts_->mu) { return aborts_->running == 0; });
  }

  const NcclOptions& options() const { return options_; }
  int world_size() const { return world_size_; }
  int world_rank(int r) const { return world_ranks_[r]; }

  absl::Status Connect(MonotonicTime deadline) {
    MF_RETURN_IF_ERROR(CheckNcclEnvironment());
    ShareRegistrations();
    if (!options_.network_device.empty()) {
      SetForNccl("NCCL_SOCKET_IFNAME", absl::StrCat("=", options_.network_device));
    }
    if (options_.deterministic) SetForNccl("NCCL_ALGO", "allreduce:ring;reducescatter:ring");
    // NCCL's support for mixing captured and eager collectives is known to hang if one process has
    // several GPUs.
    if (options_.can_be_captured) SetForNccl("NCCL_GRAPH_MIXING_SUPPORT", "0");
    // Stops waiting for the other workers as soon as one of them fails.
    if (workers_ != nullptr) workers_->OnFailure([this](const absl::Status& why) { Fail(why); });
    absl::Status connected = ConnectAs(kEager, deadline);
    if (connected.ok() && options_.can_be_captured) connected = ConnectAs(kCaptured, deadline);
    if (workers_ != nullptr) workers_->OnFailure(nullptr);
    MF_RETURN_IF_ERROR(connected);
    for (int r = 0; r < num_local(); ++r) {
      MF_ASSIGN_OR_RETURN(ranks_[r].barrier, BarrierMemory(gpus_[r]));
    }
    MF_ASSIGN_OR_RETURN(watchdog_, StartThread("watchdog of NCCL", [this] { Watch(); }));
    return absl::OkStatus();
  }

  absl::Status status() const {
    MutexLock lock(&failure_mu_);
    return failure_;
  }

  // Stores the first failure, which all ranks then return. Aborts all communicators, which ends the
  // collectives that GPUs wait in. Does not wait for recorded collectives to end.
  void Fail(const absl::Status& why) {
    {
      MutexLock lock(&failure_mu_);
      if (!failure_.ok()) return;
      failure_ = why;
    }
    AbortAll();
  }

  // Fails all ranks because one is destroyed between steps. First waits for the other workers,
  // which may still be receiving data that NCCL sends in the background and that an abort would
  // lose.
  void End(const absl::Status& why) {
    if (workers_ != nullptr && status().ok()) {
      workers_->Barrier("nccl/end", MonotonicTime::Now() + kEndTimeout).IgnoreError();
    }
    Fail(why);
  }

  // The purpose of an NCCL communicator.
  enum Use { kEager, kCaptured, kUses };

  void BeginStep(int r) { agreement_.BeginStep(r); }
  void Announce(int r, absl::Span<const Collective* const> collectives) {
    agreement_.Announce(r, collectives);
  }
  // Called by each rank before it enqueues `c`. If the ranks do not agree, all of them fail.
  absl::Status Compare(int r, const Collective& c, Use use) {
    MF_RETURN_IF_ERROR(status());
    const absl::Status same = agreement_.Check(r, c, use == kCaptured ? "captured" : "",
                                               MonotonicTime::Now() + options_.timeout);
    if (same.ok()) return same;
    Fail(Annotate(same, "NCCL"));
    return status();
  }

  // Calls issue(comm) for rank `r` and blocks until NCCL has accepted the call. If NCCL does not
  // accept it, all ranks fail with an error that starts with the result of `describe`.
  template <typename Issue, typename Describe>
  absl::Status Run(int r, Use use, const Issue& issue, const Describe& describe) {
    MF_RETURN_IF_ERROR(status());
    absl::Status issued;
    {
      MutexLock lock(&ranks_[r].mu);
      if (ranks_[r].comms[use] == nullptr) return status();
      issued = issue(ranks_[r].comms[use]);
    }
    if (issued.ok()) issued = WaitWhileInProgress(r, use, MonotonicTime::Now() + options_.timeout);
    if (issued.ok()) return issued;
    Fail(Annotate(issued, describe()));
    return status();
  }

  void* barrier(int r) { return ranks_[r].barrier; }

 private:
  struct Rank {
    Mutex mu;  // held during calls with the communicators
    ncclComm_t comms[kUses] ABSL_GUARDED_BY(mu) = {};
    void* barrier = nullptr;  // an int32 that barriers reduce

    // Returns the communicator and clears it, so no thread can use it in NCCL any longer.
    ncclComm_t Take(Use use) {
      MutexLock lock(&mu);
      return std::exchange(comms[use], nullptr);
    }
  };
  // Counts the aborts that run in separate threads.
  struct Aborts {
    Mutex mu;
    CondVar changed;
    int running ABSL_GUARDED_BY(mu) = 0;
  };

  int num_local() const { return static_cast<int>(ranks_.size()); }

  // ncclCommAbort ends the running collectives, then waits until no captured graph contains one.
  // This thread may own such a graph, and the graph of one rank ends only after all ranks are
  // aborted, so each abort runs in its own thread.
  void AbortAll() {
    for (Rank& rank : ranks_) {
      if (ncclComm_t comm = rank.Take(kEager)) ncclCommAbort(comm);
      ncclComm_t captured = rank.Take(kCaptured);
      if (captured == nullptr) continue;
      {
        MutexLock lock(&aborts_->mu);
        ++aborts_->running;
      }
      const auto abort = [captured, aborts = aborts_] {
        ncclCommAbort(captured);
        MutexLock lock(&aborts->mu);
        --aborts->running;
        aborts->changed.NotifyAll();
      };
      absl::StatusOr<std::thread> thread = StartThread("abort of NCCL", abort);
      if (thread.ok()) {
        thread->detach();
      } else {
        abort();  // blocks, which is better than a collective that never ends
      }
    }
  }

  // Returns the id of the world's communicators for `use`, which worker 0 creates. Blocks until all
  // workers have it, so the error can name a missing worker.
  absl::StatusOr<ncclUniqueId> UniqueId(Use use, MonotonicTime deadline) {
    ncclUniqueId id;
    if (workers_ == nullptr || workers_->worker() == 0) {
      MF_RETURN_IF_NCCL_ERROR(ncclGetUniqueId(&id));
      // Check again: by now, NCCL has read its configuration file, which can set variables.
      MF_RETURN_IF_ERROR(CheckNcclEnvironment());
    }
    if (workers_ == nullptr) return id;
    const std::string key = absl::StrCat("nccl/", use == kEager ? "eager" : "captured");
    if (workers_->worker() == 0) {
      MF_RETURN_IF_ERROR(
          workers_->Put(key, std::string(id.internal, sizeof id.internal), deadline));
    } else {
      MF_ASSIGN_OR_RETURN(const std::string bytes, workers_->Get(key, deadline));
      if (bytes.size() != sizeof id.internal) {
        return absl::InternalError(
            absl::StrCat("NCCL: wrong size of the unique id from worker 0; expected ",
                         sizeof id.internal, " bytes, got ", bytes.size()));
      }
      std::copy(bytes.begin(), bytes.end(), id.internal);
    }
    MF_RETURN_IF_ERROR(workers_->Barrier(key, deadline));
    return id;
  }

  // Starts connecting all local ranks in one NCCL group. Thread-safety analysis cannot follow a
  // dynamic number of locks.
  absl::Status BeginConnecting(Use use, ncclUniqueId id) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::list<MutexLock> locks;  // keep other threads out of NCCL
    for (Rank& rank : ranks_) locks.emplace_back(&rank.mu);
    MF_RETURN_IF_ERROR(status());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    MF_RETURN_IF_NCCL_ERROR(ncclGroupStart());
    absl::Status status;
    for (int r = 0; r < num_local() && status.ok(); ++r) {
      status = CudaStatus(cudaSetDevice(gpus_[r]), "cudaSetDevice");
      if (!status.ok()) break;
      status = NcclStatus(
          ncclCommInitRankConfig(&ranks_[r].comms[use], world_size_, id, world_ranks_[r], &config),
          "ncclCommInitRankConfig");
    }
    // A group that was started must end, even after an error.
    const absl::Status ended = NcclStatus(ncclGroupEnd(), "ncclGroupEnd");
    return status.ok() ? ended : status;
  }

  absl::Status ConnectAs(Use use, MonotonicTime deadline) {
    MF_ASSIGN_OR_RETURN(const ncclUniqueId id, UniqueId(use, deadline));
    MF_RETURN_IF_ERROR(BeginConnecting(use, id));
    for (int r = 0; r < num_local(); ++r) {
      MF_RETURN_IF_ERROR(
          Annotate(WaitWhileInProgress(r, use, deadline),
                   absl::StrCat("connecting rank ", world_ranks_[r],
                                workers_ == nullptr
                                    ? ""
                                    : " (all workers have NCCL's unique id; set "
                                      "NCCL_DEBUG=INFO to see which of them cannot connect)")));
    }
    return absl::OkStatus();
  }

  // Returns the state that NCCL currently reports for a communicator of rank `r`.
  ncclResult_t Ask(int r, Use use) {
    MutexLock lock(&ranks_[r].mu);
    if (ranks_[r].comms[use] == nullptr) return ncclSuccess;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(ranks_[r].comms[use], &state);
    return asked != ncclSuccess ? asked : state;
  }

  // Blocks until the last call of rank `r` is no longer in progress.
  absl::Status WaitWhileInProgress(int r, Use use, MonotonicTime deadline) {
    while (true) {
      const ncclResult_t state = Ask(r, use);
      if (state != ncclInProgress) {
        MF_RETURN_IF_ERROR(NcclStatus(state, "ncclCommGetAsyncError"));
        return status();  // the failure if Fail has taken the communicator
      }
      if (MonotonicTime::Now() > deadline) {
        return absl::DeadlineExceededError(absl::StrCat("NCCL: a call of rank ", world_ranks_[r],
                                                        " was still in progress at the deadline"));
      }
      std::this_thread::yield();
    }
  }

  void Watch() {
    MutexLock lock(&mu_);
    while (!over_ && status().ok()) {
      changed_.WaitFor(lock, options_.watch_interval);
      lock.Unlock();
      for (int r = 0; r < num_local(); ++r) {
        for (const Use use : {kEager, kCaptured}) {
          const absl::Status seen = NcclStatus(Ask(r, use), absl::StrCat("rank ", world_ranks_[r]));
          if (!seen.ok()) Fail(WithFailure(seen, {.rank = world_ranks_[r]}));
        }
      }
      lock.Lock();
    }
  }

  const NcclOptions options_;
  const int world_size_;
  const std::vector<int> world_ranks_;  // by local rank
  const std::vector<int> gpus_;         // by local rank
  WorkerGroup* const workers_;          // null if the job has a single worker
  std::vector<Rank> ranks_;
  CollectiveAgreement agreement_;
  Mutex mu_;
  CondVar changed_;
  mutable Mutex failure_mu_;
  absl::Status failure_ ABSL_GUARDED_BY(failure_mu_);
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  std::thread watchdog_;
  const std::shared_ptr<Aborts> aborts_ = std::make_shared<Aborts>();
};

class NcclCommunicator final : public Communicator {
 public:
  // `local`: the index of the rank in its group.
  NcclCommunicator(std::shared_ptr<Group> group, int local)
      : group_(std::move(group)), local_(local) {}
  // Also fails the other ranks, whose collectives cannot run without this rank.
  ~NcclCommunicator() override {
    group_->End(WithFailure(
        absl::CancelledError(absl::StrCat("NCCL: rank ", rank(), " has left its communicator")),
        {.rank = rank()}));
  }

  int rank() const override { return group_->world_rank(local_); }
  int world_size() const override { return group_->world_size(); }

  void BeginStep(uint64_t) override { group_->BeginStep(local_); }
  void Announce(absl::Span<const Collective* const> collectives) override {
    group_->Announce(local_, collectives);
  }
  absl::Status Start(const Collective& c, Lane* lane) override {
    if (lane == nullptr) return absl::InvalidArgumentError("NCCL: a lane is required");
    const absl::Status possible = CheckCollective(c, rank(), world_size());
    if (!possible.ok()) {
      group_->Fail(WithCollective(possible, c));
      return group_->status();
    }
    const cudaStream_t stream = StreamOf(*lane);
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    if (can_be_repeated()) {
      MF_RETURN_IF_CUDA_ERROR(cudaStreamIsCapturing(stream, &capturing));
    }
    const auto use = capturing == cudaStreamCaptureStatusNone ? Group::kEager : Group::kCaptured;
    MF_RETURN_IF_ERROR(group_->Compare(local_, c, use));
    return group_->Run(
        local_, use, [&](ncclComm_t comm) { return WithCollective(Issue(c, comm, stream), c); },
        [&] { return CollectiveToString(c); });
  }
  absl::Status Finish(const Collective&, Lane*) override { return group_->status(); }
  absl::Status status() const override { return group_->status(); }
  // The registration lasts as long as the communicator.
  absl::Status Register(std::byte* memory, size_t bytes) override {
    const auto with = [&](ncclComm_t comm) {
      void* handle = nullptr;
      return NcclStatus(ncclCommRegister(comm, memory, bytes, &handle), "ncclCommRegister");
    };
    const auto describe = [&] { return absl::StrCat("registering ", bytes, " bytes"); };
    MF_RETURN_IF_ERROR(group_->Run(local_, Group::kEager, with, describe));
    return can_be_repeated() ? group_->Run(local_, Group::kCaptured, with, describe)
                             : absl::OkStatus();
  }
  bool can_be_repeated() const override { return group_->options().can_be_captured; }
  void Abort(absl::Status why) override { group_->Fail(why); }

 private:
  absl::Status WithCollective(const absl::Status& status, const Collective& c) const {
    return WithFailure(status,
                       {.rank = rank(), .sequence = c.sequence, .name = std::string(c.name)});
  }

  absl::Status Issue(const Collective& c, ncclComm_t comm, cudaStream_t stream) const {
    // A barrier's dtype has no meaning.
    const bool has_dtype = !std::holds_alternative<Barrier>(c.operation);
    MF_ASSIGN_OR_RETURN(const ncclDataType_t type, NcclType(has_dtype ? c.dtype : DT_INT32));
    return std::visit([&](const auto& what) { return Issue(what, c, type, comm, stream); },
                      c.operation);
  }

  absl::Status Issue(const Update&, const Collective& c, ncclDataType_t, ncclComm_t,
                     cudaStream_t) const {
    return NeedsHostMemory(c, rank());
  }
  absl::Status Issue(const ProductUpdate&, const Collective& c, ncclDataType_t, ncclComm_t,
                     cudaStream_t) const {
    return NeedsHostMemory(c, rank());
  }

  absl::Status Issue(const Barrier&, const Collective&, ncclDataType_t, ncclComm_t comm,
                     cudaStream_t stream) const {
    void* const one = group_->barrier(local_);
    return MF_NCCL_STATUS(ncclAllReduce(one, one, 1, ncclInt32, ncclSum, comm, stream));
  }

  absl::Status Issue(const AllReduce& a, const Collective& c, ncclDataType_t type, ncclComm_t comm,
                     cudaStream_t stream) const {
    return MF_NCCL_STATUS(
        ncclAllReduce(c.in, c.out, a.count, type, NcclReduction(a.reduction), comm, stream));
  }

  absl::Status Issue(const Broadcast& b, const Collective& c, ncclDataType_t type, ncclComm_t comm,
                     cudaStream_t stream) const {
    return MF_NCCL_STATUS(ncclBroadcast(c.in, c.out, b.count, type, b.root, comm, stream));
  }

  absl::Status Issue(const AllGather& g, const Collective& c, ncclDataType_t type, ncclComm_t comm,
                     cudaStream_t stream) const {
    if (AllEqual(g.counts)) {
      return MF_NCCL_STATUS(ncclAllGather(c.in, c.out, g.counts[rank()], type, comm, stream));
    }
    // ncclAllGather needs equal parts; unequal ones are broadcast, each by its rank.
    return ForEachPart(g.counts, [&](int root, int64_t first, int64_t count) {
      return ncclBroadcast(c.in, ByteOffset(c.out, first * DataTypeSize(c.dtype)), count, type,
                           root, comm, stream);
    });
  }

  absl::Status Issue(const ReduceScatter& s, const Collective& c, ncclDataType_t type,
                     ncclComm_t comm, cudaStream_t stream) const {
    const ncclRedOp_t reduction = NcclReduction(s.reduction);
    if (AllEqual(s.counts)) {
      return MF_NCCL_STATUS(
          ncclReduceScatter(c.in, c.out, s.counts[rank()], type, reduction, comm, stream));
    }
    return ForEachPart(s.counts, [&](int root, int64_t first, int64_t count) {
      return ncclReduce(ByteOffset(c.in, first * DataTypeSize(c.dtype)), c.out, count, type,
                        reduction, root, comm, stream);
    });
  }

  static bool AllEqual(absl::Span<const int64_t> counts) {
    return std::ranges::all_of(counts, [&](int64_t count) { return count == counts[0]; });
  }
  // Calls call(rank, first element, count) for each rank with elements, in one NCCL group.
  template <typename Call>
  static absl::Status ForEachPart(absl::Span<const int64_t> counts, const Call& call) {
    MF_RETURN_IF_NCCL_ERROR(ncclGroupStart());
    ncclResult_t result = ncclSuccess;
    int64_t first = 0;
    for (size_t r = 0; r < counts.size() && NcclStatus(result, "").ok(); ++r) {
      if (counts[r] > 0) result = call(static_cast<int>(r), first, counts[r]);
      first += counts[r];
    }
    const ncclResult_t ended = ncclGroupEnd();
    MF_RETURN_IF_ERROR(NcclStatus(result, "part of a group"));
    return NcclStatus(ended, "ncclGroupEnd");
  }

  const std::shared_ptr<Group> group_;
  const int local_;
};

}  // namespace

absl::Status CheckNcclEnvironment() {
  const char* const address = getenv("NCCL_COMM_ID");
  if (address == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "NCCL_COMM_ID: set to '", absl::CEscape(address),
      "', so NCCL would connect to any process at that address; unset it: workers exchange NCCL's "
      "unique id through the coordination service"));
}

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectNccl(
    const Topology& topology, absl::Span<const int> local_ranks, absl::Span<const int> gpus,
    WorkerGroup* workers, MonotonicTime deadline, const NcclOptions& options) {
  if (gpus.empty() || gpus.size() != local_ranks.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "NCCL: expected one or more local ranks with one GPU each; got ranks: ", local_ranks.size(),
        ", GPUs: ", gpus.size()));
  }
  for (size_t r = 0; r < gpus.size(); ++r) {
    if (std::count(gpus.begin(), gpus.begin() + r, gpus[r]) > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "NCCL: expected a different GPU for each rank, got GPU ", gpus[r], " twice"));
    }
  }
  const auto group = std::make_shared<Group>(topology, local_ranks, gpus, workers, options);
  if (const absl::Status connected = group->Connect(deadline); !connected.ok()) {
    const absl::Status why = WithFailure(connected, {.rank = local_ranks[0]});
    group->Fail(why);
    if (workers == nullptr) return why;
    // NCCL does not tell the other workers, which would otherwise wait until their deadline.
    return workers->ReportFailure(why, MonotonicTime::Now() + kReportTimeout);
  }
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (size_t r = 0; r < gpus.size(); ++r) {
    communicators.push_back(std::make_unique<NcclCommunicator>(group, static_cast<int>(r)));
  }
  return communicators;
}

const CollectiveMemory* NcclMemory() {
  class Memory final : public CollectiveMemory {
    absl::StatusOr<void*> Allocate(size_t bytes) const override {
      ShareRegistrations();
      void* memory = nullptr;
      const absl::Status status = NcclStatus(ncclMemAlloc(&memory, bytes), "ncclMemAlloc");
      if (status.ok()) return memory;
      // NCCL does not report the CUDA error; out of memory is the most likely one.
      return absl::ResourceExhaustedError(status.message());
    }
    void Free(void* memory) const override { ncclMemFree(memory); }
  };
  static const Memory memory;
  return &memory;
}

}  // namespace mirrorflow
