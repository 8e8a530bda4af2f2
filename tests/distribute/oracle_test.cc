// SPDX-License-Identifier: Apache-2.0
//
// Oracle test: random programs, including training steps, give the same results as the reference
// interpreter. Each runs on a random number of replicas with random row counts, on the CPU device
// or the queued device, with random optional passes disabled.
//
// For a long run:
//   MIRRORFLOW_RANDOM_PROGRAMS=100000 oracle_test --gtest_filter=OracleTest.*
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "distribute/pipeline.h"
#include "framework/compiler/pass.h"
#include "framework/compiler/plan/plan_state.h"
#include "gtest/gtest.h"
#include "tests/support/compare_with_reference.h"
#include "tests/support/delayed_kernels.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

using PassNames = absl::flat_hash_set<std::string>;

const std::vector<std::string>& OptionalPasses() {
  static const auto* const names = [] {
    auto* all = new std::vector<std::string>(ProgramPipeline().OptionalPasses());
    for (std::string& name : PlanPipeline().OptionalPasses()) all->push_back(std::move(name));
    return all;
  }();
  return *names;
}

// Returns a random setting, except for the disabled passes.
ProgramSetting RandomSetting(int64_t batch, Random& random) {
  ProgramSetting setting;
  setting.session.replicas = static_cast<int>(1 + random.Below(4));
  setting.session.queued = random.Below(4) == 0;
  setting.session.queued_device.seed = random.Next();
  const bool has_threads = random.Below(4) == 0;  // threads beyond the cores are slow
  setting.session.threads_per_replica = has_threads ? static_cast<int>(2 + random.Below(2)) : 1;
  setting.session.session.compile.min_part_ns = 0;
  setting.session.session.bucket_bytes = random.Below(2) == 0 ? 64 : 1 << 20;
  if (random.Below(2) == 0) {
    int64_t left = batch;
    for (int r = 0; r + 1 < setting.session.replicas; ++r) {
      setting.rows.push_back(random.Below(left + 1));
      left -= setting.rows.back();
    }
    setting.rows.push_back(left);
  }
  return setting;
}

// Chooses each optional pass with a probability of 1/4.
PassNames RandomPasses(Random& random) {
  PassNames names;
  for (const std::string& name : OptionalPasses()) {
    if (random.Below(4) == 0) names.insert(name);
  }
  return names;
}

void CheckProgram(uint64_t seed, const RandomProgram& program, const ProgramSetting& setting) {
  const absl::StatusOr<std::string> difference = CompareWithReference(program, setting);
  ASSERT_TRUE(difference.ok()) << "seed " << seed << " (" << setting.ToString()
                               << "): " << difference.status();
  ASSERT_EQ(*difference, "") << "seed " << seed << " (" << setting.ToString() << ")";
}

// Checks one program. `choose(random)` returns the passes to disable.
template <typename Choose>
void CheckProgram(uint64_t seed, Choose choose, bool communicates = false) {
  const int num_ops = 4 + static_cast<int>(seed % 12);
  const absl::StatusOr<RandomProgram> program = MakeRandomProgram(
      seed, {.num_ops = num_ops, .communicates = communicates, .has_layers = true});
  ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.status();
  Random random(seed);
  ProgramSetting setting = RandomSetting(program->batch, random);
  setting.session.session.compile.disabled_passes = choose(random);
  CheckProgram(seed, *program, setting);
}

TEST(OracleTest, RandomProgramsMatchReferenceInterpreter) {
  const uint64_t programs = NumRandomPrograms(2000);
  for (uint64_t seed = 1; seed <= programs; ++seed) {
    ASSERT_NO_FATAL_FAILURE(CheckProgram(seed, RandomPasses));
  }
}

TEST(OracleTest, RandomProgramsThatCommunicateMatchReferenceInterpreter) {
  const uint64_t programs = NumRandomPrograms(600);
  for (uint64_t seed = 2'000'000; seed < 2'000'000 + programs; ++seed) {
    ASSERT_NO_FATAL_FAILURE(CheckProgram(seed, RandomPasses, /*communicates=*/true));
  }
}

// Counts the plans that run micro-batches.
class MicrobatchCounter final : public PassObserver {
 public:
  void BeforePass(absl::string_view, const Compilation&) override {}
  void AfterPass(absl::string_view pass, const Compilation& c) override {
    if (pass != "split_into_microbatches") return;
    const auto joins = [](const Node* node) { return node->op().role == OpRole::kJoinRows; };
    if (absl::c_any_of(c.graph.Nodes(), joins))
      ++(c.shard ? on_several_replicas_ : on_one_replica_);
  }
  int64_t on_one_replica() const { return on_one_replica_; }
  int64_t on_several_replicas() const { return on_several_replicas_; }

 private:
  int64_t on_one_replica_ = 0;
  int64_t on_several_replicas_ = 0;
};

