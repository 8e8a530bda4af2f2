// SPDX-License-Identifier: Apache-2.0
//
// A primitive is oneDNN's term for an operation compiled for fixed shapes. Compiling takes 0.1 to
// 0.5 ms, so equal layers and all replicas in the process share one primitive. To run, a primitive
// needs memory objects for its operands. Its first run on a lane creates them for that lane; later
// runs only set their pointers.
#include "kernels/cpu/onednn.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "dnnl.hpp"
#include "framework/core/buffer.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"
#include "framework/runtime/device.h"
#include "kernels/cpu/onednn_filter.h"
#include "kernels/cpu/vectorize.h"

// Part of the OpenMP runtime that oneDNN links, declared here because only one compiler ships the
// header.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int);
}

namespace mirrorflow {
namespace {

using dnnl::memory;

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

const dnnl::engine& Engine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

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

class Primitive {
 public:
  // An operand: its oneDNN argument number and its memory layout.
  struct Arg {
    int part;
    memory::desc desc;
  };

  Primitive(dnnl::primitive primitive, std::vector<Arg> args)
      : primitive_(std::move(primitive)), args_(std::move(args)) {}
  ~Primitive() { OperandSlots::Get().Return(slot_); }
  Primitive(const Primitive&) = delete;
  Primitive& operator=(const Primitive&) = delete;

  const memory::desc& desc(int i) const { return args_[i].desc; }

  // Runs on `operands`, in the order of `args`. An empty scratchpad may be null.
  absl::Status Run(Lane& lane, std::initializer_list<const void*> operands) const;

 private:
  friend class LaneOperands;

  static inline std::atomic<uint64_t> num_made_{0};

  const int slot_ = OperandSlots::Get().Take();
  const uint64_t number_ = ++num_made_;  // unique in this process, starting at 1
  const dnnl::primitive primitive_;
  const std::vector<Arg> args_;
};

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

using PrimitivePtr = std::shared_ptr<const Primitive>;

// Number of recently created primitives to keep after their last plan is destroyed, so that
// recompiling a model is fast. Each holds tens of kilobytes of generated code.
constexpr size_t kRecentPrimitives = 256;

// Returns the primitive called `key`, which all plans of this process share. If the primitive does
// not exist, creates it and removes expired entries from the table.
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

// Describes a bias of `channels` elements, or an empty one if `bias` is false.
memory::desc FloatBias(bool bias, const memory::dims& channels, memory::format_tag layout) {
  if (!bias) return {};
  return memory::desc(channels, memory::data_type::f32, layout);
}

// Makes the scratchpad an operand, so that it comes from the plan's scratch memory.
dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

template <typename Pd>
Primitive::Arg Scratchpad(const Pd& pd) {
  return {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()};
}

// The pieces of a kernel's scratch memory, each aligned to a cache line.
class Scratch {
 public:
  // Adds a piece and returns its offset.
  int64_t Add(const memory::desc& desc) {
    const int64_t offset = bytes_;
    bytes_ += static_cast<int64_t>(AlignUp(desc.get_size()));
    return offset;
  }
  // Includes room to align the first piece.
  int64_t bytes() const { return bytes_ == 0 ? 0 : bytes_ + kBufferAlignment; }

  // Returns the address of the first piece, or null if all pieces are empty.
  static std::byte* Start(const KernelArgs& args, int64_t bytes) {
    if (bytes == 0) return nullptr;
    return reinterpret_cast<std::byte*>(
        AlignUp(reinterpret_cast<uintptr_t>(args.scratch<std::byte>())));
  }

