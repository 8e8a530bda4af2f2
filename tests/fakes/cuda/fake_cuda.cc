// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda/fake_cuda.h"

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/core/status.h"
#include "tests/fakes/cuda/block_emulator.h"

struct CUstream_st;

namespace mirrorflow {
namespace {

constexpr int kMaxDelay = 2000;  // iterations of an empty loop

// A vector clock: for each stream, how many of its operations are known to have already happened.
using Clock = std::map<int, int>;

void Merge(const Clock& from, Clock* to) {
  for (const auto& [stream, count] : from) (*to)[stream] = std::max((*to)[stream], count);
}

// One cudaEventRecord.
struct Record {
  bool done = false;
  bool asked_for = false;  // whether the host has queried it
  Clock clock;
};

struct Operation {
  std::string name;
  int gpu;
  int stream;
  int number;   // in its stream, from 1
  Clock after;  // the stream's clock after this operation
  std::vector<MemoryRange> accesses;
};

struct Queued {
  std::string name;
  std::function<void()> work;
  std::shared_ptr<Record> wait_for, fires;
};

struct World {
  std::mutex mu;
  std::condition_variable changed;
  FakeCudaOptions options;
  bool failed = false;  // whether the planned failure has happened
  int num_streams = 0;
  int num_waits = 0;
  int num_graph_launches = 0;
  FakeHostTraffic traffic;
  size_t allocated = 0;
  size_t lost = 0;  // leaked by earlier tests whose devices did not finish
  std::map<void*, size_t> sizes;
  std::map<const void*, size_t> pinned;  // host memory
  std::set<CUstream_st*> streams;
  std::vector<Operation> operations;
  std::map<std::thread::id, Clock> hosts;  // what each host thread has waited for
  std::timed_mutex loader;                 // held by a launch; locked before `mu`
};

World& TheWorld() {
  static World* const world = new World();
  return *world;
}

thread_local int selected_gpu = 0;
thread_local std::string launch_name;
thread_local std::vector<MemoryRange> launch_accesses;

// Returns the size of an ELF file in memory, which ends with its section table.
size_t SizeOfElf(const void* code) {
  const auto* const header = static_cast<const Elf64_Ehdr*>(code);
  return header->e_shoff + size_t{header->e_shentsize} * header->e_shnum;
}

}  // namespace
}  // namespace mirrorflow

// The structs that the runtime's handles point to.
struct CUgraph_st;
struct CUstream_st {
  int id = 0;
  int gpu = 0;
  int priority = 0;
  int count = 0;
  mirrorflow::Clock clock;
  std::deque<mirrorflow::Queued> queue;
  std::shared_ptr<CUgraph_st> capture;  // null unless the stream is captured
  bool busy = false, closed = false;
  std::condition_variable work;  // signals that work was added or `closed` was set
  std::thread thread;
};
struct CUlib_st {
  void* handle = nullptr;
  mirrorflow::EmulatedHere* (*here)() = nullptr;
  std::map<std::string, CUkern_st> kernels;
};
struct CUkern_st {
  CUlib_st* library = nullptr;
  void (*call)(void** args) = nullptr;
  const int* sizes = nullptr;
  std::string name;
  std::set<int> loaded_on = {};  // GPUs; guarded by World::loader
};
struct CUevent_st {
  std::shared_ptr<mirrorflow::Record> last;
  std::shared_ptr<CUgraph_st> capture;  // the capture of the last record; null if not captured
};
// The work enqueued on captured streams, in call order.
struct CUgraph_st {
  struct Item {
    CUstream_st* stream;
    CUevent_st *records = nullptr, *waits_for = nullptr;
    bool external = false;  // whether this is a record for streams outside the graph
    std::string name = {};
    std::vector<mirrorflow::MemoryRange> accesses = {};
    std::function<void()> work = {};
  };
  CUstream_st* origin;
  std::thread::id thread;  // the thread that began the capture
  std::vector<Item> items;
};
struct CUgraphExec_st {
  CUgraph_st graph;
};

