// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/nccl/fake_nccl.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/core/dtype.h"
#include "framework/runtime/reduce_in_rank_order.h"
#include "tests/fakes/cuda/fake_cuda.h"

namespace mirrorflow {
namespace {

enum class Kind { kAllReduce, kBroadcast, kAllGather, kReduceScatter, kReduce };

DataType TypeOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return DT_FLOAT;
    case ncclFloat64:
      return DT_DOUBLE;
    case ncclFloat16:
      return DT_HALF;
    case ncclBfloat16:
      return DT_BFLOAT16;
    case ncclInt8:
      return DT_INT8;
    case ncclUint8:
      return DT_UINT8;
    case ncclInt32:
      return DT_INT32;
    default:
      return DT_INT64;
  }
}

Reduction ReductionOf(ncclRedOp_t op) {
  switch (op) {
    case ncclAvg:
      return Reduction::kMean;
    case ncclMax:
      return Reduction::kMax;
    case ncclMin:
      return Reduction::kMin;
    default:
      return Reduction::kSum;
  }
}

// The arguments that all ranks must agree on.
struct Call {
  Kind kind;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;

  bool operator==(const Call& b) const {
    return kind == b.kind && count == b.count && type == b.type && op == b.op && root == b.root;
  }
  std::string ToString() const {
    return absl::StrCat("kind ", kind, " of ", count, ", type ", type, ", reduction ", op,
                        ", root ", root);
  }
};

// One collective: the first rank's call, and the memory of all ranks.
struct Rendezvous {
  Call call;
  std::vector<const void*> ins;
  std::vector<void*> outs;
  int arrived = 0;
  bool done = false;
};

// A captured collective. Each replay is a separate Rendezvous.
struct Captured {
  Call call;
  std::vector<std::shared_ptr<Rendezvous>> rendezvous;  // by replay
};

// The communicators with the same unique id.
struct Team {
  int size = 0;
  std::set<int> joined;   // ranks
  std::set<int> aborted;  // ranks; the others, possibly in other workers, keep waiting for them
  ncclResult_t error = ncclSuccess;
  std::vector<std::shared_ptr<Rendezvous>> rendezvous;  // by number
  std::vector<std::shared_ptr<Captured>> captured;
};

struct World {
  std::mutex mu;
  std::condition_variable changed;
  FakeNcclOptions options;
  absl::Status misuse;
  int num_ids = 0;
  int num_collectives = 0;
  int num_urgent = 0;
  int num_registered = 0;
  std::map<int, std::shared_ptr<Team>> teams;
  std::set<const ncclComm*> comms;
  std::map<void*, size_t> memory;  // by address: bytes
};

World& TheWorld() {
  static World* const world = new World();
  return *world;
}

thread_local int group_depth = 0;
// Unique for each outermost group on this thread, and for each call outside a group.
thread_local int call_number = 0;

void Misused(World& world, const std::string& how) {
  if (world.misuse.ok()) world.misuse = absl::FailedPreconditionError(how);
}

}  // namespace
}  // namespace mirrorflow

struct ncclComm {
  std::shared_ptr<mirrorflow::Team> team;
  int rank = 0;
  size_t next = 0;  // index of the next eager collective
  size_t next_captured = 0;
  std::thread::id thread = {};
  std::map<void*, size_t> registered = {};
  int unresolved_call = 0;  // the call whose state has not yet been queried, or 0
  // Shared with captured graphs that contain its collectives.
  std::shared_ptr<int> graphs = std::make_shared<int>();
};