 private:
  int64_t bytes_ = 0;
};

// Rejects operands of more than INT32_MAX elements, because parts of oneDNN use 32-bit counts.
absl::Status CheckSizes(std::initializer_list<double> element_counts) {
  for (const double count : element_counts) {
    if (count > INT32_MAX) return absl::UnimplementedError("an operand is too large for oneDNN");
  }
  return absl::OkStatus();
}

// Describes matrices. If `batched` is true, `batch` is the leading dimension.
memory::desc FloatMatrices(bool batched, int64_t batch, int64_t rows, int64_t columns,
                           bool transposed) {
  using Tag = memory::format_tag;
  if (!batched) {
    return memory::desc({rows, columns}, memory::data_type::f32, transposed ? Tag::ba : Tag::ab);
  }
  return memory::desc({batch, rows, columns}, memory::data_type::f32,
                      transposed ? Tag::acb : Tag::abc);
}

memory::desc FloatImages(bool nchw, int64_t batch, int64_t channels, int64_t h, int64_t w) {
  return memory::desc({batch, channels, h, w}, memory::data_type::f32,
                      nchw ? memory::format_tag::nchw : memory::format_tag::nhwc);
}

// Describes a filter in oneDNN's dimension order. By default oneDNN chooses the layout.
memory::desc FloatFilter(const ConvolutionGeometry& g,
                         memory::format_tag layout = memory::format_tag::any) {
  memory::dims dims = {g.out_channels / g.groups, g.in_channels / g.groups, g.h.size, g.w.size};
  if (g.groups > 1) dims.insert(dims.begin(), g.groups);
  return memory::desc(dims, memory::data_type::f32, layout);
}
// Describes a filter in the graph's layout.
memory::desc PlainFilter(const ConvolutionGeometry& g) {
  return FloatFilter(g, g.groups > 1 ? memory::format_tag::hwigo : memory::format_tag::hwio);
}

// Descriptors of a convolution and its gradients.
struct Convolution {
  explicit Convolution(const ConvolutionGeometry& g)
      : images(FloatImages(g.nchw, g.batch, g.in_channels, g.h.in, g.w.in)),
        filter(FloatFilter(g)),
        output(FloatImages(g.nchw, g.batch, g.out_channels, g.h.out, g.w.out)),
        strides({g.h.stride, g.w.stride}),
        dilates({g.h.dilation - 1, g.w.dilation - 1}),
        before({g.h.before, g.w.before}),
        after({g.h.after(), g.w.after()}) {}

  // An empty `bias` means no bias.
  dnnl::convolution_forward::primitive_desc Forward(const memory::desc& bias = {}) const {
    return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, images, filter,
             bias, output, strides, dilates, before, after},
            Attributes(),
            Engine()};
  }
  dnnl::convolution_backward_data::primitive_desc BackpropInput() const {
    return {{dnnl::algorithm::convolution_direct, images, filter, output, strides, dilates, before,
             after},
            Attributes(),
            Engine(),
            Forward()};
  }
  dnnl::convolution_backward_weights::primitive_desc BackpropFilter() const {
    return {{dnnl::algorithm::convolution_direct, images, filter, output, strides, dilates, before,
             after},
            Attributes(),
            Engine(),
            Forward()};
  }

  const memory::desc images, filter, output;
  const memory::dims strides, dilates, before, after;
};

std::string Key(absl::string_view what, const ConvolutionGeometry& g) {
  std::string key = absl::StrCat(what, " ", g.nchw, " ", g.batch, " ", g.in_channels, " ",
                                 g.out_channels, " ", g.groups, " ", g.bias);
  for (const Window* window : {&g.h, &g.w}) {
    absl::StrAppend(&key, " ", window->in, " ", window->out, " ", window->size, " ", window->stride,
                    " ", window->before, " ", window->dilation);
  }
  return key;
}

// Also rejects windows with very many elements, because oneDNN enumerates the elements before the
// filter's memory is known to be available.
absl::Status CheckSizes(const ConvolutionGeometry& g) {
  constexpr double kMaxWindowElements = 1 << 20;
  if (static_cast<double>(g.h.size) * static_cast<double>(g.w.size) > kMaxWindowElements) {
    return absl::UnimplementedError("a window is too large for oneDNN");
  }
  const double batch = g.batch, in = g.in_channels, out = g.out_channels;
  return CheckSizes({batch * g.h.in * g.w.in * in, batch * g.h.out * g.w.out * out,
                     in * out * g.h.size * g.w.size});
}

