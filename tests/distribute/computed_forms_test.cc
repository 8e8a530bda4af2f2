// SPDX-License-Identifier: Apache-2.0
//
// Tests values that a step computes only from variables and constants (framework/compiler/
// invariants.h): they are computed once and never stale. The expected results come from steps that
// are fed the variables' values. All elements are small integers, so results are exact.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/forms.h"
#include "framework/runtime/trace.h"
#include "framework/session/session_memory.h"
#include "framework/session/session_options.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr int64_t kSize = 8;
const Shape kMatrix({kSize, kSize});
constexpr int64_t kBytes = kSize * kSize * 4;

Tensor Matrix(uint64_t seed) {
  Random random(seed);
  Tensor matrix = RandomTensor(DT_FLOAT, kMatrix, &random);
  for (float& element : matrix.flat<float>()) element = std::round(3 * element) + 0.0f;
  return matrix;
}

std::string BytesOf(const Tensor& t) {
  return std::string(reinterpret_cast<const char*>(t.raw()), t.bytes());
}

// Computes a matrix from two others.
using Formula = std::function<Output(const Scope& s, Output a, Output b)>;

Output Product(const Scope& s, Output a, Output b) { return ops::Mul(s, a, b); }

// A chain of computed values, with views in between.
Output Chain(const Scope& s, Output a, Output b) {
  const Output flat = ops::Reshape(s, ops::Mul(s, a, b), {kSize * kSize});
  const Output turned = ops::ReverseV2(s, flat, ops::VectorConst(s, {0}));
  const Output matrix = ops::Reshape(s, turned, {kSize, kSize});
  return ops::Transpose(s, matrix, ops::VectorConst(s, {1, 0}));
}

class ComputedFormsTest : public testing::TestWithParam<int> {  // the number of replicas
 protected:
  ComputedFormsTest() {
    x_ = ops::Placeholder(root_, DT_FLOAT, {kUnknownDim, kSize});
    for (int i = 0; i < 2; ++i) {
      const Tensor initial = Matrix(10 + i);
      variables_.push_back(CreateVariable(
          root_, Name(i), kMatrix,
          [&](const Scope& s, const Shape&, DataType) { return ops::Const(s, initial); }));
      fed_.push_back(ops::Placeholder(root_, DT_FLOAT, kMatrix));
    }
  }
  static std::string Name(int variable) { return variable == 0 ? "a" : "b"; }

