// SPDX-License-Identifier: Apache-2.0
//
// The oracle: random programs, training steps included, must give what the reference interpreter
// gives, on any number of replicas, with any split of the rows, on the CPU device and on the queued
// one, with each optional pass on and off.
//
//   MIRRORFLOW_ORACLE_PROGRAMS=100000 MIRRORFLOW_ORACLE_FIRST=1   for a long run by hand
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/reference/interpreter.h"
#include "gtest/gtest.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

// Sums of at most some hundred doubles of size 1 in another order, through a dozen nodes.
constexpr Tolerance kTolerance{.relative = 1e-8, .absolute = 1e-9};
constexpr int kSteps = 2;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t value;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// One way to run a program.
struct Setting {
  TestSessionOptions session;
  std::vector<int64_t> rows;  // by replica; empty: even

  std::string ToString() const {
    return absl::StrCat(session.replicas, " replicas, rows [", absl::StrJoin(rows, ","), "], ",
                        session.queued ? "queued" : "inline", ", without [",
                        absl::StrJoin(session.session.compile.disabled_passes, ","),
                        "], buckets of ", session.session.bucket_bytes);
  }
};

Setting RandomSetting(uint64_t seed, int64_t batch) {
  Random random(seed);
  Setting setting;
  setting.session.replicas = static_cast<int>(1 + random.Below(4));
  setting.session.queued = random.Below(4) == 0;
  setting.session.queued_device.seed = seed;
  setting.session.session.bucket_bytes = random.Below(2) == 0 ? 64 : 1 << 20;
  if (random.Below(4) == 0) setting.session.session.compile.disabled_passes.insert("cse");
  if (random.Below(4) == 0) setting.session.session.compile.disabled_passes.insert("bucket");
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

// The first difference between the session and the interpreter, or "".
absl::StatusOr<std::string> Compare(const RandomProgram& program, const Setting& setting) {
  MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(program.graph, setting.session));
  MF_ASSIGN_OR_RETURN(Interpreter reference, Interpreter::Create(program.graph, TestKernels()));
  for (const VariableInfo& variable : session->layout().variables()) {
    MF_ASSIGN_OR_RETURN(reference.variables()[variable.name], session->ReadVariable(variable.name));
  }
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare(program.feeds, program.fetches, program.targets));
  std::vector<std::pair<Output, Tensor>> feeds;
  for (size_t i = 0; i < program.feeds.size(); ++i) {
    feeds.emplace_back(program.feeds[i], program.values[i]);
  }
  for (int s = 0; s < kSteps; ++s) {
    StepParams params;
    params.step = static_cast<uint64_t>(s);
    MF_ASSIGN_OR_RETURN(const std::vector<Tensor> want,
                        reference.Run(feeds, program.fetches, program.targets, params));
    MF_ASSIGN_OR_RETURN(const StepOutputs got,
                        step.Run(program.values, {.replica_rows = setting.rows}));
    for (size_t i = 0; i < want.size(); ++i) {
      const std::string difference = Difference(want[i], got[i], kTolerance);
      if (!difference.empty()) {
        return absl::StrCat("step ", s, ", fetch ", program.fetches[i].ToString(), ": ",
                            difference);
      }
    }
    for (const VariableInfo& variable : session->layout().variables()) {
      MF_ASSIGN_OR_RETURN(const Tensor first, session->ReadVariable(variable.name));
      const std::string difference =
          Difference(reference.variables()[variable.name], first, kTolerance);
      if (!difference.empty()) {
        return absl::StrCat("step ", s, ", variable ", variable.name, ": ", difference);
      }
      for (int r = 1; r < session->num_local_replicas(); ++r) {
        MF_ASSIGN_OR_RETURN(const Tensor other, session->ReadVariable(variable.name, r));
        if (!Tensor::Identical(first, other)) {
          return absl::StrCat("step ", s, ", variable ", variable.name, " differs on replica ", r);
        }
      }
    }
  }
  return std::string();
}

class OracleTest : public testing::Test {
 protected:
  static void Run(uint64_t first, uint64_t count) {
    for (uint64_t seed = first; seed < first + count; ++seed) {
      const int num_ops = 4 + static_cast<int>(seed % 12);
      absl::StatusOr<RandomProgram> program = MakeRandomProgram(seed, {.num_ops = num_ops});
      ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.status();
      const Setting setting = RandomSetting(seed, program->batch);
      const absl::StatusOr<std::string> difference = Compare(*program, setting);
      ASSERT_TRUE(difference.ok())
          << "seed " << seed << " (" << setting.ToString() << "): " << difference.status();
      ASSERT_EQ(*difference, "") << "seed " << seed << " (" << setting.ToString() << ")";
    }
  }
};

TEST_F(OracleTest, RandomProgramsGiveWhatTheReferenceInterpreterGives) {
  Run(FromEnvironment("MIRRORFLOW_ORACLE_FIRST", 1),
      FromEnvironment("MIRRORFLOW_ORACLE_PROGRAMS", 2000));
}

}  // namespace
}  // namespace mirrorflow