// Returns the blocks of a filter, or nullopt for other layouts and for groups of channels.
std::optional<BlockedFilter> BlocksOf(const memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  const dnnl_blocking_desc_t& blocks = d.format_desc.blocking;
  constexpr int kOut = 0, kIn = 1, kHeight = 2, kWidth = 3;
  if (d.format_kind != dnnl_blocked || d.extra.flags != dnnl_memory_extra_flag_none ||
      d.ndims != 4 || d.offset0 != 0 || blocks.inner_nblks < 1 || blocks.inner_nblks > 2) {
    return std::nullopt;
  }
  int64_t block[4] = {1, 1, 1, 1};
  for (int i = 0; i < blocks.inner_nblks; ++i) {
    if (block[blocks.inner_idxs[i]] != 1) return std::nullopt;
    block[blocks.inner_idxs[i]] = blocks.inner_blks[i];
  }
  for (int i = 0; i < d.ndims; ++i) {
    if (d.padded_dims[i] != (d.dims[i] + block[i] - 1) / block[i] * block[i]) return std::nullopt;
  }
  if (block[kHeight] != 1 || block[kWidth] != 1) return std::nullopt;
  return BlockedFilter{.height = d.dims[kHeight],
                       .width = d.dims[kWidth],
                       .in_channels = d.dims[kIn],
                       .out_channels = d.dims[kOut],
                       .in_block = block[kIn],
                       .out_block = block[kOut],
                       .in_is_innermost = blocks.inner_idxs[blocks.inner_nblks - 1] == kIn,
                       .height_stride = blocks.strides[kHeight],
                       .width_stride = blocks.strides[kWidth],
                       .in_stride = blocks.strides[kIn],
                       .out_stride = blocks.strides[kOut]};
}

