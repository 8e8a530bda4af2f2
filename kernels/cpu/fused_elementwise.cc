// SPDX-License-Identifier: Apache-2.0
//
// Trees of element-wise ops on the CPU. The kernel computes its output block by block: it runs the
// kernel of every node of the tree on one block before it goes on to the next, so that intermediate
// values stay in the L1 cache. The bits are those of separate nodes.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/status.h"
#include "framework/graph/text_form.h"
#include "kernels/cpu/all_kernels.h"
#include "kernels/cpu/broadcast.h"
#include "ops/fused_ops.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

// The pass that fuses nodes (ops/passes/fuse_elementwise.cc) creates no node with more inputs.
constexpr int kMaxInputs = 12;

// All buffers together take this much of the L1 cache. Larger blocks do not fit, and in smaller
// ones, calling the kernels takes longer than computing.
constexpr int64_t kBufferBytes = 24 << 10;
constexpr int64_t kMinBlock = 256, kMaxBlock = 4096, kBlockMultiple = 64;  // in elements

// The context of a node of the body whose operands are blocks.
class BlockContext final : public KernelContext {
 public:
  BlockContext(const Node& node, int64_t size) : node_(node), shape_({size}) {}

  const Node& node() const override { return node_; }
  const Shape& input_shape(int) const override { return shape_; }
  const Shape& output_shape(int) const override { return shape_; }
  const Tensor& constant(int) const override { return constant_; }
  const Sharding& output_sharding(int) const override { return sharding_; }
  const Shape& global_output_shape(int) const override { return shape_; }

 private:
  const Node& node_;
  const Shape shape_;
  const Tensor constant_;  // element-wise ops have no static inputs
  const Sharding sharding_ = Replicated();
};

// The body of a fused node: its nodes in order, and the place of each value. Places are numbered:
// first the inputs, then buffers for intermediate values, then the output.
class Body {
 public:
  struct Step {
    const Node* node;
    std::vector<int> inputs;
    int output;
  };

  static absl::StatusOr<Body> Parse(const std::string& text, int num_inputs) {
    Body body;
    MF_ASSIGN_OR_RETURN(Graph graph, ParseGraph(text, AllOps()));
    body.graph_ = std::make_shared<const Graph>(std::move(graph));
    MF_ASSIGN_OR_RETURN(std::vector<Node*> order, TopologicalOrder(*body.graph_));
    std::erase_if(order, [](const Node* n) { return n->op().role == OpRole::kPlaceholder; });
    body.num_inputs_ = num_inputs;
    std::vector<int> place(body.graph_->id_limit(), -1);
    for (int i = 0; i < num_inputs; ++i) {
      const Node* const input = body.graph_->FindNode(absl::StrCat("x", i));
      if (input == nullptr || order.empty()) {
        return absl::InternalError("malformed body of a fused node");
      }
      place[input->id()] = i;
    }
    body.PlaceValues(order, &place);
    return body;
  }

  const std::vector<Step>& steps() const { return steps_; }
  // The element sizes of the buffers, in bytes.
  const std::vector<int64_t>& buffers() const { return buffers_; }
  int output() const { return num_inputs_ + static_cast<int>(buffers_.size()); }

 private:
  // A buffer is free again after the last use of its value.
  void PlaceValues(const std::vector<Node*>& order, std::vector<int>* place) {
    std::vector<int> last_use(graph_->id_limit(), -1);
    for (size_t s = 0; s < order.size(); ++s) {
      for (const Output& in : order[s]->inputs()) last_use[in.node->id()] = static_cast<int>(s);
    }
    std::vector<int> free;  // buffers
    for (size_t s = 0; s < order.size(); ++s) {
      Step& step = steps_.emplace_back(Step{.node = order[s]});
      for (const Output& in : order[s]->inputs()) step.inputs.push_back((*place)[in.node->id()]);
      if (s + 1 == order.size()) break;
      const auto bytes = static_cast<int64_t>(DataTypeSize(order[s]->output_dtype(0)));
      auto fit = absl::c_find_if(free, [&](int b) { return buffers_[b] == bytes; });
      if (fit == free.end()) {
        fit = free.insert(free.end(), static_cast<int>(buffers_.size()));
        buffers_.push_back(bytes);
      }
      (*place)[order[s]->id()] = step.output = num_inputs_ + *fit;
      free.erase(fit);
      std::vector<int> ended;
      for (const Output& in : order[s]->inputs()) {
        const int at = (*place)[in.node->id()];
        if (at >= num_inputs_ && last_use[in.node->id()] == static_cast<int>(s))
          ended.push_back(at);
      }
      absl::c_sort(ended);
      ended.erase(std::unique(ended.begin(), ended.end()), ended.end());
      for (const int at : ended) free.push_back(at - num_inputs_);
    }
    steps_.back().output = output();
  }

