// SPDX-License-Identifier: Apache-2.0
//
// Session::CheckReplicas detects a single differing bit between copies of a variable, and its error
// names the variable and the ranks on all workers.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/crc32c.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/flipping_device.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"
#include "tests/support/test_workers.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::Each;

constexpr int kSteps = 3;
constexpr char kLarge[] = "inner/kernel";  // larger than one piece of the comparison

// A training step with a large variable, slots, and a variable that is synchronised on read.
struct Model {
  Model() {
    const Scope root(&graph);
    x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 512});
    const Variable large = CreateVariable(root, kLarge, {512, 600}, initializers::GlorotUniform());
    const Variable small = CreateVariable(root, "small", {600, 1}, initializers::GlorotUniform());
    const Variable seen = CreateVariable(root, "seen", {}, initializers::Zeros(), DT_FLOAT,
                                         {.synchronization = VariableSynchronization::kOnRead});
    const Output y = ops::MatMul(root, ops::MatMul(root, x, large.value), small.value);
    loss = ops::Mean(root, ops::Square(root, y), {0, 1});
    train = Momentum({.learning_rate = 1e-3, .momentum = 0.9}).Minimize(root, loss);
    count = ops::AssignAddVariableOp(root, seen.handle, ops::Sum(root, x, {0, 1}));
  }

  absl::Status Train(Session& session) const {
    MF_ASSIGN_OR_RETURN(Step step, session.Prepare({x}, {loss}, {train, count}));
    std::vector<float> values(8 * 512);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
    for (int i = 0; i < kSteps; ++i) {
      MF_RETURN_IF_ERROR(step.Run({Tensor::Of<float>({8, 512}, values)}).status());
    }
    return absl::OkStatus();
  }

  Graph graph;
  Output x, loss;
  Operation train, count;
};

std::string ChecksumOf(const Tensor& tensor) {
  const absl::string_view bytes(reinterpret_cast<const char*>(tensor.raw()), tensor.bytes());
  return absl::StrFormat("%08x", Crc32c(bytes));
}

// Assigns `variable` its current value. Each FlippingDevice whose flag is set flips one bit of its
// copy.
absl::Status AssignItself(Session& session, absl::string_view variable) {
  MF_ASSIGN_OR_RETURN(const Tensor value, session.ReadVariable(variable, 0));
  return session.AssignVariable(variable, value);
}

struct Setting {
  bool queued;
  bool shares;  // whether the replicas share one copy of the variables
};
class CheckReplicasTest : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(, CheckReplicasTest,
                         testing::Values(Setting{false, false}, Setting{false, true},
                                         Setting{true, false}));

TEST_P(CheckReplicasTest, ReplicasOfOneProcessAreCompared) {
  const Model model;
  std::vector<std::atomic<bool>> flips(4);
  TestSessionOptions options{.replicas = 4, .queued = GetParam().queued};
  if (!GetParam().shares) options.session.compile.disabled_passes = {"reduce_in_updates"};
  options.wrap_device = [&, r = 0](std::unique_ptr<Device> device) mutable {
    return std::make_unique<FlippingDevice>(std::move(device), &flips[r++]);
  };
  const auto session = CreateTestSession(model.graph, options);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->CheckReplicas(), absl::OkStatus());
  ASSERT_EQ(model.Train(**session), absl::OkStatus());
  EXPECT_EQ((*session)->CheckReplicas(), absl::OkStatus());
  ASSERT_FALSE(
      Tensor::Identical(*(*session)->ReadVariable("seen", 0), *(*session)->ReadVariable("seen", 3)))
      << "the replicas must have different parts of `seen`";

  const Tensor good = *(*session)->ReadVariable(kLarge);
  if (GetParam().shares) {
    flips[0] = true;
    ASSERT_EQ(AssignItself(**session, kLarge), absl::OkStatus());
    EXPECT_EQ((*session)->CheckReplicas(), absl::OkStatus()) << "there is only one copy";
    return;
  }
  flips[1] = flips[2] = true;
  ASSERT_EQ(AssignItself(**session, kLarge), absl::OkStatus());
  const absl::Status differs = (*session)->CheckReplicas();
  EXPECT_THAT(differs, IsError(absl::StatusCode::kDataLoss, absl::StrCat("variable '", kLarge, "'"),
                               absl::StrCat(ChecksumOf(good), " on ranks 0, 3"),
                               absl::StrCat(ChecksumOf(*(*session)->ReadVariable(kLarge, 1)),
                                            " on ranks 1, 2")));
  // Only the flipped bit is wrong, and the session remains usable.
  ASSERT_EQ((*session)->AssignVariable(kLarge, good), absl::OkStatus());
  EXPECT_EQ((*session)->CheckReplicas(), absl::OkStatus());
  EXPECT_EQ(model.Train(**session), absl::OkStatus());
}

