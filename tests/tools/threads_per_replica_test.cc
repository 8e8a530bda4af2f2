// SPDX-License-Identifier: Apache-2.0
//
// Training and inference results must be bit-identical for any number of threads per replica. The
// tests run more threads than cores, so the operating system can preempt a thread at any time.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/runtime/variable_layout.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tools/bench/training_case.h"
#include "train/initializers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr int kThreads[] = {2, 3, 4, 8};

// Returns the losses and the trained variables.
absl::StatusOr<std::vector<Tensor>> Train(const TrainingCase& training) {
  MF_ASSIGN_OR_RETURN(ReadyStep t, PrepareTraining(training));
  std::vector<Tensor> results;
  for (int i = 0; i < 3; ++i) {
    MF_ASSIGN_OR_RETURN(const StepOutputs out, t.step.Run(t.feeds));
    results.push_back(out[0]);
  }
  for (const VariableInfo& variable : t.session->layout().variables()) {
    MF_ASSIGN_OR_RETURN(results.emplace_back(), t.session->ReadVariable(variable.name));
  }
  return results;
}

// Returns the logits of `rows` examples.
absl::StatusOr<std::vector<Tensor>> Predict(const std::string& model, int64_t rows, int threads) {
  MF_ASSIGN_OR_RETURN(
      const auto strategy,
      OneDeviceStrategy::Create({.threads_per_replica = threads, .compile = {.check_plan = true}}));
  MF_ASSIGN_OR_RETURN(const TrainingGraph g, BuildTraining(*strategy, model));
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> batch, NoiseBatch(g, rows));
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(g.graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({g.inputs}, {g.logits}));
  MF_ASSIGN_OR_RETURN(const StepOutputs out, step.Run({batch[0]}));
  return std::vector<Tensor>{out[0]};
}

// Checks that run(threads) returns the same bits for all numbers of threads.
template <typename Run>
void ExpectEqualBits(const Run run) {
  const absl::StatusOr<std::vector<Tensor>> one = run(1);
  ASSERT_TRUE(one.ok()) << one.status();
  for (const int threads : kThreads) {
    const absl::StatusOr<std::vector<Tensor>> several = run(threads);
    ASSERT_TRUE(several.ok()) << threads << " threads: " << several.status();
    ASSERT_EQ(several->size(), one->size());
    for (size_t i = 0; i < one->size(); ++i) {
      EXPECT_TRUE(Tensor::Identical((*one)[i], (*several)[i]))
          << threads << " threads, result " << i;
    }
  }
}

struct Case {
  std::string model;
  int64_t batch_size;
};

class ThreadsPerReplicaTest : public testing::TestWithParam<Case> {};

TEST_P(ThreadsPerReplicaTest, TrainingGivesEqualBits) {
  const Case& of = GetParam();
  ExpectEqualBits([&](int threads) {
    return Train({.model = of.model, .batch_size = of.batch_size, .threads_per_replica = threads});
  });
}

INSTANTIATE_TEST_SUITE_P(Models, ThreadsPerReplicaTest,
                         testing::Values(Case{"mlp", 64}, Case{"mlp", 7}, Case{"cnn", 16},
                                         Case{"resnet", 4}, Case{"lstm", 2},
                                         Case{"transformer", 2}),
                         [](const testing::TestParamInfo<Case>& info) {
                           return info.param.model + std::to_string(info.param.batch_size);
                         });

class ThreadsPerPredictionTest : public testing::TestWithParam<Case> {};

TEST_P(ThreadsPerPredictionTest, InferenceGivesEqualBits) {
  const Case& of = GetParam();
  ExpectEqualBits([&](int threads) { return Predict(of.model, of.batch_size, threads); });
}

INSTANTIATE_TEST_SUITE_P(Models, ThreadsPerPredictionTest,
                         testing::Values(Case{"mlp", 1}, Case{"cnn", 1}, Case{"cnn", 5},
                                         Case{"resnet", 1}, Case{"resnet50_64", 1},
                                         Case{"transformer", 1}),
                         [](const testing::TestParamInfo<Case>& info) {
                           return info.param.model + std::to_string(info.param.batch_size);
                         });