  // Returns x · matrix. The product is of doubles, because a float product would ask for another
  // form of the matrix.
  Output TimesMatrix(const Output& matrix) {
    return ops::MatMul(root_, ops::Cast(root_, x_, DT_DOUBLE), ops::Cast(root_, matrix, DT_DOUBLE));
  }
  // Adds x · formula(a, b), computed from the variables.
  Output Add(const Formula& formula) {
    expected_.push_back(TimesMatrix(formula(root_, fed_[0], fed_[1])));
    results_.push_back(TimesMatrix(formula(root_, variables_[0].value, variables_[1].value)));
    return results_.back();
  }
  // Adds an op that writes a variable.
  Operation AddWrite(int variable) {
    const Output two = ops::ScalarConst(root_, DT_FLOAT, 2);
    return ops::AssignVariableOp(root_, variables_[variable].handle,
                                 ops::Sub(root_, two, variables_[variable].value));
  }
  void CreateSession(const SessionOptions& session_options = {}) {
    const TestSessionOptions options{.replicas = GetParam(), .session = session_options};
    auto session = CreateTestSession(graph_, options);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  Tensor Images(int64_t rows) {
    Random random(100 + static_cast<uint64_t>(rows));
    Tensor images = RandomTensor(DT_FLOAT, {rows, kSize}, &random);
    for (float& element : images.flat<float>()) element = std::round(3 * element);
    return images;
  }
  std::string Run(Output result, int64_t rows) {
    const auto got = session_->Run({{x_, Images(rows)}}, {result});
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? BytesOf((*got)[0]) : "";
  }
  std::string Expected(int result, int64_t rows) {
    const auto want = session_->Run({{x_, Images(rows)},
                                     {fed_[0], session_->ReadVariable("a").value()},
                                     {fed_[1], session_->ReadVariable("b").value()}},
                                    {expected_[result]});
    EXPECT_TRUE(want.ok()) << want.status();
    return want.ok() ? BytesOf((*want)[0]) : "";
  }
  void ExpectCurrent(int64_t rows = 3) {
    for (size_t i = 0; i < results_.size(); ++i) {
      EXPECT_TRUE(Run(results_[i], rows) == Expected(static_cast<int>(i), rows)) << "result " << i;
    }
  }
  int64_t num_made() const { return session_->forms().num_made(); }

  Graph graph_;
  Scope root_{&graph_};
  Output x_;
  std::vector<Variable> variables_;  // a and b
  std::vector<Output> fed_;          // take their values
  std::vector<Output> results_, expected_;
  std::unique_ptr<Session> session_;
};
INSTANTIATE_TEST_SUITE_P(, ComputedFormsTest, testing::Values(1, 2),
                         [](const auto& info) { return absl::StrCat(info.param, "Replicas"); });

TEST_P(ComputedFormsTest, ValueIsComputedOnceForAllRunsAndSizes) {
  Add(Product);
  AddWrite(0);
  CreateSession();
  for (int64_t rows = 1; rows <= 6; ++rows) ExpectCurrent(rows);
  EXPECT_EQ(num_made(), GetParam());  // every replica has its own variables
  EXPECT_EQ(session_->forms().bytes(), GetParam() * kBytes);
}

// Replicas share the variables that only an optimizer writes, and what is computed from them.
TEST_P(ComputedFormsTest, ReplicasThatShareVariablesShareValues) {
  const Output loss = ops::Sum(root_, Add(Product), {0, 1});  // has integer gradients
  const Operation train = GradientDescent({.learning_rate = 1}).Minimize(root_, loss);
  CreateSession();
  for (int i = 1; i <= 3; ++i) {
    for (int64_t rows = 1; rows <= 4; ++rows) ExpectCurrent(rows);
    EXPECT_EQ(num_made(), i);
    EXPECT_EQ(session_->forms().bytes(), kBytes);
    ASSERT_TRUE(session_->Run({{x_, Images(2)}}, {}, {train}).ok());
  }
}

TEST_P(ComputedFormsTest, TraceCountsFormsMade) {
  Add(Product);
  AddWrite(0);
  CreateSession();
  TraceWriter trace;
  ASSERT_TRUE(session_->TraceTo(&trace).ok());
  for (int64_t rows = 1; rows <= 3; ++rows) Run(results_[0], rows);
  ASSERT_TRUE(session_->TraceTo(nullptr).ok());
  std::vector<std::string> counts;
  for (const TraceEvent& event : trace.events()) {
    if (event.kind == TraceEvent::kCounter) counts.push_back(event.args[0].second);
  }
  EXPECT_EQ(counts, std::vector<std::string>(3, absl::StrCat(GetParam())));
}

TEST_P(ComputedFormsTest, OnlyLastValueOfChainIsKept) {
  Add(Chain);
  CreateSession();
  for (int64_t rows = 1; rows <= 3; ++rows) ExpectCurrent(rows);
  EXPECT_EQ(num_made(), GetParam());
  EXPECT_EQ(session_->forms().bytes(), GetParam() * kBytes);
}

TEST_P(ComputedFormsTest, StepsShareEqualValues) {
  Add(Chain);
  Add(Chain);
  CreateSession();
  ExpectCurrent();
  EXPECT_EQ(num_made(), GetParam());
}

// The results differ only in what the test names, so a form must not take another's place.
TEST_P(ComputedFormsTest, DifferentValuesAreNotShared) {
  const auto scaled = [](float factor) {
    return [factor](const Scope& s, Output a, Output) {
      return ops::Mul(s, a, ops::ScalarConst(s, DT_FLOAT, factor));
    };
  };
  // The same slice of two views of one variable.
  const auto slice_of_view = [](const Shape& shape) {
    return [shape](const Scope& s, Output a, Output) {
      const Output view = ops::Reshape(s, a, shape);
      const Output slice =
          ops::Slice(s, view, ops::VectorConst(s, {0, 0}), ops::VectorConst(s, {4, 4}));
      return ops::Reshape(s, slice, {kSize, 2});
    };
  };
  Add(scaled(2));
  Add(scaled(3));
  Add(slice_of_view({4, 16}));
  Add(slice_of_view({8, 8}));
  Add([](const Scope& s, Output a, Output b) { return ops::Sub(s, a, b); });
  Add([](const Scope& s, Output a, Output b) { return ops::Sub(s, b, a); });
  // Attributes that differ in the last bit.
  for (const float alpha : {0.5f, std::nextafter(0.5f, 1.0f)}) {
    Add([alpha](const Scope& s, Output a, Output) {
      return ops::LeakyRelu(s, a, {.alpha = alpha});
    });
  }
  CreateSession();
  ExpectCurrent(1);
  EXPECT_EQ(num_made(), GetParam() * std::ssize(results_));
}

TEST_P(ComputedFormsTest, EachVariableIsFollowed) {
  Add(Product);
  Add(Chain);
  CreateSession();
  ExpectCurrent();
  for (uint64_t seed = 0; seed < 4; ++seed) {
    ASSERT_EQ(session_->AssignVariable(Name(seed % 2), Matrix(seed)), absl::OkStatus());
    ExpectCurrent();
    EXPECT_EQ(num_made(), GetParam() * 2 * (2 + static_cast<int64_t>(seed)));
  }
}

// Compares after each of 150 random writes.
TEST_P(ComputedFormsTest, ValuesAreNeverStaleBetweenRandomWrites) {
  Add(Product);
  Add(Chain);
  Add([](const Scope& s, Output a, Output b) {
    return ops::AddV2(s, Product(s, a, b), Chain(s, b, a));
  });
  const Operation writes[] = {AddWrite(0), AddWrite(1)};
  CreateSession();
  std::mt19937 engine(5);
  std::map<std::string, Tensor> saved;
  ASSERT_TRUE(session_->CopyVariables(&saved).ok());
  for (int i = 0; i < 150; ++i) {
    SCOPED_TRACE(i);
    const int variable = static_cast<int>(engine() % 2);
    switch (engine() % 6) {
      case 0:
        ASSERT_EQ(session_->AssignVariable(Name(variable), Matrix(engine())), absl::OkStatus());
        break;
      case 1:
        ASSERT_TRUE(session_->Run({}, {}, {writes[variable]}).ok());
        break;
      case 2: {  // reads the computed value and writes one of its variables in the same step
        const std::string want = Expected(1, 2);
        const auto got = session_->Run({{x_, Images(2)}}, {results_[1]}, {writes[variable]});
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_TRUE(BytesOf((*got)[0]) == want);
        break;
      }
      case 3:
        ASSERT_EQ(session_->AssignVariables({{"a", Matrix(engine())}, {"b", Matrix(engine())}}),
                  absl::OkStatus());
        break;
      case 4:  // as a checkpoint does
        ASSERT_EQ(session_->AssignFromWorker0({"a", "b"}, saved), absl::OkStatus());
        break;
      default:
        ASSERT_TRUE(session_->CopyVariables(&saved).ok());
        break;
    }
    ExpectCurrent(1 + static_cast<int64_t>(engine() % 3));
  }
}

TEST_P(ComputedFormsTest, StepThatWritesVariableComputesItself) {
  Add(Product);
  const Operation write = AddWrite(1);
  CreateSession();
  for (int i = 0; i < 3; ++i) {
    const std::string want = Expected(0, 3);
    const auto got = session_->Run({{x_, Images(3)}}, {results_[0]}, {write});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(BytesOf((*got)[0]) == want);
  }
  EXPECT_EQ(num_made(), 0);
}

// The value is read after the write that the step orders before the read.
TEST_P(ComputedFormsTest, StepReadsItsOwnWrite) {
  const Operation write = AddWrite(0);
  const Output read =
      ops::ReadVariableOp(root_.WithControlDependencies({write}), variables_[0].handle);
  Add(Product);
  const Output later = TimesMatrix(ops::Mul(root_, read, variables_[1].value));
  CreateSession();
  ExpectCurrent();
  for (int i = 0; i < 3; ++i) {
    const std::string got = Run(later, 3);
    EXPECT_TRUE(got == Expected(0, 3));  // of the value that the step wrote
    ExpectCurrent();
  }
}

// A computed value that is also fetched, sent to other replicas, or an argument of a function is
// computed by the step.
TEST_P(ComputedFormsTest, ValuesThatLeaveKernelsAreCurrent) {
  const Output value = ops::Mul(root_, variables_[0].value, variables_[1].value);
  const Output view = ops::Reshape(root_, value, {kSize * kSize});
  const Output sum = ops::AllReduce(root_, ops::LocalPart(root_, value));
  const Output positive =
      ops::Greater(root_, ops::Max(root_, x_, {0, 1}), ops::ScalarConst(root_, DT_FLOAT, 0));
  const auto identity = [](const Scope& s, absl::Span<const Output> in) {
    return std::vector<Output>{ops::Identity(s, in[0])};
  };
  const Output chosen = ops::If(root_, positive, {value}, identity, identity)[0];
  const Output used = ops::MatMul(root_, x_, value);
  CreateSession();
  for (uint64_t seed = 0; seed < 6; ++seed) {
    ASSERT_EQ(session_->AssignVariable(Name(seed % 2), Matrix(seed)), absl::OkStatus());
    const Tensor a = session_->ReadVariable("a").value(), b = session_->ReadVariable("b").value();
    Tensor want = a.Clone().value();
    for (int64_t i = 0; i < want.num_elements(); ++i) want.data<float>()[i] *= b.data<float>()[i];
    for (const std::vector<Output>& fetches :
         {std::vector<Output>{value, used}, {view, used}, {sum, used}, {chosen, used}}) {
      const auto got = session_->Run({{x_, Images(3)}}, fetches);
      ASSERT_TRUE(got.ok()) << got.status();
      const Tensor flat = want.Reshaped((*got)[0].shape());
      EXPECT_EQ(Difference(flat, (*got)[0], {}), "") << fetches[0].ToString();
    }
  }
}

TEST_P(ComputedFormsTest, ValueIsFreedWithItsLastStep) {
  Add(Product);
  Add(Chain);
  AddWrite(0);
  SessionOptions options;
  options.max_cached_steps = 2;
  CreateSession(options);
  for (const Output& result : results_) Run(result, 2);
  EXPECT_EQ(session_->forms().bytes(), GetParam() * 2 * kBytes);
  // Two other steps take the cache's two places.
  Expected(0, 2);
  Expected(1, 2);
  EXPECT_EQ(session_->forms().bytes(), 0);
  ExpectCurrent();
}

// A target must run although nothing uses its value, and its error must reach the caller.
TEST_P(ComputedFormsTest, ChecksOfVariablesFail) {
  const Output checked = ops::CheckNumerics(root_, variables_[0].value, "not finite");
  const Output used = ops::MatMul(root_, x_, checked);
  CreateSession();
  const auto run_target = [&] { return session_->Run({}, {}, {Operation{checked.node}}).status(); };
  const auto run_use = [&] { return session_->Run({{x_, Images(3)}}, {used}).status(); };
  EXPECT_EQ(run_target(), absl::OkStatus());
  EXPECT_EQ(run_use(), absl::OkStatus());
  Tensor bad = Matrix(1);
  bad.data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(session_->AssignVariable("a", bad), absl::OkStatus());
    for (int run = 0; run < 2; ++run) {
      EXPECT_THAT(run_target(),
                  IsError(absl::StatusCode::kInvalidArgument, "CheckNumerics", "not finite"));
      EXPECT_THAT(run_use(),
                  IsError(absl::StatusCode::kInvalidArgument, "CheckNumerics", "not finite"));
    }
    ASSERT_EQ(session_->AssignVariable("a", Matrix(2)), absl::OkStatus());
    EXPECT_EQ(run_target(), absl::OkStatus());
    EXPECT_EQ(run_use(), absl::OkStatus());
  }
}

