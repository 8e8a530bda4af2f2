// SPDX-License-Identifier: Apache-2.0
//
// Benchmarks of the kernels that dominate a training step of an MLP or a small CNN, on one core.
// Each benchmark runs one kernel repeatedly on the same memory. `GFLOP/s` counts multiplications
// and additions; `GB/s` counts each operand once. Pin the process to a core:
// `taskset -c 0 nn_kernels_benchmark`.
#include <functional>

#include "absl/functional/function_ref.h"
#include "benchmark/benchmark.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/batch_norm.h"
#include "ops/bias_add.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/conv2d.h"
#include "ops/depthwise_conv2d.h"
#include "ops/matmul.h"
#include "ops/max_pool.h"
#include "ops/softmax.h"
#include "ops/softmax_xent.h"
#include "ops/update.h"
#include "ops/variable.h"
#include "tests/support/bound_kernel.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

// Builds the inputs of a benchmark's node.
class Builder {
 public:
  Output Float(const Shape& shape) { return Add(RandomTensor(DT_FLOAT, shape, &random_)); }
  Output Value(Tensor value) { return Add(std::move(value)); }
  Output Variable(const Shape& shape) {
    values_.push_back(RandomTensor(DT_FLOAT, shape, &random_));
    // A second moment is never negative.
    for (float& x : values_.back().flat<float>()) x = std::abs(x);
    return ops::VarHandleOp(scope_, DT_FLOAT, shape);
  }
  Output Sizes(absl::Span<const int64_t> sizes) {
    const Output output = ops::VectorConst(scope_, sizes);
    values_.push_back(scope_.graph().values().at(output).constant);
    return output;
  }
  const Scope& scope() const { return scope_; }
  // The values in the order of the node's inputs, which is the order of the calls above.
  const std::vector<Tensor>& values() const { return values_; }

 private:
  Output Add(Tensor value) {
    values_.push_back(value);
    return ops::Placeholder(scope_, value.dtype(), value.shape());
  }

  Graph graph_;
  Scope scope_{&graph_};
  Random random_{7};
  std::vector<Tensor> values_;
};

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}