namespace mirrorflow {
namespace {

void Compute(const Rendezvous& m, int size) {
  const DataType type = TypeOf(m.call.type);
  const size_t element = DataTypeSize(type), bytes = m.call.count * element;
  switch (m.call.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
    case Kind::kReduceScatter: {
      const size_t elements = m.call.count * (m.call.kind == Kind::kReduceScatter ? size : 1);
      std::vector<std::byte> sum(elements * element);
      void* const out = sum.data();
      ReduceInRankOrder(ReductionOf(m.call.op), type, m.ins, {&out, 1},
                        static_cast<int64_t>(elements));
      for (int r = 0; r < size; ++r) {
        if (m.call.kind == Kind::kReduce && r != m.call.root) continue;
        const size_t first = m.call.kind == Kind::kReduceScatter ? r * bytes : 0;
        std::memcpy(m.outs[r], sum.data() + first, bytes);
      }
      return;
    }
    case Kind::kBroadcast:
      for (void* out : m.outs) std::memmove(out, m.ins[m.call.root], bytes);
      return;
    case Kind::kAllGather: {
      std::vector<std::byte> all(bytes * size);
      for (int r = 0; r < size; ++r) std::memcpy(all.data() + r * bytes, m.ins[r], bytes);
      for (void* out : m.outs) std::memcpy(out, all.data(), all.size());
    }
  }
}

// Runs a collective on a rank's stream: blocks until all ranks have arrived. The last rank to
// arrive computes the result.
void Meet(Team& team, Rendezvous& rendezvous, int rank, bool fails) {
  World& world = TheWorld();
  std::unique_lock<std::mutex> lock(world.mu);
  if (fails) team.error = ncclRemoteError;  // all ranks keep waiting, as with NCCL
  if (!fails && ++rendezvous.arrived == team.size && team.aborted.empty() &&
      team.error == ncclSuccess) {
    Compute(rendezvous, team.size);
    rendezvous.done = true;
    world.changed.notify_all();
  }
  world.changed.wait(lock, [&] { return rendezvous.done || team.aborted.count(rank) > 0; });
}

std::shared_ptr<Rendezvous> NewRendezvous(const Call& call, int size) {
  auto rendezvous = std::make_shared<Rendezvous>();
  rendezvous->call = call;
  rendezvous->ins.resize(size);
  rendezvous->outs.resize(size);
  return rendezvous;
}

// Checks that the state of a non-blocking communicator was queried before its next call.
void CheckResolved(World& world, ncclComm* comm) {
  if (group_depth == 0) ++call_number;
  if (comm->unresolved_call != 0 && comm->unresolved_call != call_number) {
    Misused(world, absl::StrCat("rank ", comm->rank, " is used while a call is in progress"));
  }
  comm->unresolved_call = call_number;
}

// Returns the work that each launch of a rank's graph does for one captured collective.
std::function<void()> Repeated(const std::shared_ptr<Team>& team,
                               const std::shared_ptr<Captured>& captured, int rank,
                               const std::shared_ptr<int>& graphs, const void* in, void* out) {
  return [team, captured, rank, in, out, graphs, next = std::make_shared<size_t>(0)] {
    World& world = TheWorld();
    std::shared_ptr<Rendezvous> rendezvous;
    bool fails = false;
    {
      std::lock_guard<std::mutex> lock(world.mu);
      const size_t number = (*next)++;
      fails = rank == world.options.failing_rank &&
              static_cast<int>(number) == world.options.failing_replay;
      if (captured->rendezvous.size() <= number) {
        captured->rendezvous.push_back(NewRendezvous(captured->call, team->size));
      }
      rendezvous = captured->rendezvous[number];
      rendezvous->ins[rank] = in;
      rendezvous->outs[rank] = out;
    }
    Meet(*team, *rendezvous, rank, fails);
  };
}

ncclResult_t Enqueue(ncclComm* comm, const Call& call, const void* in, void* out,
                     cudaStream_t stream) {
  World& world = TheWorld();
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &capturing);
  const bool is_captured = capturing == cudaStreamCaptureStatusActive;
  int least = 0, greatest = 0, priority = 0;
  cudaDeviceGetStreamPriorityRange(&least, &greatest);
  cudaStreamGetPriority(stream, &priority);
  std::shared_ptr<Rendezvous> rendezvous;
  std::shared_ptr<Captured> captured;
  bool fails = false;
  {
    std::lock_guard<std::mutex> lock(world.mu);
    Team& team = *comm->team;
    ++world.num_collectives;
    world.num_urgent += priority == greatest;
    CheckResolved(world, comm);
    if (comm->thread == std::thread::id()) comm->thread = std::this_thread::get_id();
    if (comm->thread != std::this_thread::get_id() && !world.options.threads_may_change) {
      Misused(world, absl::StrCat("rank ", comm->rank, " is used by two threads"));
    }
    if (is_captured ? !team.rendezvous.empty() : !team.captured.empty()) {
      Misused(world, absl::StrCat("rank ", comm->rank, " has both captured and eager collectives"));
    }
    const size_t number = is_captured ? comm->next_captured++ : comm->next++;
    const Call* others = nullptr;
    if (is_captured) {
      if (number == team.captured.size()) {
        team.captured.push_back(std::make_shared<Captured>());
        team.captured.back()->call = call;
      }
      captured = team.captured[number];
      others = &captured->call;
    } else {
      if (number == team.rendezvous.size())
        team.rendezvous.push_back(NewRendezvous(call, team.size));
      fails = comm->rank == world.options.failing_rank &&
              static_cast<int>(number) == world.options.failing_collective;
      rendezvous = team.rendezvous[number];
      rendezvous->ins[comm->rank] = in;
      rendezvous->outs[comm->rank] = out;
      others = &rendezvous->call;
    }
    if (!(*others == call)) {
      Misused(world, absl::StrCat("collective ", number, ": rank ", comm->rank, " has ",
                                  call.ToString(), ", other ranks have ", others->ToString()));
      // Real NCCL would hang or mix up the data. The fake fails instead, so the test can continue.
      team.error = ncclInvalidUsage;
    }
  }
  const size_t bytes = call.count * DataTypeSize(TypeOf(call.type));
  const auto size = static_cast<size_t>(comm->team->size);
  const bool is_root = comm->rank == call.root;
  const size_t read = call.kind == Kind::kReduceScatter           ? bytes * size
                      : call.kind == Kind::kBroadcast && !is_root ? 0
                                                                  : bytes;
  const size_t written = call.kind == Kind::kAllGather            ? bytes * size
                         : call.kind == Kind::kReduce && !is_root ? 0
                                                                  : bytes;
  LaunchOnFake(
      stream, "collective", {{in, read, false}, {out, written, true}},
      is_captured ? Repeated(comm->team, captured, comm->rank, comm->graphs, in, out)
                  : [team = comm->team, rendezvous, rank = comm->rank, fails] {
                      Meet(*team, *rendezvous, rank, fails);
                    });
  return ncclSuccess;
}

}  // namespace