// A restore that fails after it has written parts of a variable leaves no stale value.
TEST_P(ComputedFormsTest, PartsThatFailedRestoreWroteAreRead) {
  const Variable sum = CreateVariable(root_, "sum", kMatrix, initializers::Ones(), DT_FLOAT,
                                      {.synchronization = VariableSynchronization::kOnRead});
  const Output result = ops::MatMul(root_, x_, ops::Mul(root_, sum.value, variables_[0].value));
  const Output expected = ops::MatMul(root_, x_, ops::Mul(root_, fed_[0], fed_[1]));
  CreateSession();
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    ASSERT_THAT(session_->AssignPartsFromWorker0(
                    "sum", {{.rank = 0, .value = Matrix(seed)}, {.rank = 9, .value = Matrix(0)}}),
                IsError(absl::StatusCode::kInvalidArgument, "'sum'", "rank 9"));
    const auto want = session_->Run({{x_, Images(3)},
                                     {fed_[0], session_->ReadVariable("sum").value()},
                                     {fed_[1], session_->ReadVariable("a").value()}},
                                    {expected});
    ASSERT_TRUE(want.ok()) << want.status();
    const auto got = session_->Run({{x_, Images(3)}}, {result});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(Difference((*want)[0], (*got)[0], {}), "");
  }
}