void Run(benchmark::State& state, absl::FunctionRef<Node*(Builder&)> build) {
  Builder builder;
  const Node* node = build(builder);
  MF_CHECK(builder.scope().ok());
  std::vector<Shape> outputs;
  double bytes = 0;
  for (int i = 0; i < node->num_outputs(); ++i) {
    outputs.push_back(builder.scope().shape(node->output(i)));
    bytes += outputs[i].num_elements() * DataTypeSize(node->output_dtype(i));
  }
  for (const Tensor& value : builder.values()) bytes += value.bytes();
  const KernelPlan plan = OrDie(CreateKernel(*node, builder.values(), outputs, CpuKernels()));
  KernelMemory memory = OrDie(KernelMemory::Create(*node, plan, builder.values(), outputs));
  for (auto _ : state) {
    MF_CHECK(memory.Run(*plan.kernel).ok());
    benchmark::ClobberMemory();
  }
  const auto rate = [](double amount) {
    return benchmark::Counter(amount * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  };
  if (plan.flops > 0) {
    state.counters["GFLOP/s"] = rate(plan.flops);
  } else {
    state.counters["GB/s"] = rate(bytes);
  }
}

// Arguments: m, n, k, transpose_a, transpose_b.
void BM_MatMul(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool ta = state.range(3) != 0, tb = state.range(4) != 0;
  Run(state, [&](Builder& b) {
    const Output x = b.Float(ta ? Shape({k, m}) : Shape({m, k}));
    const Output y = b.Float(tb ? Shape({n, k}) : Shape({k, n}));
    return ops::MatMul(b.scope(), x, y, {.transpose_a = ta, .transpose_b = tb}).node;
  });
}
BENCHMARK(BM_MatMul)
    ->ArgNames({"m", "n", "k", "ta", "tb"})
    // The layers of an MLP 784-512-512-10 for 64 images: forward, dX, dW.
    ->Args({64, 512, 784, 0, 0})
    ->Args({784, 512, 64, 1, 0})
    ->Args({64, 512, 512, 0, 0})
    ->Args({64, 512, 512, 0, 1})
    ->Args({512, 512, 64, 1, 0})
    ->Args({64, 10, 512, 0, 0})
    ->Args({64, 512, 10, 0, 1})
    ->Args({512, 10, 64, 1, 0})
    // Sizes near the largest ones that Eigen computes.
    ->Args({16, 16, 16, 0, 0})
    ->Args({31, 32, 32, 0, 0})
    ->Args({32, 32, 32, 0, 0})
    ->Args({64, 64, 64, 0, 0})
    ->Args({1024, 1024, 1024, 0, 0});

// Arguments: batch, height and width, channels, output channels. The filter is 3x3, with padding
// SAME.
struct Images {
  explicit Images(const benchmark::State& state)
      : n(state.range(0)), hw(state.range(1)), c(state.range(2)), o(state.range(3)) {}
  int64_t n, hw, c, o;
};
constexpr int64_t kStrides[] = {1, 1, 1, 1};

void BM_Conv2D(benchmark::State& state) {
  const Images i(state);
  Run(state, [&](Builder& b) {
    const Output x = b.Float({i.n, i.hw, i.hw, i.c}), w = b.Float({3, 3, i.c, i.o});
    return ops::Conv2D(b.scope(), x, w, kStrides, "SAME").node;
  });
}
void BM_Conv2DBackpropInput(benchmark::State& state) {
  const Images i(state);
  Run(state, [&](Builder& b) {
    const Output sizes = b.Sizes({i.n, i.hw, i.hw, i.c});
    const Output w = b.Float({3, 3, i.c, i.o}), dy = b.Float({i.n, i.hw, i.hw, i.o});
    return ops::Conv2DBackpropInput(b.scope(), sizes, w, dy, kStrides, "SAME").node;
  });
}
void BM_Conv2DBackpropFilter(benchmark::State& state) {
  const Images i(state);
  Run(state, [&](Builder& b) {
    const Output x = b.Float({i.n, i.hw, i.hw, i.c}), sizes = b.Sizes({3, 3, i.c, i.o});
    const Output dy = b.Float({i.n, i.hw, i.hw, i.o});
    return ops::Conv2DBackpropFilter(b.scope(), x, sizes, dy, kStrides, "SAME").node;
  });
}
BENCHMARK(BM_Conv2D)->Args({64, 28, 1, 32})->Args({64, 14, 32, 64})->Args({32, 28, 32, 64});
BENCHMARK(BM_Conv2DBackpropInput)->Args({64, 14, 32, 64})->Args({32, 28, 32, 64});
BENCHMARK(BM_Conv2DBackpropFilter)
    ->Args({64, 28, 1, 32})
    ->Args({64, 14, 32, 64})
    ->Args({32, 28, 32, 64});

// Arguments: batch, height and width, channels, filters per channel.
void BM_DepthwiseConv2d(benchmark::State& state) {
  const Images i(state);
  Run(state, [&](Builder& b) {
    const Output x = b.Float({i.n, i.hw, i.hw, i.c}), w = b.Float({3, 3, i.c, i.o});
    return ops::DepthwiseConv2dNative(b.scope(), x, w, kStrides, "SAME").node;
  });
}
void BM_DepthwiseConv2dBackpropInput(benchmark::State& state) {
  const Images i(state);
  Run(state, [&](Builder& b) {
    const Output sizes = b.Sizes({i.n, i.hw, i.hw, i.c});
    const Output w = b.Float({3, 3, i.c, i.o}), dy = b.Float({i.n, i.hw, i.hw, i.c * i.o});
    return ops::DepthwiseConv2dNativeBackpropInput(b.scope(), sizes, w, dy, kStrides, "SAME").node;
  });
}
void BM_DepthwiseConv2dBackpropFilter(benchmark::State& state) {
  const Images i(state);
  Run(state, [&](Builder& b) {
    const Output x = b.Float({i.n, i.hw, i.hw, i.c}), sizes = b.Sizes({3, 3, i.c, i.o});
    const Output dy = b.Float({i.n, i.hw, i.hw, i.c * i.o});
    return ops::DepthwiseConv2dNativeBackpropFilter(b.scope(), x, sizes, dy, kStrides, "SAME").node;
  });
}
const std::vector<std::vector<int64_t>> kDepthwise = {{32}, {28, 14}, {32, 5}, {1, 2}};
BENCHMARK(BM_DepthwiseConv2d)->ArgsProduct(kDepthwise);
BENCHMARK(BM_DepthwiseConv2dBackpropInput)->ArgsProduct(kDepthwise);
BENCHMARK(BM_DepthwiseConv2dBackpropFilter)->ArgsProduct(kDepthwise);

// Arguments: batch, height and width, channels, whether in training.
void BM_BatchNorm(benchmark::State& state) {
  const Images i(state);
  Run(state, [&](Builder& b) {
    const Output x = b.Float({i.n, i.hw, i.hw, i.c});
    const Output scale = b.Float({i.c}), offset = b.Float({i.c});
    const Output mean = b.Float({i.c}), variance = b.Float({i.c});
    return ops::FusedBatchNormV3(b.scope(), x, scale, offset, mean, variance,
                                 {.is_training = i.o != 0})
        .y.node;
  });
}
void BM_BatchNormGrad(benchmark::State& state) {
  const Images i(state);
  Run(state, [&](Builder& b) {
    const Output dy = b.Float({i.n, i.hw, i.hw, i.c}), x = b.Float({i.n, i.hw, i.hw, i.c});
    const Output scale = b.Float({i.c}), mean = b.Float({i.c}), variance = b.Float({i.c});
    return ops::FusedBatchNormGradV3(b.scope(), dy, x, scale, mean, variance, b.Float({}),
                                     {.is_training = i.o != 0})
        .x_backprop.node;
  });
}
const std::vector<std::vector<int64_t>> kBatchNorm = {{64}, {28, 7}, {16, 64}, {0, 1}};
BENCHMARK(BM_BatchNorm)->ArgsProduct(kBatchNorm);
BENCHMARK(BM_BatchNormGrad)->ArgsProduct(kBatchNorm);

// Arguments: batch, height and width, channels. The windows are 2x2 and do not overlap.
constexpr int64_t kWindow[] = {1, 2, 2, 1};
void BM_MaxPool(benchmark::State& state) {
  const int64_t n = state.range(0), hw = state.range(1), c = state.range(2);
  Run(state, [&](Builder& b) {
    return ops::MaxPool(b.scope(), b.Float({n, hw, hw, c}), kWindow, kWindow, "VALID").node;
  });
}
void BM_MaxPoolGrad(benchmark::State& state) {
  const int64_t n = state.range(0), hw = state.range(1), c = state.range(2);
  Run(state, [&](Builder& b) {
    const Output x = b.Float({n, hw, hw, c});
    Tensor largest = *Tensor::Allocate(DT_FLOAT, {n, hw / 2, hw / 2, c});
    const float* in = b.values()[0].data<float>();
    for (int64_t i = 0; i < largest.num_elements(); ++i) {
      const int64_t ch = i % c, x0 = i / c % (hw / 2) * 2, y0 = i / c / (hw / 2) * 2;
      const float* corner = in + (y0 * hw + x0) * c + ch;
      largest.data<float>()[i] =
          std::max({corner[0], corner[c], corner[hw * c], corner[hw * c + c]});
    }
    const Output y = b.Value(largest), dy = b.Float({n, hw / 2, hw / 2, c});
    return ops::MaxPoolGrad(b.scope(), x, y, dy, kWindow, kWindow, "VALID").node;
  });
}
BENCHMARK(BM_MaxPool)->Args({64, 28, 32})->Args({64, 14, 64});
BENCHMARK(BM_MaxPoolGrad)->Args({64, 28, 32})->Args({64, 14, 64});

void BM_Softmax(benchmark::State& state) {
  Run(state, [&](Builder& b) {
    return ops::Softmax(b.scope(), b.Float({state.range(0), state.range(1)})).node;
  });
}
BENCHMARK(BM_Softmax)->Args({64, 10})->Args({8192, 64});

void BM_SoftmaxXent(benchmark::State& state) {
  const int64_t rows = state.range(0), classes = state.range(1);
  Run(state, [&](Builder& b) {
    const Output features = b.Float({rows, classes});
    Tensor labels = *Tensor::Allocate(DT_INT32, {rows});
    for (int64_t r = 0; r < rows; ++r) labels.data<int32_t>()[r] = static_cast<int>(r % classes);
    return ops::SparseSoftmaxCrossEntropyWithLogits(b.scope(), features, b.Value(labels)).loss.node;
  });
}
BENCHMARK(BM_SoftmaxXent)->Args({64, 10})->Args({256, 10})->Args({8192, 64});

void BM_BiasAdd(benchmark::State& state) {
  const int64_t rows = state.range(0), channels = state.range(1);
  Run(state, [&](Builder& b) {
    const Output x = b.Float({rows, channels}), bias = b.Float({channels});
    return ops::BiasAdd(b.scope(), x, bias).node;
  });
}
void BM_BiasAddGrad(benchmark::State& state) {
  Run(state, [&](Builder& b) {
    return ops::BiasAddGrad(b.scope(), b.Float({state.range(0), state.range(1)})).node;
  });
}
BENCHMARK(BM_BiasAdd)->Args({64, 10})->Args({64, 512})->Args({64 * 28 * 28, 32});
BENCHMARK(BM_BiasAddGrad)->Args({64, 10})->Args({64, 512})->Args({64 * 28 * 28, 32});

void BM_GradientDescent(benchmark::State& state) {
  const Shape shape({state.range(0)});
  Run(state, [&](Builder& b) {
    const Output var = b.Variable(shape), alpha = b.Float({}), delta = b.Float(shape);
    return ops::ResourceApplyGradientDescent(b.scope(), var, alpha, delta).node;
  });
}
void BM_Momentum(benchmark::State& state) {
  const Shape shape({state.range(0)});
  Run(state, [&](Builder& b) {
    const Output var = b.Variable(shape), accum = b.Variable(shape), lr = b.Float({});
    const Output grad = b.Float(shape), momentum = b.Float({});
    return ops::ResourceApplyMomentum(b.scope(), var, accum, lr, grad, momentum).node;
  });
}
void BM_Adam(benchmark::State& state) {
  const Shape shape({state.range(0)});
  Run(state, [&](Builder& b) {
    const Output var = b.Variable(shape), m = b.Variable(shape), v = b.Variable(shape);
    ops::AdamScalars scalars;
    scalars.beta1_power = b.Value(Tensor::Scalar(0.9f));
    scalars.beta2_power = b.Value(Tensor::Scalar(0.999f));
    scalars.lr = b.Value(Tensor::Scalar(1e-3f));
    scalars.beta1 = b.Value(Tensor::Scalar(0.9f));
    scalars.beta2 = b.Value(Tensor::Scalar(0.999f));
    scalars.epsilon = b.Value(Tensor::Scalar(1e-7f));
    return ops::ResourceApplyAdam(b.scope(), var, m, v, scalars, b.Float(shape)).node;
  });
}
// The MLP's parameter count.
BENCHMARK(BM_GradientDescent)->Arg(669706);
BENCHMARK(BM_Momentum)->Arg(669706);
BENCHMARK(BM_Adam)->Arg(669706);

}  // namespace
}  // namespace mirrorflow

BENCHMARK_MAIN();