// Returns the values of `of(scope, x)` for a fed x, computed by `threads` threads that divide
// everything that they can.
template <typename Of>
absl::StatusOr<std::vector<Tensor>> Compute(const Tensor& x, int threads, const Of of) {
  Graph graph;
  const Scope scope(&graph);
  const Output in = ops::Placeholder(scope, x.dtype(), x.shape());
  const std::vector<Output> fetches = of(scope, in);
  MF_ASSIGN_OR_RETURN(
      const auto strategy,
      OneDeviceStrategy::Create(
          {.threads_per_replica = threads, .compile = {.min_part_ns = 0, .check_plan = true}}));
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({in}, fetches));
  MF_ASSIGN_OR_RETURN(const StepOutputs outputs, step.Run({x}));
  std::vector<Tensor> values;
  for (size_t i = 0; i < fetches.size(); ++i) values.push_back(outputs[i]);
  return values;
}

// Returns a random size from 1 to `most`.
int64_t SizeUpTo(int most, std::mt19937& random) {
  return static_cast<int64_t>(1 + random() % static_cast<uint32_t>(most));
}

// Random sizes: the last bits must not depend on how the work is divided.
TEST(ThreadsPerReplica, RandomProductsGiveEqualBits) {
  std::mt19937 random(1);
  const auto size = [&](int most) { return SizeUpTo(most, random); };
  for (int i = 0; i < 150; ++i) {
    const int64_t m = size(200), k = size(700), n = size(300);
    const bool transpose_a = random() % 2 == 0, transpose_b = random() % 2 == 0;
    const bool keeps = random() % 2 == 0, fuses = random() % 2 == 0;
    SCOPED_TRACE(absl::StrCat(m, "x", k, "x", n, transpose_a ? " aT" : "", transpose_b ? " bT" : "",
                              keeps ? " constant" : "", fuses ? " fused" : ""));
    const Tensor bias = *NoiseOf(DT_FLOAT, {n}), addend = *NoiseOf(DT_FLOAT, {m, n});
    const Tensor x = *NoiseOf(DT_FLOAT, transpose_a ? Shape({k, m}) : Shape({m, k}));
    const Tensor w = *NoiseOf(DT_FLOAT, transpose_b ? Shape({n, k}) : Shape({k, n}));
    ExpectEqualBits([&](int threads) {
      return Compute(x, threads, [&](const Scope& s, Output in) {
        Output b = ops::Const(s, w);
        // A value that depends on the feed is not kept in a form.
        if (!keeps) b = ops::Add(s, b, ops::Sum(s, in));
        Output y = ops::MatMul(s, in, b, {.transpose_a = transpose_a, .transpose_b = transpose_b});
        if (fuses) y = ops::Add(s, ops::BiasAdd(s, y, ops::Const(s, bias)), ops::Const(s, addend));
        return std::vector<Output>{ops::Relu(s, y)};
      });
    });
  }
}

TEST(ThreadsPerReplica, RandomConvolutionsGiveEqualBits) {
  std::mt19937 random(2);
  const auto size = [&](int most) { return SizeUpTo(most, random); };
  for (int i = 0; i < 150; ++i) {
    const int64_t batch = random() % 2 == 0 ? 1 : size(5);
    const int64_t h = size(30), w = size(30), window = 1 + 2 * (random() % 3), stride = size(2);
    const int64_t in_channels = random() % 2 == 0 ? 8 * size(16) : size(40);
    const int64_t out_channels = random() % 2 == 0 ? 8 * size(40) : size(300);
    const bool keeps = random() % 3 > 0, fuses = random() % 2 == 0;
    SCOPED_TRACE(absl::StrCat(batch, "x", h, "x", w, "x", in_channels, ", window ", window,
                              " stride ", stride, " to ", out_channels, keeps ? " constant" : "",
                              fuses ? " fused" : ""));
    const Tensor x = *NoiseOf(DT_FLOAT, {batch, h, w, in_channels});
    const Tensor filter = *NoiseOf(DT_FLOAT, {window, window, in_channels, out_channels});
    const Tensor bias = *NoiseOf(DT_FLOAT, {out_channels});
    const Tensor addend = *NoiseOf(
        DT_FLOAT, {batch, (h + stride - 1) / stride, (w + stride - 1) / stride, out_channels});
    ExpectEqualBits([&](int threads) {
      return Compute(x, threads, [&](const Scope& s, Output in) {
        Output f = ops::Const(s, filter);
        if (!keeps) f = ops::Add(s, f, ops::Sum(s, in));
        Output y = ops::Conv2D(s, in, f, {1, stride, stride, 1}, "SAME");
        if (fuses) y = ops::Add(s, ops::BiasAdd(s, y, ops::Const(s, bias)), ops::Const(s, addend));
        y = ops::MaxPool(s, ops::Relu(s, y), {1, 2, 2, 1}, {1, 2, 2, 1}, "SAME");
        return std::vector<Output>{y};
      });
    });
  }
}

