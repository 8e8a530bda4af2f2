// SPDX-License-Identifier: Apache-2.0
//
// Tests float products and convolutions with oneDNN: results are correct for all kinds of shapes
// and on several threads at once, and each kernel runs only on the calling thread.
#include "kernels/cpu/onednn.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <latch>
#include <thread>

#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "framework/runtime/evaluate_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/conv2d.h"
#include "ops/fused_ops.h"
#include "ops/matmul.h"
#include "ops/unary.h"
#include "tests/support/bound_kernel.h"
#include "tests/support/is_error.h"
#include "tests/support/ops_with_fused.h"
#include "tests/support/strict_kernel.h"
#include "tests/support/tensors.h"

// These functions are in the OpenMP runtime that oneDNN links.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int);
}

namespace mirrorflow {
namespace {

// A node under test. `build` makes it from two operands.
struct Node2 {
  Shape a;
  Shape b;
  int64_t terms;  // terms in the sum for one element
  std::function<Output(const Scope&, Output a, Output b)> build;
};

Node2 Product(int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  return {ta ? Shape({k, m}) : Shape({m, k}), tb ? Shape({n, k}) : Shape({k, n}), k,
          [=](const Scope& s, Output a, Output b) {
            return ops::MatMul(s, a, b, {.transpose_a = ta, .transpose_b = tb});
          }};
}

struct Convolution {
  int64_t n, h, w, c, o, size, stride;
  const char* padding;

  Shape images() const { return {n, h, w, c}; }
  Shape filter() const { return {size, size, c, o}; }
  Shape output() const {
    const bool same = std::string(padding) == "SAME";
    auto positions = [&](int64_t in) {
      return same ? (in + stride - 1) / stride : (in - size) / stride + 1;
    };
    return {n, positions(h), positions(w), o};
  }
  std::vector<int64_t> strides() const { return {1, stride, stride, 1}; }
};

Node2 Forward(const Convolution& c) {
  return {c.images(), c.filter(), c.size * c.size * c.c, [c](const Scope& s, Output a, Output b) {
            return ops::Conv2D(s, a, b, c.strides(), c.padding);
          }};
}
Node2 BackpropInput(const Convolution& c) {
  return {c.filter(), c.output(), c.size * c.size * c.o, [c](const Scope& s, Output a, Output b) {
            const Output sizes = ops::VectorConst(s, c.images().dims());
            return ops::Conv2DBackpropInput(s, sizes, a, b, c.strides(), c.padding);
          }};
}
Node2 BackpropFilter(const Convolution& c) {
  return {c.images(), c.output(), c.n * c.output().dim(1) * c.output().dim(2),
          [c](const Scope& s, Output a, Output b) {
            const Output sizes = ops::VectorConst(s, c.filter().dims());
            return ops::Conv2DBackpropFilter(s, a, sizes, b, c.strides(), c.padding);
          }};
}

// The node, built with operands of a given dtype.
class Built {
 public:
  Built(const Node2& node, DataType dtype)
      : output_(node.build(root_, ops::Placeholder(root_, dtype, node.a),
                           ops::Placeholder(root_, dtype, node.b))) {
    MF_CHECK(root_.ok());
  }
  const Node& node() const { return *output_.node; }
  std::vector<Shape> output_shapes() const { return {root_.shape(output_)}; }

  // Returns all of the node's inputs in order, including constants.
  std::vector<Tensor> Inputs(const Tensor& a, const Tensor& b) const {
    std::vector<Tensor> rest = {b, a}, inputs;
    for (int i = 0; i < node().num_inputs(); ++i) {
      if (node().is_static_input(i)) {
        inputs.push_back(graph_.values().at(node().input(i)).constant);
      } else {
        inputs.push_back(rest.back());
        rest.pop_back();
      }
    }
    return inputs;
  }
  Tensor Evaluate(const Tensor& a, const Tensor& b) const {
    auto outputs = EvaluateNode(node(), Inputs(a, b), output_shapes(), CpuKernels());
    MF_CHECK(outputs.ok());
    return (*outputs)[0];
  }

 private:
  Graph graph_;
  Scope root_{&graph_};
  Output output_;
};

double ToDouble(float x) { return x; }
double ToAbsolute(float x) { return std::abs(x); }

// A float sum of n products, in any order, has an error of at most (n + 1) * 2^-24 * sum |a| |b|.
void ExpectTheValuesOfDouble(const Node2& node) {
  Random random(3);
  const Tensor a = RandomTensor(DT_FLOAT, node.a, &random);
  const Tensor b = RandomTensor(DT_FLOAT, node.b, &random);
  const Tensor got = Built(node, DT_FLOAT).Evaluate(a, b);
  const Built in_double(node, DT_DOUBLE);
  const Tensor want = in_double.Evaluate(MapFloats(a, ToDouble), MapFloats(b, ToDouble));
  const Tensor size = in_double.Evaluate(MapFloats(a, ToAbsolute), MapFloats(b, ToAbsolute));
  ASSERT_EQ(got.shape(), want.shape());
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    ASSERT_NEAR(got.data<float>()[i], want.data<double>()[i],
                std::ldexp((node.terms + 1) * size.data<double>()[i], -24))
        << "element " << i;
  }
}

TEST(OneDnnProduct, MatchesDoublePrecision) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      SCOPED_TRACE(testing::Message() << "transposed: " << ta << " " << tb);
      ExpectTheValuesOfDouble(Product(64, 512, 784, ta, tb));
      ExpectTheValuesOfDouble(Product(100, 77, 130, ta, tb));
      ExpectTheValuesOfDouble(Product(1, 300, 500, ta, tb));
      ExpectTheValuesOfDouble(Product(300, 1, 500, ta, tb));
      ExpectTheValuesOfDouble(Product(300, 500, 1, ta, tb));
      ExpectTheValuesOfDouble(Product(33, 31, 32, ta, tb));
    }
  }
}