  std::shared_ptr<const Graph> graph_;  // the kernels may keep references to its nodes
  int num_inputs_ = 0;
  std::vector<Step> steps_;
  std::vector<int64_t> buffers_;
};

// The kernels of the body for blocks of one size.
struct Program {
  int64_t size = 0;
  int64_t scratch_bytes = 0;
  std::vector<KernelPlan> kernels;  // by step

  static absl::StatusOr<Program> Create(const Body& body, int64_t size) {
    Program program{.size = size};
    for (const Body::Step& step : body.steps()) {
      MF_ASSIGN_OR_RETURN(KernelPlan plan,
                          CpuKernels().Create("CPU", BlockContext(*step.node, size)));
      program.scratch_bytes = std::max(program.scratch_bytes, plan.scratch_bytes);
      program.kernels.push_back(std::move(plan));
    }
    return program;
  }
};

void Fill(const std::byte* element, int64_t element_bytes, int64_t count, std::byte* to) {
  const auto fill = [&]<typename T>(TypeTag<T>) {
    std::fill_n(reinterpret_cast<T*>(to), count, *reinterpret_cast<const T*>(element));
  };
  if (element_bytes == 8) return fill(TypeTag<int64_t>());
  if (element_bytes == 4) return fill(TypeTag<int32_t>());
  if (element_bytes == 2) return fill(TypeTag<int16_t>());
  fill(TypeTag<int8_t>());
}

using Loop = BroadcastLoop<kMaxInputs>;

// How a block gets its elements of an input.
struct Input {
  int64_t element_bytes;
  bool is_whole;  // it has all elements of the output, so a block of it needs no copy
  bool moves;     // along a run of the loop
  bool repeats;   // all runs read the same elements
};

class FusedElementwise final : public Kernel {
 public:
  static absl::StatusOr<KernelPlan> Create(const KernelContext& c) {
    const int num_inputs = c.node().num_inputs();
    if (num_inputs > kMaxInputs) {
      return absl::InternalError(absl::StrCat("a fused node has ", num_inputs, " inputs"));
    }
    MF_ASSIGN_OR_RETURN(Body body, Body::Parse(c.attr<std::string>(ops::kBodyAttr), num_inputs));
    if (c.output_shape(0).num_elements() == 0) {
      return KernelPlan{.kernel = MakeKernel([](const KernelArgs&) {})};
    }
    std::unique_ptr<FusedElementwise> kernel(new FusedElementwise(c, std::move(body)));
    MF_RETURN_IF_ERROR(kernel->CreatePrograms());
    KernelPlan plan{.scratch_bytes = kernel->PlaceBuffers(), .in_place = kernel->InPlace(c)};
    plan.kernel = std::move(kernel);
    return plan;
  }

  absl::Status Run(const KernelArgs& args, Lane& lane) const override {
    std::byte* const scratch = args.scratch<std::byte>();
    Progress p = {.args = args, .lane = lane, .bases = args.scratch<std::byte*>()};
    p.bases[kParamsRegion] =
        reinterpret_cast<std::byte*>(const_cast<StepParams*>(&args.params()));  // read only
    for (size_t place = 0; place < offsets_.size(); ++place) {
      p.bases[RegionOf(static_cast<int>(place))] = scratch + offsets_[place];
    }
    loop_.ForEachRun([&](int64_t at, const Loop::Offsets& from) {
      if (has_long_runs()) {
        RunInBlocks(at, from, &p);
      } else {
        AddToBlock(at, from, &p);
      }
    });
    return p.status;
  }