TEST(ThreadsPerReplica, RandomNormalizationsGiveEqualBits) {
  std::mt19937 random(3);
  const auto size = [&](int most) { return SizeUpTo(most, random); };
  for (int i = 0; i < 60; ++i) {
    const bool training = random() % 3 > 0, nchw = random() % 3 == 0;
    const int64_t channels = random() % 2 == 0 ? 16 * size(8) : size(100);
    const Shape shape = nchw ? Shape({size(4), channels, size(7), size(7)})
                             : Shape({size(4), size(9), size(9), channels});
    SCOPED_TRACE(absl::StrCat(shape.ToString(), nchw ? " NCHW" : "", training ? " training" : ""));
    const Tensor x = *NoiseOf(DT_FLOAT, shape), vector = *NoiseOf(DT_FLOAT, {channels});
    const std::string format = nchw ? "NCHW" : "NHWC";
    ExpectEqualBits([&](int threads) {
      return Compute(x, threads, [&](const Scope& s, Output in) {
        const Output v = ops::Const(s, vector), positive = ops::Square(s, v);
        const auto norm = ops::FusedBatchNormV3(
            s, in, v, v, v, positive,
            {.exponential_avg_factor = 0.5f, .data_format = format, .is_training = training});
        const auto gradients = ops::FusedBatchNormGradV3(
            s, ops::Square(s, in), in, v, v, positive, norm.reserve_space_3,
            {.data_format = format, .is_training = training});
        return std::vector<Output>{norm.y,
                                   norm.batch_mean,
                                   norm.batch_variance,
                                   norm.reserve_space_1,
                                   norm.reserve_space_2,
                                   norm.reserve_space_3,
                                   gradients.x_backprop,
                                   gradients.scale_backprop,
                                   gradients.offset_backprop,
                                   ops::BiasAddGrad(s, in, {.data_format = format})};
      });
    });
  }
  for (int i = 0; i < 60; ++i) {
    const int64_t columns = size(150);
    const Shape rows = random() % 2 == 0 ? Shape({size(200)}) : Shape({size(3), size(70)});
    Shape shape = rows;
    shape.AddDim(columns);
    SCOPED_TRACE(shape.ToString());
    const Tensor x = *NoiseOf(DT_FLOAT, shape), vector = *NoiseOf(DT_FLOAT, {columns});
    ExpectEqualBits([&](int threads) {
      return Compute(x, threads, [&](const Scope& s, Output in) {
        const Output v = ops::Const(s, vector);
        const auto norm = ops::LayerNorm(s, in, v, v);
        const auto gradients =
            ops::LayerNormGrad(s, ops::Square(s, in), in, v, norm.mean, norm.inverse_deviation);
        return std::vector<Output>{norm.y, gradients.dx, gradients.dgamma, gradients.dbeta};
      });
    });
  }
}

TEST(ThreadsPerReplica, RandomReductionsGiveEqualBits) {
  std::mt19937 random(4);
  const auto size = [&](int most) { return SizeUpTo(most, random); };
  for (int i = 0; i < 150; ++i) {
    Shape shape({size(300)});
    std::vector<int64_t> axes = {0};
    for (int d = 1; d < 2 + static_cast<int>(random() % 3); ++d) {
      shape.AddDim(size(40));
      if (random() % 2 == 0) axes.push_back(d);
    }
    if (random() % 4 == 0) axes.erase(axes.begin());
    const bool keep_dims = random() % 2 == 0;
    SCOPED_TRACE(absl::StrCat(shape.ToString(), " axes ", absl::StrJoin(axes, ","),
                              keep_dims ? " kept" : ""));
    const Tensor x = *NoiseOf(DT_FLOAT, shape);
    const int64_t segments = size(20);
    Tensor ids = *Tensor::Allocate(DT_INT32, Shape({shape.dim(0)}));
    for (int64_t r = 0; r < shape.dim(0); ++r) {
      ids.data<int32_t>()[r] = static_cast<int32_t>(size(static_cast<int>(segments))) - 1;
    }
    ExpectEqualBits([&](int threads) {
      return Compute(x, threads, [&](const Scope& s, Output in) {
        const ops::ReductionOptions options = {.keep_dims = keep_dims};
        return std::vector<Output>{
            ops::Sum(s, in, axes, options), ops::Mean(s, in, axes, options),
            ops::Max(s, in, axes, options), ops::EuclideanNorm(s, in, axes, options),
            ops::UnsortedSegmentSum(s, in, ops::Const(s, ids),
                                    ops::ScalarConst(s, DT_INT32, segments))};
      });
    });
  }
}