namespace mirrorflow {
namespace {

void RunStream(CUstream_st* stream, uint64_t seed) {
  World& world = TheWorld();
  std::minstd_rand random(seed);
  std::unique_lock<std::mutex> lock(world.mu);
  while (true) {
    stream->work.wait(lock, [&] { return stream->closed || !stream->queue.empty(); });
    if (stream->closed) return;
    Queued next = std::move(stream->queue.front());
    stream->queue.pop_front();
    stream->busy = true;
    if (next.wait_for != nullptr) {
      world.changed.wait(lock, [&] { return stream->closed || next.wait_for->done; });
    }
    if (!next.name.empty() && next.name == world.options.stuck_operation) {
      world.changed.wait(lock, [&] { return stream->closed; });
    }
    if (stream->closed) return;
    lock.unlock();
    volatile int turns = static_cast<int>(random() % kMaxDelay);
    while (turns > 0) turns = turns - 1;
    if (next.work) next.work();
    lock.lock();
    if (next.fires != nullptr) next.fires->done = true;
    stream->busy = false;
    world.changed.notify_all();
  }
}

// The names of copies from and to the host.
constexpr char kCopyIn[] = "copy in", kCopyOut[] = "copy out";

void CountCopy(World& world, const std::string& name) {
  if (name == kCopyIn) ++world.traffic.copies_in;
  if (name == kCopyOut) ++world.traffic.copies_out;
}

// Returns whether all of this host memory is pinned. Requires world.mu.
bool IsPinned(const World& world, const void* begin, size_t bytes) {
  auto it = world.pinned.upper_bound(begin);
  if (it == world.pinned.begin()) return false;
  --it;
  return static_cast<const std::byte*>(begin) + bytes <=
         static_cast<const std::byte*>(it->first) + it->second;
}

// Returns whether this GPU is idle. Requires world.mu.
bool IsIdle(const World& world, int gpu) {
  return std::all_of(world.streams.begin(), world.streams.end(), [gpu](const CUstream_st* stream) {
    return stream->gpu != gpu || (stream->queue.empty() && !stream->busy);
  });
}

// Loads a kernel on a GPU when it is first launched there: waits until the GPU is idle. Requires
// world.loader.
cudaError_t LoadKernel(World& world, const CUkern_st& kernel, const CUstream_st& stream) {
  constexpr auto kPatience = std::chrono::seconds(5);
  if (!const_cast<CUkern_st&>(kernel).loaded_on.insert(stream.gpu).second) return cudaSuccess;
  std::unique_lock<std::mutex> lock(world.mu);
  if (stream.capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  const bool idle =
      world.changed.wait_for(lock, kPatience, [&] { return IsIdle(world, stream.gpu); });
  return idle ? cudaSuccess : cudaErrorLaunchTimeout;
}

// Enqueues an operation. It happens after the earlier operations in its stream, and after
// everything that its host thread has waited for. Requires world.mu.
void Enqueue(World& world, CUstream_st* stream, const std::string& name,
             const std::vector<MemoryRange>& accesses, std::function<void()> work) {
  if (stream->capture != nullptr) {
    stream->capture->items.push_back(
        {.stream = stream, .name = name, .accesses = accesses, .work = std::move(work)});
    return;
  }
  Merge(world.hosts[std::this_thread::get_id()], &stream->clock);
  stream->clock[stream->id] = ++stream->count;
  CountCopy(world, name);
  world.operations.push_back(
      {name, stream->gpu, stream->id, stream->count, stream->clock, accesses});
  stream->queue.push_back({.name = name, .work = std::move(work)});
  stream->work.notify_one();
}

// Returns whether the test planned a failure of this call.
bool Fails(absl::string_view call) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  if (world.failed || world.options.failing_call != call) return false;
  world.failed = true;
  return true;
}

cudaError_t PlannedError() { return TheWorld().options.error; }

bool Overlap(const MemoryRange& a, const MemoryRange& b) {
  const auto* x = static_cast<const std::byte*>(a.begin);
  const auto* y = static_cast<const std::byte*>(b.begin);
  return x < y + b.bytes && y < x + a.bytes && (a.is_write || b.is_write);
}

bool IsBefore(const Operation& a, const Operation& b) {
  const auto it = b.after.find(a.stream);
  return it != b.after.end() && it->second >= a.number;
}

// Returns whether this thread is capturing a stream. If so, it must not wait or allocate. Requires
// world.mu.
bool IsCapturing(const World& world) {
  return std::any_of(world.streams.begin(), world.streams.end(), [](const CUstream_st* stream) {
    return stream->capture != nullptr && stream->capture->thread == std::this_thread::get_id();
  });
}

// Calls visit(item, clock) for each operation of a graph, with the stream's clock after the
// operation. `id_of` numbers the streams. Returns the origin's clock at the end, which counts
// everything that happens before the graph's end.
template <typename IdOf, typename Visit>
Clock Walk(const CUgraph_st& graph, Clock begin, IdOf id_of, Visit visit) {
  std::map<const CUstream_st*, Clock> clocks = {{graph.origin, std::move(begin)}};
  std::map<const CUevent_st*, Clock> recorded;
  for (const CUgraph_st::Item& item : graph.items) {
    Clock& clock = clocks[item.stream];
    if (item.records != nullptr) {
      recorded[item.records] = clock;
      if (item.external) visit(item, clock);
    } else if (item.waits_for != nullptr) {
      Merge(recorded[item.waits_for], &clock);
    } else {
      ++clock[id_of(item.stream)];
      visit(item, clock);
    }
  }
  return clocks[graph.origin];
}

}  // namespace

void ResetFakeCuda(const FakeCudaOptions& options) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  world.options = options;
  world.failed = false;
  world.lost = world.allocated;
  world.num_waits = 0;
  world.num_graph_launches = 0;
  world.traffic = {};
  world.operations.clear();
}