// Copies a matrix or filter to another layout.
class Reorder {
 public:
  // Return a null `Ptr` if the layouts are equal.
  using Ptr = std::shared_ptr<const Reorder>;
  static absl::StatusOr<Ptr> Create(const std::string& key, const memory::desc& from,
                                    const memory::desc& to) {
    if (from == to) return Ptr();
    MF_ASSIGN_OR_RETURN(
        PrimitivePtr primitive, Cached(key, [&] {
          const dnnl::reorder::primitive_desc pd(Engine(), from, Engine(), to, Attributes());
          return std::make_shared<const Primitive>(
              dnnl::reorder(pd), std::vector<Primitive::Arg>{
                                     {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, Scratchpad(pd)});
        }));
    const memory::desc scratchpad = primitive->desc(2);
    return Ptr(new Reorder(std::move(primitive), std::nullopt, to, scratchpad));
  }
  // `from` is the filter's layout in the graph.
  static absl::StatusOr<Ptr> OfFilter(const std::string& key, const memory::desc& from,
                                      const memory::desc& to) {
    const std::optional<BlockedFilter> blocks = BlocksOf(to);
    if (!blocks.has_value() || !blocks->CanCopy()) return Create(key, from, to);
    if (blocks->IsPlain()) return Ptr();
    return Ptr(new Reorder(nullptr, blocks, to, /*scratchpad=*/{}));
  }

  const memory::desc& to() const { return to_; }
  const memory::desc& scratchpad() const { return scratchpad_; }
  absl::Status Run(Lane& lane, const void* from, void* to, void* scratchpad) const {
    if (primitive_ != nullptr) return primitive_->Run(lane, {from, to, scratchpad});
    blocks_->Copy(static_cast<const float*>(from), static_cast<float*>(to));
    return absl::OkStatus();
  }

 private:
  Reorder(PrimitivePtr primitive, const std::optional<BlockedFilter>& blocks,
          const memory::desc& to, const memory::desc& scratchpad)
      : primitive_(std::move(primitive)), blocks_(blocks), to_(to), scratchpad_(scratchpad) {}

  const PrimitivePtr primitive_;  // null if `blocks_` copies
  const std::optional<BlockedFilter> blocks_;
  const memory::desc to_, scratchpad_;
};

// Identifies a layout, so that kernels for different batch sizes share a form. Returns `otherwise`
// for a layout that oneDNN does not describe by strides and blocks.
std::string LayoutKey(const memory::desc& desc, const std::string& otherwise) {
  const dnnl_memory_desc_t& d = desc.data;
  if (d.format_kind != dnnl_blocked || d.extra.flags != dnnl_memory_extra_flag_none) {
    return otherwise;
  }
  const dnnl_blocking_desc_t& blocks = d.format_desc.blocking;
  std::string key = "blocked";
  for (int i = 0; i < d.ndims; ++i) {
    absl::StrAppend(&key, " ", d.dims[i], "/", d.padded_dims[i], "*", blocks.strides[i]);
  }
  for (int i = 0; i < blocks.inner_nblks; ++i) {
    absl::StrAppend(&key, " ", blocks.inner_blks[i], "@", blocks.inner_idxs[i]);
  }
  return key;
}

// Returns the form of input `input` that `reorder` makes. `key` identifies the kernel, and
// `transposed` means that the operand is stored as the transpose of what oneDNN describes.
OperandForm FormOf(int input, const std::string& key, const Reorder::Ptr& reorder,
                   bool transposed) {
  Scratch scratch;
  scratch.Add(reorder->scratchpad());
  const int64_t bytes = scratch.bytes();
  return {.input = input,
          .key = absl::StrCat(LayoutKey(reorder->to(), key), transposed ? " transposed" : ""),
          .bytes = static_cast<int64_t>(reorder->to().get_size()),
          .scratch_bytes = bytes,
          .make = MakeKernel([reorder, bytes](const KernelArgs& args, Lane& lane) {
            return reorder->Run(lane, args.input<float>(0), args.output<float>(0),
                                Scratch::Start(args, bytes));
          })};
}

// Returns a kernel that converts the filter (input 1) to oneDNN's layout, then runs `primitive` on
// input `input`, the filter, output 0 and the bias (input 2), if the geometry has one.
// If `keeps_filter` is true, the kernel expects the converted filter as a form instead.
absl::StatusOr<KernelPlan> WithReorderedFilter(const ConvolutionGeometry& g, const std::string& key,
                                               const PrimitivePtr& primitive, int input,
                                               bool keeps_filter) {
  const memory::desc plain = PlainFilter(g);
  MF_ASSIGN_OR_RETURN(
      const Reorder::Ptr reorder,
      Reorder::OfFilter(absl::StrCat("reorder for ", key), plain, primitive->desc(1)));
  const bool has_form = keeps_filter && reorder != nullptr;
  const bool reorders = !has_form && reorder != nullptr;
  Scratch scratch;
  const int64_t filter = reorders ? scratch.Add(primitive->desc(1)) : 0;
  const int64_t reorder_pad = reorders ? scratch.Add(reorder->scratchpad()) : 0;
  const int64_t pad = scratch.Add(primitive->desc(3));
  const int64_t bytes = scratch.bytes();
  const bool bias = g.bias;
  std::vector<OperandForm> forms;
  if (has_form) forms.push_back(FormOf(/*input=*/1, key, reorder, /*transposed=*/false));
  return KernelPlan{
      .kernel = MakeKernel([=](const KernelArgs& args, Lane& lane) -> absl::Status {
        std::byte* const start = Scratch::Start(args, bytes);
        const void* weights = args.input<float>(1);
        if (reorders) {
          MF_RETURN_IF_ERROR(reorder->Run(lane, weights, start + filter, start + reorder_pad));
          weights = start + filter;
        }
        const float* const in = args.input<float>(input);
        float* const out = args.output<float>(0);
        if (!bias) return primitive->Run(lane, {in, weights, out, start + pad});
        return primitive->Run(lane, {in, weights, out, start + pad, args.input<float>(2)});
      }),
      .scratch_bytes = bytes,
      .forms = std::move(forms)};
}

}  // namespace