// Readers on several threads see pairs of values that the variables had at the same time, never a
// mixture.
TEST_P(ComputedFormsTest, ConcurrentReadersSeeWholeValues) {
  Add(Chain);
  Add(Product);
  CreateSession();
  const auto pair = [](int i) {
    return std::map<std::string, Tensor>{{"a", Matrix(2 * i)}, {"b", Matrix(2 * i + 1)}};
  };
  std::set<std::string> expected[2];
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(session_->AssignVariables(pair(i)), absl::OkStatus());
    for (int result = 0; result < 2; ++result) expected[result].insert(Expected(result, 3));
  }
  std::atomic<bool> ends{false};
  std::atomic<int> wrong{0}, runs{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      auto step = session_->Prepare({x_}, {results_[t % 2]});
      const Tensor images = Images(3);
      while (!ends) {
        const auto got = step->Run({images});
        if (!got.ok() || !expected[t % 2].contains(BytesOf((*got)[0]))) ++wrong;
        ++runs;
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(session_->AssignVariables(pair(i % 3)), absl::OkStatus());
    // So that the readers also run while no value is stale.
    for (const int seen = runs; i % 10 == 0 && runs < seen + 5;) std::this_thread::yield();
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  ExpectCurrent();
}

// Each value has two paths to the one before it, so there are 2^40 paths through all of them.
TEST_P(ComputedFormsTest, ManyPathsTakeNoLonger) {
  Add([](const Scope& s, Output a, Output b) {
    for (int i = 0; i < 40; ++i) a = ops::Maximum(s, ops::Mul(s, a, b), a);
    return a;
  });
  CreateSession();
  ExpectCurrent();
  EXPECT_EQ(num_made(), GetParam());
}

// The limit counts the last value of the chain, and once the values before it, which exist only
// while it is computed.
TEST_P(ComputedFormsTest, LimitCountsKeptValues) {
  Add(Chain);
  CreateSession();
  const Shape rows({3, kSize});
  auto step = session_->Prepare({x_}, {results_[0]});
  ASSERT_TRUE(step.ok()) << step.status();
  const auto compiled = CompileStep(*step, {rows});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const size_t replicas = compiled->plans.size();
  int64_t need = VariableBytes(session_->layout(), replicas) + FetchBytes(*compiled->plans[0]);
  int64_t kept = 0;
  for (const PlannedForm& form : compiled->plans[0]->forms) kept += form.kept ? form.bytes : 0;
  EXPECT_EQ(kept, kBytes);
  EXPECT_GT(compiled->plans[0]->forms.size(), 1);
  for (const auto& plan : compiled->plans) {
    EXPECT_GE(plan->form_making_bytes(), kBytes);
    need += plan->arena_bytes + plan->constants_bytes + plan->form_making_bytes();
  }
  need += GetParam() * kept;

  CreateSession({.max_bytes = need});
  Run(results_[0], 3);
  CreateSession({.max_bytes = need - 1});
  EXPECT_THAT(session_->Run({{x_, Images(3)}}, {results_[0]}).status(),
              IsError(absl::StatusCode::kResourceExhausted, "this step", absl::StrCat(need)));
}

}  // namespace
}  // namespace mirrorflow