void LaunchOnFake(cudaStream_t stream, const std::string& name,
                  const std::vector<MemoryRange>& accesses, std::function<void()> work) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  Enqueue(world, stream, name, accesses, std::move(work));
}

FakeAccesses::FakeAccesses(std::string name, std::vector<MemoryRange> accesses) {
  launch_name = std::move(name);
  launch_accesses = std::move(accesses);
}
FakeAccesses::~FakeAccesses() {
  launch_name.clear();
  launch_accesses.clear();
}

bool FakeMayWrite(const void* begin, size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(begin);
  return launch_name.empty() ||
         std::any_of(launch_accesses.begin(), launch_accesses.end(), [&](const MemoryRange& each) {
           const auto* const from = static_cast<const std::byte*>(each.begin);
           return each.is_write && from <= first && first + bytes <= from + each.bytes;
         });
}

void LaunchWatchedOnFake(cudaStream_t stream, const std::string& name, std::function<void()> work) {
  LaunchOnFake(stream, launch_name.empty() ? name : launch_name, launch_accesses, std::move(work));
}

bool FakeHasReluMasks(bool transposed) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return world.options.relu_masks == FakeCudaOptions::kAll ||
         world.options.relu_masks ==
             (transposed ? FakeCudaOptions::kTransposed : FakeCudaOptions::kPlain);
}

bool FakeHasConvolutions(bool fused) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return world.options.convolutions == FakeCudaOptions::kFused ||
         world.options.convolutions == FakeCudaOptions::kBroken ||
         (!fused && world.options.convolutions == FakeCudaOptions::kUnfused);
}

bool FakeConvolutionsAreBroken() {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return world.options.convolutions == FakeCudaOptions::kBroken;
}

bool FakeHasAttention() {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return world.options.attention;
}

int NumRecordedOperations() {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return static_cast<int>(world.operations.size());
}

int NumGraphLaunches() {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return world.num_graph_launches;
}

FakeHostTraffic HostTraffic() {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return world.traffic;
}

std::vector<std::string> OperationsOf(int gpu) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  std::vector<std::string> names;
  for (const Operation& operation : world.operations) {
    if (operation.gpu == gpu) names.push_back(operation.name);
  }
  return names;
}

int NumRecordedWaits() {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  return world.num_waits;
}