constexpr Convolution kConvolutions[] = {
    {5, 28, 28, 1, 32, 3, 1, "SAME"},
    {5, 14, 14, 32, 64, 3, 1, "SAME"},
    {5, 14, 14, 32, 64, 5, 1, "SAME"},
    {3, 13, 9, 3, 10, 5, 2, "SAME"},
    {3, 13, 9, 3, 10, 5, 2, "VALID"},
    {2, 12, 12, 16, 40, 1, 1, "SAME"},
    {2, 12, 12, 40, 7, 1, 2, "VALID"},
    {4, 11, 11, 17, 33, 2, 1, "SAME"},
    {2, 6, 6, 2, 2, 7, 3, "SAME"},
    {1, 1, 1, 1, 1, 1, 1, "VALID"},
    {2, 4, 4, 1024, 256, 1, 1, "SAME"},  // gradients are products
    // Channels in several blocks, with and without a rest.
    {2, 4, 4, 64, 128, 3, 1, "SAME"},
    {2, 4, 4, 128, 80, 1, 2, "SAME"},
    {2, 4, 4, 96, 208, 3, 2, "SAME"},
};

TEST(OneDnnConvolution, MatchesDoublePrecision) {
  for (const Convolution& c : kConvolutions) {
    SCOPED_TRACE(testing::Message() << c.images().ToString() << " * " << c.filter().ToString()
                                    << ", stride " << c.stride << ", " << c.padding);
    ExpectTheValuesOfDouble(Forward(c));
    ExpectTheValuesOfDouble(BackpropInput(c));
    ExpectTheValuesOfDouble(BackpropFilter(c));
  }
}

// The kernels of 3x3 windows are not oneDNN's.
std::vector<Node2> SomeNodes() {
  std::vector<Node2> nodes = {Product(64, 128, 96, false, true)};
  for (const int64_t window : {3, 5}) {
    const Convolution c = {5, 14, 14, 32, 64, window, 1, "SAME"};
    nodes.insert(nodes.end(), {Forward(c), BackpropInput(c), BackpropFilter(c)});
  }
  return nodes;
}

// Replicas share kernels and primitives, but each has its own memory.
// oneDNN computes one block at a time, which the epilogue moves. EvaluateStrictly compares outputs
// with and without gaps.
TEST(OneDnnConvolution, BlocksCanHaveGapsBetweenPixels) {
  constexpr Convolution kOfPixels = {1, 71, 71, 8, 16, 1, 1, "SAME"};  // two blocks that overlap
  constexpr Convolution kOfImages = {6, 80, 80, 4, 16, 5, 1, "SAME"};  // one block for each image
  for (const Convolution& c : {kOfPixels, kOfImages}) {
    for (const bool add : {false, true}) {
      Graph graph;
      const Scope scope(&graph);
      std::vector<Shape> shapes = {c.images(), c.filter(), {c.o}};
      if (add) shapes.push_back(c.output());
      Random random(4);
      std::vector<Tensor> inputs;
      NodeBuilder node = scope.WithName("y").Build(
          OpsWithFused(), ops::Fused(ops::kConv2D, {.add = add, .activation = ops::kRelu}));
      for (const Shape& shape : shapes) {
        inputs.push_back(RandomTensor(DT_FLOAT, shape, &random));
        node.Input(ops::Placeholder(scope, DT_FLOAT, shape));
      }
      const Output y = std::move(node)
                           .Attr("strides", AttrValue::List<int64_t>(c.strides()))
                           .Attr("padding", std::string(c.padding))
                           .One();
      ASSERT_TRUE(scope.ok()) << scope.status();
      const auto outputs = EvaluateStrictly(*y.node, inputs, {c.output()}, CpuKernels());
      EXPECT_TRUE(outputs.ok()) << outputs.status();
    }
  }
}