// Returns two replicas whose threads divide everything that they can.
absl::StatusOr<std::unique_ptr<MirroredStrategy>> TwoReplicas(int threads) {
  MirroredStrategy::Options options = {.num_cpu_replicas = 2, .threads_per_replica = threads};
  options.compile.min_part_ns = 0;
  options.compile.check_plan = true;
  return MirroredStrategy::Create(options);
}

// Errors name rows of the whole batch, not of a thread's part. No thread updates a variable before
// the parts of all threads have accepted their data.
TEST(ThreadsPerReplica, RejectedRowIsThatOfWholeBatch) {
  for (const int threads : kThreads) {
    const auto strategy = *TwoReplicas(threads);
    Graph graph;
    const Scope scope(&graph);
    Variable sum;
    {
      auto mirrored = strategy->scope();
      sum = CreateVariable(scope, "sum", {}, initializers::Zeros());
    }
    const Output logits = ops::Placeholder(scope, DT_FLOAT, {kUnknownDim, 4});
    const Output labels = ops::Placeholder(scope, DT_INT32, {kUnknownDim});
    const Output losses = ops::SparseSoftmaxCrossEntropyWithLogits(scope, logits, labels).loss;
    const Operation add = ops::AssignAddVariableOp(scope, sum.handle, ops::Sum(scope, losses));
    const auto session = *strategy->NewSession(graph);
    Step step = *session->Prepare({logits, labels}, {}, {add});
    const Tensor x = *NoiseOf(DT_FLOAT, {1024, 4});
    Tensor y = *Tensor::Allocate(DT_INT32, {1024});
    for (const int64_t bad : {3, 300, 700, 1023}) {
      y.data<int32_t>()[bad] = 9;
      EXPECT_THAT(step.Run({x, y}).status(),
                  IsError(absl::StatusCode::kInvalidArgument, absl::StrCat("position ", bad)));
      y.data<int32_t>()[bad] = 0;
    }
    EXPECT_EQ(session->ReadVariable("sum")->scalar<float>(), 0.0f);
    EXPECT_TRUE(step.Run({x, y}).ok());
  }
}

// The written value does not depend on the rejected one, so only the order of the instructions
// keeps this and the other replica from writing.
TEST(ThreadsPerReplica, StepThatRejectsDataWritesNothing) {
  for (const int threads : kThreads) {
    const auto strategy = *TwoReplicas(threads);
    Graph graph;
    const Scope scope(&graph);
    Variable count;
    {
      auto mirrored = strategy->scope();
      count = CreateVariable(scope, "count", {256}, initializers::Zeros());
    }
    const Output table = ops::Placeholder(scope, DT_FLOAT, {4, 8});
    const Output ids = ops::Placeholder(scope, DT_INT32, {kUnknownDim});
    const Output rows = ops::GatherV2(scope, table, ids, ops::ScalarConst(scope, DT_INT32, 0));
    const Operation add = ops::AssignAddVariableOp(
        scope, count.handle, ops::OnesLike(scope, ops::ReadVariableOp(scope, count.handle)));
    const auto session = *strategy->NewSession(graph);
    Step step = *session->Prepare({table, ids}, {rows}, {add});
    const Tensor x = *NoiseOf(DT_FLOAT, {4, 8});
    Tensor y = *Tensor::Allocate(DT_INT32, {1024});
    for (const int64_t bad : {3, 300, 700, 1023}) {
      y.data<int32_t>()[bad] = 9;
      EXPECT_THAT(step.Run({x, y}).status(),
                  IsError(absl::StatusCode::kInvalidArgument, absl::StrCat("[", bad, "]")));
      y.data<int32_t>()[bad] = 0;
      const absl::StatusOr<Tensor> value = session->ReadVariable("count");
      ASSERT_TRUE(value.ok()) << threads << " threads: " << value.status();
      EXPECT_EQ(value->flat<float>()[255], 0.0f) << threads << " threads, bad row " << bad;
    }
  }
}

TEST(ThreadsPerReplica, ReplicasHaveThreadsOfTheirOwn) {
  ExpectEqualBits([&](int threads) {
    return Train({.model = "mlp", .batch_size = 16, .replicas = 2, .threads_per_replica = threads});
  });
}

}  // namespace
}  // namespace mirrorflow
