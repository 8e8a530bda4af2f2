// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/onednn_primitive.h"

#include <sys/mman.h>

#include <atomic>
#include <deque>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "kernels/cpu/onednn.h"

// Part of the OpenMP runtime that oneDNN links, declared here because only one compiler ships the
// header.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int);
}

namespace mirrorflow {
namespace onednn {

using dnnl::memory;

namespace {

std::atomic<uint64_t> num_primitives{0};

// Limits OpenMP to one thread during its lifetime. A primitive keeps the thread count that was set
// when it was created, and some primitives read the count again when they run, so this limit must
// be active both when a primitive is created and when it runs. A replica is one thread; an OpenMP
// team would compete with other replicas for cores.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }

 private:
  const int before_;
};

absl::Status ErrorOf(dnnl_status_t status, absl::string_view what) {
  const std::string message = absl::StrCat("oneDNN: ", what, " (status ", status, ")");
  if (status == dnnl_unimplemented) return absl::UnimplementedError(message);
  if (status == dnnl_out_of_memory) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

// Allocates slots in the per-lane operand tables. Destroying a primitive frees its slot.
class OperandSlots {
 public:
  static OperandSlots& Get() {
    static auto* const slots = new OperandSlots();
    return *slots;
  }

  int Take() {
    MutexLock lock(&mu_);
    if (free_.empty()) return count_++;
    const int slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void Return(int slot) {
    MutexLock lock(&mu_);
    free_.push_back(slot);
  }

 private:
  Mutex mu_;
  std::vector<int> free_ ABSL_GUARDED_BY(mu_);
  int count_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace

const dnnl::engine& Engine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

Primitive::Primitive(dnnl::primitive primitive, std::vector<Arg> args)
    : slot_(OperandSlots::Get().Take()),
      number_(++num_primitives),
      primitive_(std::move(primitive)),
      args_(std::move(args)) {}

Primitive::~Primitive() { OperandSlots::Get().Return(slot_); }

// The oneDNN objects of a lane: a stream and, for each primitive, the memory objects of its
// operands. Two lanes may run the same primitive at the same time, so they cannot share these.
class LaneOperands {
 public:
  LaneOperands() = default;
  LaneOperands(const LaneOperands&) = delete;
  LaneOperands& operator=(const LaneOperands&) = delete;
  ~LaneOperands() {
    for (Operands& operands : by_slot_) operands.Clear();
    if (stream_ != nullptr) dnnl_stream_destroy(stream_);
  }

  // Requires an earlier successful call to Of().
  dnnl_stream_t stream() const { return stream_; }

  // Returns the operands of `primitive`. Their pointers are null or left over from the last run.
  absl::StatusOr<std::vector<dnnl_exec_arg_t>*> Of(const Primitive& primitive) {
    if (stream_ == nullptr) {
      const dnnl_status_t status =
          dnnl_stream_create(&stream_, Engine().get(), dnnl_stream_default_flags);
      if (status != dnnl_success) return ErrorOf(status, "cannot create a stream");
    }
    if (static_cast<size_t>(primitive.slot_) >= by_slot_.size()) {
      by_slot_.resize(primitive.slot_ + 1);
    }
    Operands& operands = by_slot_[primitive.slot_];
    if (operands.of != primitive.number_) {
      operands.Clear();
      operands.of = primitive.number_;
    }
    std::vector<dnnl_exec_arg_t>& args = operands.args;
    for (size_t i = args.size(); i < primitive.args_.size(); ++i) {
      dnnl_memory_t object = nullptr;
      const dnnl_status_t status = dnnl_memory_create(&object, &primitive.args_[i].desc.data,
                                                      Engine().get(), DNNL_MEMORY_NONE);
      if (status != dnnl_success) return ErrorOf(status, "cannot create a memory object");
      args.push_back({primitive.args_[i].part, object});
    }
    return &args;
  }

 private:
  struct Operands {
    uint64_t of = 0;  // number of the primitive that last used this slot; slots are reused
    std::vector<dnnl_exec_arg_t> args;

    void Clear() {
      for (const dnnl_exec_arg_t& arg : args) dnnl_memory_destroy(arg.memory);
      args.clear();
    }
  };

  dnnl_stream_t stream_ = nullptr;
  std::vector<Operands> by_slot_;
};

absl::Status Primitive::Run(Lane& lane, std::initializer_list<const void*> operands) const {
  const OneThread one_thread;
  LaneOperands& mine = lane.Library<LaneOperands>();
  MF_ASSIGN_OR_RETURN(std::vector<dnnl_exec_arg_t> * args, mine.Of(*this));
  MF_CHECK(operands.size() == args->size());
  dnnl_exec_arg_t* arg = args->data();
  for (const void* operand : operands) {
    dnnl_memory_set_data_handle((arg++)->memory, const_cast<void*>(operand));
  }
  const dnnl_status_t status = dnnl_primitive_execute(primitive_.get(), mine.stream(),
                                                      static_cast<int>(args->size()), args->data());
  return status == dnnl_success ? absl::OkStatus() : ErrorOf(status, "a primitive failed");
}

namespace {

// Checks that more memory is available than any primitive has needed. If oneDNN cannot allocate
// memory for generated code, it writes the code through a null pointer.
absl::Status CheckMemoryForCode() {
  constexpr size_t kBytes = size_t{8} << 20;
  void* const probe =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe != MAP_FAILED) {
    munmap(probe, kBytes);
    return absl::OkStatus();
  }
  absl::Status status = Buffer::Allocate(kBytes).status();  // the error names the limit
  if (status.ok())
    status = absl::ResourceExhaustedError(
        "cannot map 8 MiB of memory; `ulimit -v` or `ulimit -d` may be too low");
  return Annotate(status, "oneDNN: memory for generated code");
}

// Number of recently created primitives to keep after their last plan is destroyed, so that
// recompiling a model is fast. Each holds up to half a megabyte of generated code and tables.
constexpr size_t kRecentPrimitives = 48;

}  // namespace

absl::StatusOr<PrimitivePtr> Cached(const std::string& key,
                                    absl::FunctionRef<PrimitivePtr()> make) {
  struct Cache {
    Mutex mu;
    std::map<std::string, std::weak_ptr<const Primitive>> primitives ABSL_GUARDED_BY(mu);
    std::deque<PrimitivePtr> recent ABSL_GUARDED_BY(mu);
  };
  static auto* const cache = new Cache();
  MutexLock lock(&cache->mu);
  const auto it = cache->primitives.find(key);
  if (it != cache->primitives.end()) {
    if (PrimitivePtr known = it->second.lock()) return known;
  }
  std::erase_if(cache->primitives, [](const auto& entry) { return entry.second.expired(); });
  MF_RETURN_IF_ERROR(CheckMemoryForCode());
  const OneThread one_thread;
  try {
    PrimitivePtr made = make();
    cache->primitives[key] = made;
    cache->recent.push_back(made);
    if (cache->recent.size() > kRecentPrimitives) cache->recent.pop_front();
    return made;
  } catch (const dnnl::error& error) {
    return ErrorOf(error.status, error.message);
  }
}

memory::desc FloatBias(bool bias, const memory::dims& channels, memory::format_tag layout) {
  if (!bias) return {};
  return memory::desc(channels, memory::data_type::f32, layout);
}

dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

int64_t Scratch::Add(const memory::desc& desc) {
  const int64_t offset = bytes_;
  bytes_ += static_cast<int64_t>(AlignUp(desc.get_size()));
  return offset;
}

std::byte* Scratch::Start(const KernelArgs& args, int64_t bytes) {
  if (bytes == 0) return nullptr;
  return reinterpret_cast<std::byte*>(
      AlignUp(reinterpret_cast<uintptr_t>(args.scratch<std::byte>())));
}

absl::Status CheckSizes(std::initializer_list<double> element_counts) {
  for (const double count : element_counts) {
    if (count > INT32_MAX) return absl::UnimplementedError("an operand is too large for oneDNN");
  }
  return absl::OkStatus();
}

}  // namespace onednn

bool LimitOneDnn(const std::string& instruction_set) {
  const std::map<std::string, dnnl::cpu_isa> known = {
      {"AVX2", dnnl::cpu_isa::avx2},
      {"AVX512_CORE", dnnl::cpu_isa::avx512_core},
      {"AVX512_CORE_VNNI", dnnl::cpu_isa::avx512_core_vnni},
      {"AVX512_CORE_BF16", dnnl::cpu_isa::avx512_core_bf16},
      {"AVX512_CORE_AMX", dnnl::cpu_isa::avx512_core_amx}};
  const auto found = known.find(instruction_set);
  return found != known.end() && dnnl::set_max_cpu_isa(found->second) == dnnl::status::success;
}

}  // namespace mirrorflow