void ResetFakeNccl(const FakeNcclOptions& options) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  world.options = options;
  world.misuse = absl::OkStatus();
  world.num_collectives = 0;
  world.num_urgent = 0;
  world.num_registered = 0;
  world.teams.clear();
}

absl::Status NcclMisuse() {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return world.misuse;
}

int NumNcclRegistrations() {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return world.num_registered;
}

int NumUrgentNcclCollectives() {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return world.num_urgent;
}

int NumNcclCollectives() {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return world.num_collectives;
}

}  // namespace mirrorflow

// NCCL's functions, as its header declares them.

using mirrorflow::Call;
using mirrorflow::Enqueue;
using mirrorflow::Kind;
using mirrorflow::Team;
using mirrorflow::TheWorld;
using mirrorflow::World;

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote error" : "error of the fake";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  if (getenv("NCCL_COMM_ID") != nullptr) {
    mirrorflow::Misused(world, "NCCL_COMM_ID is set, so ids are addresses from the environment");
  }
  *id = {};
  std::memcpy(id->internal, &++world.num_ids, sizeof world.num_ids);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  if (mirrorflow::group_depth++ == 0) ++mirrorflow::call_number;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return mirrorflow::group_depth-- > 0 ? ncclInProgress : ncclInvalidUsage;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  if (mirrorflow::group_depth == 0 && size > 1) {
    mirrorflow::Misused(world, "a thread connects a rank outside a group");
  }
  if (config->blocking != 0) mirrorflow::Misused(world, "a communicator is blocking");
  if (rank == world.options.unconnectable_rank) return ncclSystemError;
  int number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  std::shared_ptr<Team>& team = world.teams[number];
  if (team == nullptr) team = std::make_shared<Team>();
  if (team->size != 0 && team->size != size) {
    mirrorflow::Misused(world, "ranks with the same id differ in their world size");
  }
  team->size = size;
  if (!team->joined.insert(rank).second) {
    mirrorflow::Misused(world, absl::StrCat("rank ", rank, " connects twice with the same id"));
  }
  *comm = new ncclComm{.team = team, .rank = rank};
  (*comm)->unresolved_call = mirrorflow::call_number;
  world.comms.insert(*comm);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  const Team& team = *comm->team;
  const bool connected =
      static_cast<int>(team.joined.size()) == team.size && !world.options.connecting_hangs;
  *state = connected ? team.error : ncclInProgress;
  if (connected) comm->unresolved_call = 0;
  return ncclSuccess;
}

// Ends the rank's waits, then blocks until all graphs with the rank's collectives are destroyed.
// Times out and reports misuse where NCCL would block forever.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  World& world = TheWorld();
  std::unique_lock<std::mutex> lock(world.mu);
  comm->team->aborted.insert(comm->rank);
  world.changed.notify_all();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (comm->graphs.use_count() > 1) {
    if (std::chrono::steady_clock::now() > deadline) {
      mirrorflow::Misused(
          world,
          absl::StrCat("rank ", comm->rank, " is aborted while a graph contains its collectives"));
      break;
    }
    world.changed.wait_for(lock, std::chrono::milliseconds(1));
  }
  world.comms.erase(comm);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  if (cudaMalloc(memory, bytes) != cudaSuccess) return ncclUnhandledCudaError;
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  world.memory[*memory] = bytes;
  return ncclSuccess;
}
ncclResult_t ncclMemFree(void* memory) {
  {
    World& world = TheWorld();
    std::lock_guard<std::mutex> lock(world.mu);
    for (const ncclComm* comm : world.comms) {
      if (comm->registered.count(memory) > 0) {
        mirrorflow::Misused(
            world, absl::StrCat("memory that rank ", comm->rank, " has registered is freed"));
      }
    }
    world.memory.erase(memory);
  }
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* memory, size_t bytes, void** handle) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  const auto allocated = world.memory.find(memory);
  if (allocated == world.memory.end() || allocated->second < bytes) {
    mirrorflow::Misused(world, absl::StrCat("rank ", comm->rank, " registers memory that ",
                                            "ncclMemAlloc did not allocate"));
  }
  if (comm->next > 0) {
    mirrorflow::Misused(
        world, absl::StrCat("rank ", comm->rank, " registers memory after its first collective"));
  }
  mirrorflow::CheckResolved(world, comm);
  comm->registered[memory] = bytes;
  *handle = memory;
  ++world.num_registered;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue(comm, {Kind::kAllReduce, count, type, op, 0}, in, out, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return Enqueue(comm, {Kind::kBroadcast, count, type, ncclSum, root}, in, out, stream);
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue(comm, {Kind::kReduce, count, type, op, root}, in, out, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Enqueue(comm, {Kind::kAllGather, count, type, ncclSum, 0}, in, out, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue(comm, {Kind::kReduceScatter, count, type, op, 0}, in, out, stream);
}

}  // extern "C"