 private:
  struct Progress {
    const KernelArgs& args;
    Lane& lane;
    std::byte** bases;
    int64_t first = 0;  // the first element of the block, if it consists of whole runs
    absl::Status status = absl::OkStatus();
  };

  FusedElementwise(const KernelContext& c, Body body)
      : body_(std::move(body)),
        loop_(LoopOf(c)),
        n_(c.output_shape(0).num_elements()),
        run_(loop_.run_length()),
        out_bytes_(static_cast<int64_t>(DataTypeSize(c.output_dtype(0)))) {
    for (int i = 0; i < c.node().num_inputs(); ++i) {
      const int64_t size = c.input_shape(i).num_elements();
      inputs_.push_back({.element_bytes = static_cast<int64_t>(DataTypeSize(c.input_dtype(i))),
                         .is_whole = size == n_,
                         .moves = loop_.moves(i),
                         .repeats = size == (loop_.moves(i) ? run_ : 1)});
    }
    for (const Body::Step& step : body_.steps()) {
      std::vector<Operand>& operands = operands_.emplace_back();
      for (const int place : step.inputs) operands.push_back({RegionOf(place), 0});
      operands.push_back({RegionOf(step.output), 0});
      operands.push_back({RegionOf(body_.output() + 1), 0});  // the scratch memory
    }
  }

  static Loop LoopOf(const KernelContext& c) {
    static const Shape* const scalar = new Shape();
    std::array<const Shape*, kMaxInputs> shapes;
    shapes.fill(scalar);
    for (int i = 0; i < c.node().num_inputs(); ++i) shapes[i] = &c.input_shape(i);
    return Loop(c.output_shape(0), shapes);
  }

  static RegionId RegionOf(int place) { return kParamsRegion + 1 + place; }

  // Whether a run is several blocks. Otherwise, a block is one or several runs.
  bool has_long_runs() const { return run_ > full_.size; }
  // Whether blocks of the input are copied to a buffer.
  bool HasBuffer(const Input& input) const {
    return has_long_runs() ? !input.moves : !input.is_whole;
  }

  // Chooses the size of blocks.
  absl::Status CreatePrograms() {
    int64_t bytes = 0;  // of one element in all buffers
    for (const int64_t buffer : body_.buffers()) bytes += buffer;
    for (const Input& input : inputs_) bytes += input.is_whole ? 0 : input.element_bytes;
    const auto round_up = [](int64_t x) {
      return (x + kBlockMultiple - 1) / kBlockMultiple * kBlockMultiple;
    };
    const int64_t most =
        std::clamp(kBufferBytes / std::max<int64_t>(bytes, 1), kMinBlock, kMaxBlock);
    int64_t size, of;
    if (run_ > most) {
      const int64_t blocks = (run_ + most - 1) / most;
      size = round_up((run_ + blocks - 1) / blocks);
      of = run_;
    } else {
      size = std::min(most / run_ * run_, n_);
      of = n_;
    }
    MF_ASSIGN_OR_RETURN(full_, Program::Create(body_, size));
    if (of % size == 0) return absl::OkStatus();
    MF_ASSIGN_OR_RETURN(rest_, Program::Create(body_, of % size));
    return absl::OkStatus();
  }

  // Sets the offset of each place in the scratch memory, after the table of region bases. Returns
  // the size of the scratch memory.
  int64_t PlaceBuffers() {
    const int num_places = body_.output() + 2;  // with the output and the scratch memory
    auto end = static_cast<int64_t>(AlignUp((num_places + 1) * sizeof(std::byte*)));
    const auto place = [&](int64_t bytes) {
      offsets_.push_back(end);
      end += static_cast<int64_t>(AlignUp(bytes));
    };
    for (const Input& input : inputs_) {
      place(HasBuffer(input) ? full_.size * input.element_bytes : 0);
    }
    for (const int64_t buffer : body_.buffers()) place(full_.size * buffer);
    place(0);  // the output, which Run sets
    place(std::max(full_.scratch_bytes, rest_.scratch_bytes));
    return end;
  }