TEST(OneDnnKernel, RunsOnSeveralThreadsAtOnce) {
  for (const Node2& node : SomeNodes()) {
    const Built built(node, DT_FLOAT);
    Random random(5);
    const Tensor a = RandomTensor(DT_FLOAT, node.a, &random);
    const Tensor b = RandomTensor(DT_FLOAT, node.b, &random);
    const auto plan =
        CreateKernel(built.node(), built.Inputs(a, b), built.output_shapes(), CpuKernels());
    ASSERT_TRUE(plan.ok()) << plan.status();

    struct Replica {
      KernelMemory memory;
      Tensor want;
      int wrong = 0;
    };
    std::vector<Replica> replicas;
    for (int r = 0; r < 3; ++r) {
      const Tensor mine = RandomTensor(DT_FLOAT, node.a, &random);
      auto memory =
          KernelMemory::Create(built.node(), *plan, built.Inputs(mine, b), built.output_shapes());
      ASSERT_TRUE(memory.ok()) << memory.status();
      replicas.push_back({*std::move(memory), built.Evaluate(mine, b)});
    }
    // There are enough runs for the threads to overlap even on a busy machine.
    const int64_t runs = int64_t{8'000'000'000} / plan->flops;
    std::latch start(static_cast<std::ptrdiff_t>(replicas.size()));
    std::vector<std::thread> threads;
    for (Replica& replica : replicas) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        for (int64_t i = 0; i < runs; ++i) {
          const bool ok = replica.memory.Run(*plan->kernel).ok();
          if (!ok || !Tensor::Identical(replica.memory.output(0), replica.want)) ++replica.wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Replica& replica : replicas) EXPECT_EQ(replica.wrong, 0) << built.node().op().name;
  }
}

// When a thread that has run a kernel ends, its thread-local memory is destroyed.
TEST(OneDnnKernel, OutlivesThreadsThatRanIt) {
  const Node2 node = Product(64, 64, 64, false, false);
  const Built built(node, DT_FLOAT);
  Random random(6);
  const Tensor a = RandomTensor(DT_FLOAT, node.a, &random);
  const Tensor b = RandomTensor(DT_FLOAT, node.b, &random);
  const Tensor want = built.Evaluate(a, b);
  for (int i = 0; i < 3; ++i) {
    Tensor got;
    std::thread([&] { got = built.Evaluate(a, b); }).join();
    EXPECT_TRUE(Tensor::Identical(got, want));
  }
}

int NumThreads() {
  using std::filesystem::directory_iterator;
  return static_cast<int>(std::distance(directory_iterator("/proc/self/task"), {}));
}

// By default, OpenMP would start threads on cores that other replicas need. No other test uses
// these shapes, because a primitive keeps the thread count that it was created with.
TEST(OneDnnKernel, RunsOnlyOnCallingThread) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(4);
  const int threads = NumThreads();
  const Convolution c = {9, 20, 20, 24, 48, 5, 1, "SAME"};
  for (const Node2& node :
       {Product(192, 200, 208, false, false), Forward(c), BackpropInput(c), BackpropFilter(c)}) {
    const Built built(node, DT_FLOAT);
    Random random(7);
    built.Evaluate(RandomTensor(DT_FLOAT, node.a, &random),
                   RandomTensor(DT_FLOAT, node.b, &random));
    EXPECT_EQ(NumThreads(), threads) << built.node().op().name;
  }
  EXPECT_EQ(omp_get_max_threads(), 4) << "the kernel must not change the caller's setting";
  omp_set_num_threads(before);
}

TEST(OneDnnKernel, ReportsNumberOfFloatingPointOperations) {
  auto flops = [](const Node2& node) {
    const Built built(node, DT_FLOAT);
    const Tensor a = *Tensor::Allocate(DT_FLOAT, node.a), b = *Tensor::Allocate(DT_FLOAT, node.b);
    const auto plan =
        CreateKernel(built.node(), built.Inputs(a, b), built.output_shapes(), CpuKernels());
    return plan.ok() ? plan->flops : -1;
  };
  EXPECT_EQ(flops(Product(64, 512, 784, false, false)), 2 * 64 * 512 * 784);
  // Winograd's algorithm, for windows of 3x3, would take fewer.
  const Convolution c = {5, 14, 14, 32, 64, 5, 1, "SAME"};
  const int64_t of_convolution = 2 * 5 * 14 * 14 * 64 * (5 * 5 * 32);
  EXPECT_EQ(flops(Forward(c)), of_convolution);
  EXPECT_EQ(flops(BackpropInput(c)), of_convolution);
  EXPECT_EQ(flops(BackpropFilter(c)), of_convolution);
}

// For this window, oneDNN would make a 600 MB list of all its elements.
TEST(OneDnnKernel, HugeWindowsAreNotSupported) {
  constexpr int64_t kWidth = 50'331'648;
  const ConvolutionGeometry g = {
      .batch = 1,
      .in_channels = 2,
      .out_channels = 2,
      .h = {.in = 5, .out = 5, .size = 3, .before = 1},
      .w = {.in = 5, .out = 5, .size = kWidth, .before = (kWidth - 1) / 2}};
  for (const ConvolutionPart part : {ConvolutionPart::kForward, ConvolutionPart::kBackpropInput,
                                     ConvolutionPart::kBackpropFilter}) {
    EXPECT_THAT(OneDnnConvolution(part, g, g, /*keeps_filter=*/false, {}).status(),
                IsError(absl::StatusCode::kUnimplemented, "window", "too large"));
  }
}

}  // namespace
}  // namespace mirrorflow