absl::StatusOr<KernelPlan> OneDnnProduct(const ProductGeometry& g, bool keeps_b) {
  const double m = g.m, n = g.n, k = g.k;
  const int64_t batch = std::max(g.batch_a, g.batch_b);
  const bool batched = batch > 1;
  MF_RETURN_IF_ERROR(CheckSizes({g.batch_a * m * k, g.batch_b * k * n, batch * m * n}));
  const bool may_pack = keeps_b && !batched;
  const std::string key =
      absl::StrCat("product ", g.m, " ", g.n, " ", g.k, " ", g.transpose_a, " ", g.transpose_b, " ",
                   g.batch_a, " ", g.batch_b, " ", g.bias, may_pack ? " packed" : "");
  const memory::desc plain_b = FloatMatrices(batched, g.batch_b, g.k, g.n, g.transpose_b);
  MF_ASSIGN_OR_RETURN(
      const PrimitivePtr product, Cached(key, [&] {
        const memory::desc a = FloatMatrices(batched, g.batch_a, g.m, g.k, g.transpose_a);
        const memory::desc b =
            may_pack ? memory::desc({g.k, g.n}, memory::data_type::f32, memory::format_tag::any)
                     : plain_b;
        const memory::desc out = FloatMatrices(batched, batch, g.m, g.n, false);
        const memory::desc bias = FloatBias(g.bias, {1, g.n}, memory::format_tag::ab);
        const dnnl::matmul::primitive_desc pd({a, b, bias, out}, Attributes(), Engine());
        std::vector<Primitive::Arg> args = {{DNNL_ARG_SRC, a},
                                            {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                            {DNNL_ARG_DST, out},
                                            Scratchpad(pd)};
        if (g.bias) args.push_back({DNNL_ARG_BIAS, bias});
        return std::make_shared<const Primitive>(dnnl::matmul(pd), std::move(args));
      }));
  std::vector<OperandForm> forms;
  if (may_pack) {
    MF_ASSIGN_OR_RETURN(
        const Reorder::Ptr reorder,
        Reorder::Create(absl::StrCat("reorder for ", key), plain_b, product->desc(1)));
    if (reorder != nullptr) forms.push_back(FormOf(g.b, key, reorder, g.transpose_b));
  }
  Scratch scratch;
  scratch.Add(product->desc(3));
  const int64_t bytes = scratch.bytes();
  return KernelPlan{.kernel = MakeKernel([product, bytes, bias = g.bias, in_a = g.a, in_b = g.b](
                                             const KernelArgs& args, Lane& lane) {
                      const float *const a = args.input<float>(in_a), *const b =
                                                                          args.input<float>(in_b);
                      float* const out = args.output<float>(0);
                      void* const scratch = Scratch::Start(args, bytes);
                      if (!bias) return product->Run(lane, {a, b, out, scratch});
                      return product->Run(lane, {a, b, out, scratch, args.input<float>(2)});
                    }),
                    .scratch_bytes = bytes,
                    .forms = std::move(forms)};
}

namespace {

absl::StatusOr<KernelPlan> ConvolutionForward(const ConvolutionGeometry& g, bool keeps_filter) {
  const std::string key = Key("convolution", g);
  MF_ASSIGN_OR_RETURN(
      const PrimitivePtr primitive, Cached(key, [&] {
        const Convolution c(g);
        const memory::desc bias = FloatBias(g.bias, {g.out_channels}, memory::format_tag::a);
        const auto pd = c.Forward(bias);
        std::vector<Primitive::Arg> args = {{DNNL_ARG_SRC, c.images},
                                            {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                            {DNNL_ARG_DST, c.output},
                                            Scratchpad(pd)};
        if (g.bias) args.push_back({DNNL_ARG_BIAS, bias});
        return std::make_shared<const Primitive>(dnnl::convolution_forward(pd), std::move(args));
      }));
  return WithReorderedFilter(g, key, primitive, /*input=*/0, keeps_filter);
}

absl::StatusOr<KernelPlan> ConvolutionBackpropInput(const ConvolutionGeometry& g,
                                                    bool keeps_filter) {
  const std::string key = Key("convolution backprop input", g);
  MF_ASSIGN_OR_RETURN(const PrimitivePtr primitive, Cached(key, [&] {
                        const Convolution c(g);
                        const auto pd = c.BackpropInput();
                        return std::make_shared<const Primitive>(
                            dnnl::convolution_backward_data(pd),
                            std::vector<Primitive::Arg>{{DNNL_ARG_DIFF_DST, c.output},
                                                        {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                        {DNNL_ARG_DIFF_SRC, c.images},
                                                        Scratchpad(pd)});
                      }));
  return WithReorderedFilter(g, key, primitive, /*input=*/2, keeps_filter);
}

absl::StatusOr<KernelPlan> ConvolutionBackpropFilter(const ConvolutionGeometry& g) {
  const std::string key = Key("convolution backprop filter", g);
  MF_ASSIGN_OR_RETURN(
      const PrimitivePtr primitive, Cached(key, [&] {
        const Convolution c(g);
        const auto pd = c.BackpropFilter();
        return std::make_shared<const Primitive>(
            dnnl::convolution_backward_weights(pd),
            std::vector<Primitive::Arg>{{DNNL_ARG_SRC, c.images},
                                        {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                                        {DNNL_ARG_DIFF_DST, c.output},
                                        Scratchpad(pd)});
      }));
  const memory::desc plain = PlainFilter(g);
  MF_ASSIGN_OR_RETURN(const Reorder::Ptr reorder, Reorder::Create(absl::StrCat("reorder for ", key),
                                                                  primitive->desc(1), plain));
  Scratch scratch;
  const int64_t filter = scratch.Add(primitive->desc(1));
  const int64_t reorder_pad = reorder != nullptr ? scratch.Add(reorder->scratchpad()) : 0;
  const int64_t pad = scratch.Add(primitive->desc(3));
  const int64_t bytes = scratch.bytes();
  return KernelPlan{.kernel = MakeKernel([=](const KernelArgs& args, Lane& lane) -> absl::Status {
                      std::byte* const start = Scratch::Start(args, bytes);
                      void* const out = args.output<float>(0);
                      void* const gradient = reorder != nullptr ? start + filter : out;
                      MF_RETURN_IF_ERROR(primitive->Run(lane, {args.input<float>(0), gradient,
                                                               args.input<float>(2), start + pad}));
                      if (reorder == nullptr) return absl::OkStatus();
                      return reorder->Run(lane, gradient, out, start + reorder_pad);
                    }),
                    .scratch_bytes = bytes};
}

// Returns the matrix product that computes a gradient of a 1x1 convolution, if that is faster. It
// is for few pixels and many channels, because a product reads and writes the filter in the graph's
// layout. Only AVX-512 has fast products of any layout (product.h).
std::optional<ProductGeometry> FastProduct(ConvolutionPart part, const ConvolutionGeometry& g) {
  constexpr int64_t kMaxPixels = 256, kMinWeights = int64_t{1} << 18;
  const auto keeps_pixels = [](const Window& w) {
    return w.size == 1 && w.stride == 1 && w.before == 0 && w.in == w.out;
  };
  const int64_t pixels = g.batch * g.h.out * g.w.out;
  if (part == ConvolutionPart::kForward || g.nchw || g.groups > 1 || !keeps_pixels(g.h) ||
      !keeps_pixels(g.w) || pixels > kMaxPixels || g.in_channels * g.out_channels < kMinWeights ||
      !HasAvx512()) {
    return std::nullopt;
  }
  if (part == ConvolutionPart::kBackpropInput) {
    return ProductGeometry{.m = pixels,
                           .n = g.in_channels,
                           .k = g.out_channels,
                           .transpose_a = false,
                           .transpose_b = true,
                           .a = 2,
                           .b = 1};
  }
  return ProductGeometry{.m = g.in_channels,
                         .n = g.out_channels,
                         .k = pixels,
                         .transpose_a = true,
                         .transpose_b = false,
                         .a = 0,
                         .b = 2};
}

}  // namespace

absl::StatusOr<KernelPlan> OneDnnConvolution(ConvolutionPart part, const ConvolutionGeometry& g,
                                             bool keeps_filter) {
  MF_RETURN_IF_ERROR(CheckSizes(g));
  if (const std::optional<ProductGeometry> product = FastProduct(part, g)) {
    return OneDnnProduct(*product, keeps_filter && part == ConvolutionPart::kBackpropInput);
  }
  switch (part) {
    case ConvolutionPart::kForward:
      return ConvolutionForward(g, keeps_filter);
    case ConvolutionPart::kBackpropInput:
      return ConvolutionBackpropInput(g, keeps_filter);
    case ConvolutionPart::kBackpropFilter:
      return ConvolutionBackpropFilter(g);
  }
  return absl::UnimplementedError("unknown part of a convolution");
}

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