  // Returns the inputs whose memory the output may reuse. A block is written after all other steps
  // have read it, and the last step must support it.
  std::vector<std::pair<int, int>> InPlace(const KernelContext& c) const {
    std::vector<std::pair<int, int>> pairs;
    const Body::Step& last = body_.steps().back();
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) {
      bool may_reuse = inputs_[i].is_whole && inputs_[i].element_bytes == out_bytes_;
      for (int k = 0; k < static_cast<int>(last.inputs.size()); ++k) {
        if (last.inputs[k] != i) continue;
        may_reuse = may_reuse &&
                    absl::c_linear_search(full_.kernels.back().in_place, std::pair<int, int>(k, 0));
      }
      if (may_reuse) pairs.emplace_back(i, 0);
    }
    return pairs;
  }

  void SetInput(int i, int64_t element, Progress* p) const {
    p->bases[RegionOf(i)] =
        const_cast<std::byte*>(p->args.input<std::byte>(i)) + element * inputs_[i].element_bytes;
  }

  // Copies the elements of input `i` for a run, which begin at `element`, to its buffer.
  void CopyRun(int i, int64_t element, int64_t to, int64_t count, Progress* p) const {
    const int64_t bytes = inputs_[i].element_bytes;
    const std::byte* const from = p->args.input<std::byte>(i) + element * bytes;
    std::byte* const buffer = p->bases[RegionOf(i)] + to * bytes;
    if (inputs_[i].moves) {
      std::memcpy(buffer, from, count * bytes);
    } else {
      Fill(from, bytes, count, buffer);
    }
  }

  void RunBlock(int64_t first, int64_t size, Progress* p) const {
    p->bases[RegionOf(body_.output())] = p->args.output<std::byte>(0) + first * out_bytes_;
    const Program& program = size == full_.size ? full_ : rest_;
    for (size_t s = 0; s < program.kernels.size(); ++s) {
      const KernelArgs args(p->bases, operands_[s].data(),
                            static_cast<int>(operands_[s].size()) - 2, 1);
      p->status.Update(program.kernels[s].kernel->Run(args, p->lane));
    }
  }

  // Computes a run, which is several blocks.
  void RunInBlocks(int64_t at, const Loop::Offsets& from, Progress* p) const {
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) {
      if (!HasBuffer(inputs_[i]) || (inputs_[i].repeats && at > 0)) continue;
      CopyRun(i, from[i], 0, full_.size, p);
    }
    for (int64_t first = 0; first < run_; first += full_.size) {
      for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) {
        if (!HasBuffer(inputs_[i])) SetInput(i, from[i] + first, p);
      }
      RunBlock(at + first, std::min(full_.size, run_ - first), p);
    }
  }

  // Adds a run to the block, and computes the block if it is complete.
  void AddToBlock(int64_t at, const Loop::Offsets& from, Progress* p) const {
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) {
      if (!HasBuffer(inputs_[i]) || (inputs_[i].repeats && p->first > 0)) continue;
      CopyRun(i, from[i], at - p->first, run_, p);
    }
    const int64_t end = at + run_;
    if (end < n_ && end - p->first < full_.size) return;
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) {
      if (!HasBuffer(inputs_[i])) SetInput(i, p->first, p);
    }
    RunBlock(p->first, end - p->first, p);
    p->first = end;
  }

  const Body body_;
  const Loop loop_;
  const int64_t n_, run_;  // elements of the output and of a run
  const int64_t out_bytes_;
  std::vector<Input> inputs_;
  std::vector<std::vector<Operand>> operands_;  // by step
  Program full_, rest_;
  std::vector<int64_t> offsets_;  // in the scratch memory, by place
};

}  // namespace

void RegisterFusedElementwiseCpu(KernelRegistry& kernels) {
  kernels.Register(ops::kFusedElementwise, "CPU", FusedElementwise::Create);
}

}  // namespace mirrorflow