TEST(OracleTest, RandomInferenceInMicrobatchesMatchesReferenceInterpreter) {
  const uint64_t programs = NumRandomPrograms(600);
  MicrobatchCounter counter;
  for (uint64_t seed = 3'000'000; seed < 3'000'000 + programs; ++seed) {
    absl::StatusOr<RandomProgram> program =
        MakeRandomProgram(seed, {.num_ops = 12, .has_layers = true});
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.status();
    program->targets.clear();  // updates of variables
    Random random(seed);
    ProgramSetting setting = RandomSetting(program->batch, random);
    setting.session.session.compile.microbatch_bytes = int64_t{1} << random.Below(8);
    setting.session.session.compile.observer = &counter;
    ASSERT_NO_FATAL_FAILURE(CheckProgram(seed, *program, setting));
  }
  EXPECT_GE(counter.on_one_replica(), static_cast<int64_t>(programs / 100));
  EXPECT_GE(counter.on_several_replicas(), static_cast<int64_t>(programs / 100));
}

// Counts the values that are stored in the output of their Concat.
class SliceCounter final : public PassObserver {
 public:
  void BeforePass(absl::string_view, const Compilation&) override {}
  void AfterPass(absl::string_view pass, const Compilation& c) override {
    if (pass != "concat_in_place") return;
    for (const ConcatSlice& placed : dynamic_cast<const PlanState&>(c).slices) {
      const std::string& op = placed.value().node->op().name;
      const bool has_gaps = placed.slice.row_stride > 0;
      contiguous_ += !has_gaps;
      of_convolutions_ += has_gaps && absl::StrContains(op, "Conv2D");
      of_products_ += has_gaps && absl::StrContains(op, "MatMul");
      of_pools_ += has_gaps && absl::StrContains(op, "Pool");
    }
  }
  // Returns the count for the kind of value that occurs least often. All kinds except the first
  // have gaps between their rows.
  int64_t fewest() const {
    return std::min({contiguous_, of_convolutions_, of_products_, of_pools_});
  }

 private:
  int64_t contiguous_ = 0, of_convolutions_ = 0, of_products_ = 0, of_pools_ = 0;
};

TEST(OracleTest, RandomConcatsInPlaceMatchReferenceInterpreter) {
  const uint64_t programs = NumRandomPrograms(600);
  SliceCounter counter;
  for (uint64_t seed = 4'000'000; seed < 4'000'000 + programs; ++seed) {
    const absl::StatusOr<RandomProgram> program =
        MakeRandomProgram(seed, {.num_ops = 12, .has_layers = true});
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.status();
    Random random(seed);
    ProgramSetting setting = RandomSetting(program->batch, random);
    setting.session.session.compile.observer = &counter;
    ASSERT_NO_FATAL_FAILURE(CheckProgram(seed, *program, setting));
  }
  EXPECT_GE(counter.fewest(), static_cast<int64_t>(programs / 300));
}

// Counts the nodes that are divided among threads.
class DivisionCounter final : public PassObserver {
 public:
  void BeforePass(absl::string_view, const Compilation&) override {}
  void AfterPass(absl::string_view pass, const Compilation& c) override {
    if (pass != "divide_among_threads") return;
    for (const std::vector<NodePart>& parts : dynamic_cast<const PlanState&>(c).parts) {
      if (!parts.empty()) ++(parts[0].by_kernel ? by_kernel_ : by_rule_);
    }
  }
  int64_t by_kernel() const { return by_kernel_; }
  int64_t by_rule() const { return by_rule_; }

 private:
  int64_t by_kernel_ = 0, by_rule_ = 0;
};

TEST(OracleTest, RandomProgramsOnSeveralThreadsMatchReferenceInterpreter) {
  const uint64_t programs = NumRandomPrograms(600);
  DivisionCounter counter;
  for (uint64_t seed = 5'000'000; seed < 5'000'000 + programs; ++seed) {
    const absl::StatusOr<RandomProgram> program =
        MakeRandomProgram(seed, {.num_ops = 12, .has_layers = true});
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.status();
    Random random(seed);
    ProgramSetting setting = RandomSetting(program->batch, random);
    setting.session.queued = false;
    setting.session.threads_per_replica = static_cast<int>(2 + random.Below(3));
    if (random.Below(2) == 0) setting.session.kernels = &DelayedKernels();
    setting.session.session.compile.observer = &counter;
    ASSERT_NO_FATAL_FAILURE(CheckProgram(seed, *program, setting));
  }
  EXPECT_GE(counter.by_rule(), static_cast<int64_t>(programs));
  EXPECT_GE(counter.by_kernel(), static_cast<int64_t>(programs / 100));
}

// The parameter is the index of an optional pass of the pipelines, or -1 for all of them.
class OraclePassTest : public testing::TestWithParam<int> {};

TEST_P(OraclePassTest, RandomProgramsMatchReferenceWithoutPass) {
  const std::vector<std::string>& all = OptionalPasses();
  PassNames off(all.begin(), all.end());
  if (GetParam() >= 0) off = {all[GetParam()]};
  const uint64_t programs = NumRandomPrograms(150);
  const uint64_t first = 1'000'000 + programs * static_cast<uint64_t>(GetParam() + 1);
  for (uint64_t seed = first; seed < first + programs; ++seed) {
    ASSERT_NO_FATAL_FAILURE(CheckProgram(seed, [&](Random&) { return off; }));
  }
}

INSTANTIATE_TEST_SUITE_P(OptionalPasses, OraclePassTest,
                         testing::Range(-1, static_cast<int>(OptionalPasses().size())),
                         [](const testing::TestParamInfo<int>& info) {
                           return info.param < 0 ? "all" : OptionalPasses()[info.param];
                         });

}  // namespace
}  // namespace mirrorflow