absl::Status CheckRecordedOrder() {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  const std::vector<Operation>& all = world.operations;
  for (size_t j = 0; j < all.size(); ++j) {
    for (size_t i = 0; i < j; ++i) {
      if (IsBefore(all[i], all[j]) || IsBefore(all[j], all[i])) continue;
      for (const MemoryRange& a : all[i].accesses) {
        for (const MemoryRange& b : all[j].accesses) {
          if (!Overlap(a, b)) continue;
          return absl::FailedPreconditionError(absl::StrCat(
              all[i].name, " (stream ", all[i].stream, ", ", a.is_write ? "writes" : "reads",
              ") and ", all[j].name, " (stream ", all[j].stream, ", ",
              b.is_write ? "writes" : "reads", ") access the same bytes, but nothing orders them"));
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow

// The runtime's functions, as its header declares them.

using mirrorflow::Enqueue;
using mirrorflow::Fails;
using mirrorflow::IsCapturing;
using mirrorflow::PlannedError;
using mirrorflow::TheWorld;
using mirrorflow::World;

#define MF_FAIL_IF_PLANNED(call) \
  if (Fails(#call)) return PlannedError()

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorOfTheFake";
}
const char* cudaGetErrorString(cudaError_t) { return "error planned by the test"; }
cudaError_t cudaGetLastError() {
  MF_FAIL_IF_PLANNED(cudaGetLastError);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  MF_FAIL_IF_PLANNED(cudaGetDeviceCount);
  *count = TheWorld().options.num_gpus;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = mirrorflow::selected_gpu;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  mirrorflow::selected_gpu = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int ordinal) {
  MF_FAIL_IF_PLANNED(cudaGetDeviceProperties);
  *properties = {};
  std::strcpy(properties->name, "fake GPU");
  properties->uuid.bytes[0] = static_cast<char>(ordinal);
  return cudaSuccess;
}

// The code is a shared library. It is written to a file, which is deleted after loading.
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned int, cudaLibraryOption*, void**, unsigned int) {
  MF_FAIL_IF_PLANNED(cudaLibraryLoadData);
  // The name must be unique: if two libraries have the same name, the loader uses the first.
  const char* const tmp = getenv("TEST_TMPDIR");
  std::string path = absl::StrCat(tmp != nullptr ? tmp : "/tmp", "/emulated.XXXXXX");
  const int file = mkstemp(path.data());
  const size_t size = mirrorflow::SizeOfElf(code);
  const bool written = write(file, code, size) == static_cast<ssize_t>(size);
  close(file);
  auto* const loaded = new CUlib_st();
  loaded->handle = written ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path.c_str());
  *library = loaded;
  if (loaded->handle == nullptr) return cudaErrorInvalidKernelImage;
  loaded->here = reinterpret_cast<mirrorflow::EmulatedHere* (*)()>(dlsym(loaded->handle, "MfHere"));
  return cudaSuccess;
}
// Unloads nothing, because a launch can still be queued.
cudaError_t cudaLibraryUnload(cudaLibrary_t) { return cudaSuccess; }
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  MF_FAIL_IF_PLANNED(cudaLibraryGetKernel);
  void* const call = dlsym(library->handle, absl::StrCat(name, "_call").c_str());
  void* const sizes = dlsym(library->handle, absl::StrCat(name, "_sizes").c_str());
  if (call == nullptr || sizes == nullptr) return cudaErrorSymbolNotFound;
  const CUkern_st found = {library, reinterpret_cast<void (*)(void**)>(call),
                           reinterpret_cast<const int* (*)()>(sizes)(), name};
  const std::lock_guard<std::timed_mutex> lock(TheWorld().loader);
  // Keeps an existing entry: a kernel that another caller has already got stays loaded.
  *kernel = &library->kernels.try_emplace(name, found).first->second;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** args, size_t,
                             cudaStream_t stream) {
  MF_FAIL_IF_PLANNED(cudaLaunchKernel);
  const auto* const kernel = static_cast<const CUkern_st*>(function);
  World& world = TheWorld();
  const std::unique_lock<std::timed_mutex> loads(world.loader, std::chrono::seconds(10));
  if (!loads.owns_lock()) return cudaErrorLaunchTimeout;
  const cudaError_t loaded = mirrorflow::LoadKernel(world, *kernel, *stream);
  if (loaded != cudaSuccess) return loaded;
  auto values = std::make_shared<std::vector<std::vector<char>>>();
  for (int i = 0; kernel->sizes[i] > 0; ++i) {
    const char* const value = static_cast<const char*>(args[i]);
    values->emplace_back(value, value + kernel->sizes[i]);
  }
  const uint64_t seed = world.options.seed + stream->count;
  mirrorflow::LaunchWatchedOnFake(stream, kernel->name, [=] {
    std::vector<void*> addresses;
    for (std::vector<char>& value : *values) addresses.push_back(value.data());
    mirrorflow::RunGrid(kernel->call, addresses.data(), kernel->library->here(), grid, block, seed);
  });
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  MF_FAIL_IF_PLANNED(cudaMalloc);
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  if (IsCapturing(world)) return cudaErrorStreamCaptureUnsupported;
  if (world.allocated - world.lost + bytes > world.options.memory_bytes) {
    return cudaErrorMemoryAllocation;
  }
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*memory, 0xA5, bytes);  // arbitrary contents
  world.sizes[*memory] = bytes;
  world.allocated += bytes;
  return cudaSuccess;
}
// Waits for all work on the GPU, as the real cudaFree does.
cudaError_t cudaFree(void* memory) {
  World& world = TheWorld();
  std::unique_lock<std::mutex> lock(world.mu);
  if (IsCapturing(world)) return cudaErrorStreamCaptureUnsupported;
  world.changed.wait(lock, [&] { return mirrorflow::IsIdle(world, mirrorflow::selected_gpu); });
  world.allocated -= world.sizes[memory];
  world.sizes.erase(memory);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* all) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  *all = world.options.memory_bytes;
  *free = *all - (world.allocated - world.lost);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  MF_FAIL_IF_PLANNED(cudaMallocHost);
  *memory = std::malloc(bytes);
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  world.pinned[*memory] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  world.pinned.erase(memory);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  MF_FAIL_IF_PLANNED(cudaMemsetAsync);
  mirrorflow::LaunchOnFake(stream, "memset", {{memory, bytes, true}},
                           [=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  MF_FAIL_IF_PLANNED(cudaMemcpyAsync);
  const bool in = kind == cudaMemcpyHostToDevice, out = kind == cudaMemcpyDeviceToHost;
  if (in || out) {
    World& world = TheWorld();
    std::lock_guard<std::mutex> lock(world.mu);
    if (!mirrorflow::IsPinned(world, in ? from : to, bytes)) return cudaErrorInvalidValue;
  }
  const absl::Duration delay = in ? TheWorld().options.copy_in_delay : absl::ZeroDuration();
  mirrorflow::LaunchOnFake(stream,
                           in ? mirrorflow::kCopyIn : (out ? mirrorflow::kCopyOut : "memcpy"),
                           {{from, bytes, false}, {to, bytes, true}}, [=] {
                             absl::SleepFor(delay);
                             std::memmove(to, from, bytes);
                           });
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = stream->priority;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int priority) {
  MF_FAIL_IF_PLANNED(cudaStreamCreateWithPriority);
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  *stream = new CUstream_st();
  (*stream)->id = world.num_streams++;
  (*stream)->gpu = mirrorflow::selected_gpu;
  (*stream)->priority = priority;
  world.streams.insert(*stream);
  const uint64_t seed = world.options.seed * 1000 + static_cast<uint64_t>((*stream)->id);
  (*stream)->thread = std::thread(mirrorflow::RunStream, *stream, seed);
  return cudaSuccess;
}
// Drops the work that is still enqueued, so a caller cannot rely on its completion.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    World& world = TheWorld();
    std::lock_guard<std::mutex> lock(world.mu);
    stream->closed = true;
    world.streams.erase(stream);
    stream->work.notify_one();
    world.changed.notify_all();
  }
  stream->thread.join();
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  MF_FAIL_IF_PLANNED(cudaStreamWaitEvent);
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  const bool ignored = stream->gpu == 0 && world.num_waits++ == world.options.ignored_wait;
  if (event->capture != nullptr) {
    // A stream that waits for a captured event joins the capture.
    const bool active = event->capture->origin->capture == event->capture;
    if (!active || (stream->capture != nullptr && stream->capture != event->capture)) {
      return cudaErrorStreamCaptureIsolation;
    }
    stream->capture = event->capture;
    if (!ignored) stream->capture->items.push_back({.stream = stream, .waits_for = event});
    return cudaSuccess;
  }
  if (stream->capture != nullptr && event->last != nullptr) return cudaErrorStreamCaptureIsolation;
  if (ignored || event->last == nullptr) return cudaSuccess;
  mirrorflow::Merge(event->last->clock, &stream->clock);
  stream->queue.push_back({.wait_for = event->last});
  stream->work.notify_one();
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  MF_FAIL_IF_PLANNED(cudaEventCreateWithFlags);
  *event = new CUevent_st();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  MF_FAIL_IF_PLANNED(cudaEventRecord);
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  event->capture = stream->capture;
  if (stream->capture != nullptr) {
    stream->capture->items.push_back({.stream = stream, .records = event});
    return cudaSuccess;
  }
  event->last = std::make_shared<mirrorflow::Record>();
  event->last->clock = stream->clock;
  stream->queue.push_back({.fires = event->last});
  stream->work.notify_one();
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  if (flags != cudaEventRecordExternal) return cudaEventRecord(event, stream);
  MF_FAIL_IF_PLANNED(cudaEventRecordWithFlags);
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  if (stream->capture == nullptr) return cudaErrorIllegalState;
  event->capture = nullptr;  // the record is for streams outside the graph
  stream->capture->items.push_back({.stream = stream, .records = event, .external = true});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  MF_FAIL_IF_PLANNED(cudaEventQuery);
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  if (event->capture != nullptr) return cudaErrorCapturedEvent;
  if (event->last == nullptr) return cudaSuccess;
  if (!std::exchange(event->last->asked_for, true)) ++world.traffic.waits;
  if (!event->last->done) return cudaErrorNotReady;
  mirrorflow::Merge(event->last->clock, &world.hosts[std::this_thread::get_id()]);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  *status =
      stream->capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  MF_FAIL_IF_PLANNED(cudaStreamBeginCapture);
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  // Other modes would restrict what other threads can do during the capture.
  if (mode != cudaStreamCaptureModeThreadLocal || stream->capture != nullptr) {
    return cudaErrorIllegalState;
  }
  stream->capture = std::make_shared<CUgraph_st>();
  stream->capture->origin = stream;
  stream->capture->thread = std::this_thread::get_id();
  return cudaSuccess;
}
// The origin must have waited for every stream that joined the capture.
cudaError_t cudaStreamEndCapture(cudaStream_t origin, cudaGraph_t* graph) {
  const bool fails = Fails("cudaStreamEndCapture");
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  const std::shared_ptr<CUgraph_st> captured = origin->capture;
  if (captured == nullptr || captured->origin != origin) return cudaErrorIllegalState;
  for (CUstream_st* stream : world.streams) {
    if (stream->capture == captured) stream->capture = nullptr;
  }
  mirrorflow::Clock all;
  const mirrorflow::Clock joined = mirrorflow::Walk(
      *captured, {}, [](const CUstream_st* stream) { return stream->id; },
      [&](const CUgraph_st::Item&, const mirrorflow::Clock& clock) {
        mirrorflow::Merge(clock, &all);
      });
  if (joined != all) {
    captured->items.clear();  // events may still point to `captured`
    return cudaErrorStreamCaptureUnjoined;
  }
  // Moves only the contents: events keep `captured` alive, to compare it with other captures.
  *graph = new CUgraph_st(std::move(*captured));
  return fails ? PlannedError() : cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  MF_FAIL_IF_PLANNED(cudaGraphInstantiate);
  *executable = new CUgraphExec_st{*graph};
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
// Runs the operations one after the other. The recording contains only the order that the graph
// imposes.
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  MF_FAIL_IF_PLANNED(cudaGraphLaunch);
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mu);
  if (stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
  ++world.num_graph_launches;
  mirrorflow::Merge(world.hosts[std::this_thread::get_id()], &stream->clock);
  std::map<const CUstream_st*, int> ids;  // of streams that exist only in this launch
  stream->clock = mirrorflow::Walk(
      executable->graph, stream->clock,
      [&](const CUstream_st* captured) {
        return ids.try_emplace(captured, world.num_streams + static_cast<int>(ids.size()))
            .first->second;
      },
      [&](const CUgraph_st::Item& item, const mirrorflow::Clock& clock) {
        if (item.external) {
          item.records->last = std::make_shared<mirrorflow::Record>();
          item.records->last->clock = clock;
          stream->queue.push_back({.fires = item.records->last});
          return;
        }
        const int id = ids[item.stream];
        mirrorflow::CountCopy(world, item.name);
        world.operations.push_back(
            {item.name, stream->gpu, id, clock.at(id), clock, item.accesses});
        stream->queue.push_back({.name = item.name, .work = item.work});
      });
  world.num_streams += static_cast<int>(ids.size());
  stream->work.notify_one();
  return cudaSuccess;
}

}  // extern "C"