TEST(CheckReplicasOfWorkersTest, AllWorkersNameVariableAndRanks) {
  const Model model;
  for (const bool one_domain : {false, true}) {
    for (const int odd : {0, 2}) {
      SCOPED_TRACE(absl::StrCat("worker ", odd, one_domain ? ", one domain" : ""));
      constexpr int kWorkers = 3, kReplicas = 2;
      std::atomic<bool> flips{false};
      TestWorkersOptions options{
          .workers = kWorkers, .replicas = kReplicas, .one_domain = one_domain};
      options.change = [&](int w, SessionOptions*, SessionBackend* backend) {
        if (w != odd) return;
        backend->devices[0] =
            std::make_unique<FlippingDevice>(std::move(backend->devices[0]), &flips);
      };
      const auto workers =
          TestWorkers::Create([&](int) -> const Graph& { return model.graph; }, options);
      ASSERT_TRUE(workers.ok()) << workers.status();
      const auto check = [&](int w) { return (*workers)->session(w).CheckReplicas(); };
      ASSERT_EQ((*workers)->OnAll([&](int w) { return model.Train((*workers)->session(w)); }),
                absl::OkStatus());
      EXPECT_EQ((*workers)->OnAll(check), absl::OkStatus());

      for (const char* const name : {kLarge, "small"}) {
        flips = true;
        ASSERT_EQ(AssignItself((*workers)->session(odd), name), absl::OkStatus());
      }
      const std::vector<absl::Status> differ = (*workers)->OnEach(check);
      EXPECT_THAT(differ, Each(differ[0]));
      // The replicas of a worker share one copy.
      EXPECT_THAT(differ[0], IsError(absl::StatusCode::kDataLoss, "differs",
                                     odd == 0 ? " on ranks 0, 1 and " : " on ranks 0, 1, 2, 3 and ",
                                     odd == 0 ? " on ranks 2, 3, 4, 5; " : " on ranks 4, 5; ",
                                     "variables that differ: 1"));
      EXPECT_THAT(std::string(differ[0].message()),
                  testing::ContainsRegex(absl::StrCat("^variable '(", kLarge, "|small)'")));

      // The session still works: the workers take the values of worker 0 and continue.
      EXPECT_EQ((*workers)->OnAll([&](int w) -> absl::Status {
        Session& session = (*workers)->session(w);
        MF_ASSIGN_OR_RETURN(const Tensor large, session.ReadVariable(kLarge));
        MF_ASSIGN_OR_RETURN(const Tensor small, session.ReadVariable("small"));
        MF_RETURN_IF_ERROR(
            session.AssignFromWorker0({kLarge, "small"}, {{kLarge, large}, {"small", small}}));
        MF_RETURN_IF_ERROR(session.CheckReplicas());
        return model.Train(session);
      }),
                absl::OkStatus());
    }
  }
}

TEST(CheckReplicasOfWorkersTest, WorkerThatDoesNotParticipateIsNamed) {
  const Model model;
  const auto workers =
      TestWorkers::Create([&](int) -> const Graph& { return model.graph; },
                          {.workers = 2, .replicas = 1, .collective_timeout = absl::Seconds(1)});
  ASSERT_TRUE(workers.ok()) << workers.status();
  const absl::Status missing = (*workers)->session(0).CheckReplicas();
  EXPECT_THAT(missing, IsError(absl::StatusCode::kDeadlineExceeded, "rank 1"));
}

TEST(CheckReplicasOfOneReplicaTest, SingleCopySucceeds) {
  const Model model;
  const auto session = CreateTestSession(model.graph, {});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->CheckReplicas(), absl::OkStatus());
  const Graph no_variables;
  const auto empty = CreateTestSession(no_variables, {.replicas = 2});
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ((*empty)->CheckReplicas(), absl::OkStatus());
}

}  // namespace
}  // namespace mirrorflow
