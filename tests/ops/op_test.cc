// SPDX-License-Identifier: Apache-2.0
//
// Tests properties of every op: each test runs once per op in the registry. A new op needs no
// change here, only cases in tests/references/cases or, if no reference computes its values, in
// tests/ops/cases.
#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/all/all_ops.h"
#include "tests/support/op_checks.h"

namespace mirrorflow {
namespace {

enum class Check { kValues, kGradient, kRule, kTraits };

// An op without a case for a check, and the reason. An op that passes the check must not be listed.
struct Exemption {
  const char* op;
  Check check;
  const char* because;
};

constexpr Exemption kExemptions[] = {
    {"FusedBatchNormV3", Check::kGradient, "only y has a gradient: tests/ops/batch_norm_test.cc"},
    {"If", Check::kGradient, "cases have no functions: tests/distribute/control_flow_test.cc"},
    {"If", Check::kValues, "cases have no functions: tests/distribute/foreign_graph_test.cc"},
    {"NoOp", Check::kRule, "it has neither operands nor results"},
    {"NoOp", Check::kValues, "it has neither operands nor results"},
    {"Placeholder", Check::kValues, "it is fed"},
    {"RandomStandardNormal", Check::kValues,
     "TensorFlow's numbers differ: tests/ops/random_test.cc"},
    {"RandomUniform", Check::kValues, "TensorFlow's numbers differ: tests/ops/random_test.cc"},
    {"ReplicaIndex", Check::kValues,
     "TensorFlow does not have it: tests/distribute/strategy_test.cc"},
    {"StatelessIf", Check::kGradient, "see If"},
    {"StatelessIf", Check::kValues, "see If"},
    {"StatelessWhile", Check::kGradient, "see While"},
    {"StatelessWhile", Check::kValues, "see While"},
    {"StopGradient", Check::kGradient, "it differs from central differences by design"},
    {"TruncatedNormal", Check::kValues, "TensorFlow's numbers differ: tests/ops/random_test.cc"},
    {"VarHandleOp", Check::kValues, "a handle has no value"},
    {"VarIsInitializedOp", Check::kValues,
     "it queries a session: tests/distribute/variable_state_test.cc"},
    {"While", Check::kGradient, "cases have no functions: tests/distribute/loop_gradient_test.cc"},
    {"While", Check::kValues, "cases have no functions: tests/distribute/foreign_graph_test.cc"},
};

const OpRegistry& Ops() {
  // AllOps() crashes on the errors that this test reports, so the test builds its own registry.
  static const OpRegistry* const registry = [] {
    auto* ops = new OpRegistry();
    RegisterAllOps(*ops);
    return ops;
  }();
  return *registry;
}

// Returns whether the op takes or returns lists, which neither cases nor kernels support.
bool IsAboutLists(const OpDef& op) {
  const auto is_list = [](const ArgDef& arg) { return arg.dtype == DT_VARIANT; };
  return absl::c_any_of(op.inputs, is_list) || absl::c_any_of(op.outputs, is_list);
}

constexpr Exemption kLists = {"", Check::kValues,
                              "cases have no lists: tests/distribute/tensor_list_test.cc"};

const Exemption* FindExemption(absl::string_view op, Check check) {
  if (IsAboutLists(*Ops().Find(op))) return &kLists;
  for (const Exemption& exemption : kExemptions) {
    if (exemption.op == op && exemption.check == check) return &exemption;
  }
  return nullptr;
}

// An attribute that does not need a case for each value. An empty `op` means every op.
struct SilentAttribute {
  const char* op;
  const char* attr;
  const char* because;
};

constexpr SilentAttribute kSilentAttributes[] = {
    {"", "grad_a", "it marks products that compute gradients"},
    {"", "grad_b", "it marks products that compute gradients"},
    {"", "grad_x", "it marks products that compute gradients"},
    {"", "grad_y", "it marks products that compute gradients"},
    {"", "use_cudnn_on_gpu", "a hint for another device"},
    {"", "use_locking", "partial updates are never visible"},
    {"", "validate_indices", "indices are always validated"},
    {"AssignVariableOp", "validate_shape", "the shape is always validated"},
    {"Bitcast", "T", "includes types that no kernel computes in"},
    {"Bitcast", "type", "includes types that no kernel computes in"},
    {"Cast", "Truncate", "rejected where it matters"},
    {"FusedBatchNormGradV3", "T", "TensorFlow lacks double; Mirrorflow has it for checks"},
    {"FusedBatchNormGradV3", "U", "TensorFlow lacks double; Mirrorflow has it for checks"},
    {"FusedBatchNormGradV3", "data_format", "TensorFlow has no kernel for NDHWC on a CPU"},
    {"FusedBatchNormV3", "T", "TensorFlow lacks double; Mirrorflow has it for checks"},
    {"FusedBatchNormV3", "U", "TensorFlow lacks double; Mirrorflow has it for checks"},
    {"MaxPool", "data_format", "NCHW_VECT_C is rejected"},
    {"MaxPoolGrad", "data_format", "NCHW_VECT_C is rejected"},
};

// Returns whether the value is the dtype of handles or of lists, which cases cannot contain.
bool IsHandle(const AttrValue& value) {
  return value == AttrValue(DT_RESOURCE) || value == AttrValue(DT_VARIANT);
}

// A type in an op's schema that TensorFlow has no CPU kernel for, so no reference values exist.
struct WithoutNumbers {
  const char* op;
  DataType dtype;
};

constexpr WithoutNumbers kWithoutNumbers[] = {
    {"Digamma", DT_BFLOAT16},
    {"Lgamma", DT_BFLOAT16},
    {"LinSpace", DT_BFLOAT16},
    {"LinSpace", DT_HALF},
    {"Mod", DT_BFLOAT16},
    {"Mod", DT_HALF},
    {"Rint", DT_BFLOAT16},
    {"Rint", DT_HALF},
    {"StatelessRandomUniformIntV2", DT_UINT32},
    {"StatelessRandomUniformIntV2", DT_UINT64},
    {"TruncateMod", DT_BFLOAT16},
    {"TruncateMod", DT_HALF},
};

bool IsWithoutNumbers(absl::string_view op, const AttrValue& value) {
  return absl::c_any_of(kWithoutNumbers, [&](const WithoutNumbers& without) {
    return without.op == op && value == AttrValue(without.dtype);
  });
}

// Ops on floating-point tensors that have no case with an empty operand.
constexpr const char* kNeverEmpty[] = {
    "DepthwiseConv2dNativeBackpropFilter",  // TensorFlow leaves the result uninitialised
    "ScatterNd",                            // TensorFlow rejects empty operands
};

// An argument that does not need a case of size 1 in each dimension. An empty `op` means every op.
struct NeverOne {
  const char* op;
  const char* arg;
  const char* because;
};

constexpr NeverOne kNeverOne[] = {
    {"", "counter", "it has two elements"},
    {"", "seed", "it has two elements"},
};

bool MayBeNeverOne(absl::string_view op, absl::string_view arg) {
  return absl::c_any_of(kNeverOne, [&](const NeverOne& never) {
    const absl::string_view of = never.op;
    return never.arg == arg && (of.empty() || of == op);
  });
}

bool IsSilent(absl::string_view op, absl::string_view attr) {
  for (const SilentAttribute& silent : kSilentAttributes) {
    const absl::string_view of = silent.op;
    if ((of.empty() || of == op) && silent.attr == attr) return true;
  }
  return false;
}

class EveryOp : public ::testing::TestWithParam<std::string> {
 protected:
  const OpDef& op() const { return *Ops().Find(GetParam()); }

  using CheckFn = CheckReport (*)(const OpCase&, const OpRegistry&, const KernelRegistry&);
  // Runs the check on all of the op's cases. Unless the op is exempt, the check must apply to at
  // least one.
  void Expect(Check check, CheckFn fn) const {
    CheckReport report;
    const auto cases = OpCasesByOp().find(op().name);
    if (cases != OpCasesByOp().end()) {
      for (const OpCase& op_case : cases->second) report.Add(fn(op_case, Ops(), CpuKernels()));
    }
    RecordProperty("checked", absl::StrCat(report.checked));
    const Exemption* exemption = FindExemption(op().name, check);
    if (exemption != nullptr) {
      EXPECT_TRUE(report.checked == 0 || !report.failures.empty())
          << "exempt (" << exemption->because << "), but it passes";
      return;
    }
    EXPECT_TRUE(report.failures.empty()) << report.ToString();
    EXPECT_GT(report.checked, 0) << "the check applies to no case";
  }
};

// Returns the op's cases that have known results.
std::vector<const OpCase*> KnownCases(const OpDef& op) {
  std::vector<const OpCase*> known;
  const auto cases = OpCasesByOp().find(op.name);
  if (cases == OpCasesByOp().end()) return known;
  for (const OpCase& op_case : cases->second) {
    if (op_case.has_results()) known.push_back(&op_case);
  }
  return known;
}

TEST_P(EveryOp, HasCaseForEveryValueOfEachAttribute) {
  if (FindExemption(op().name, Check::kValues) != nullptr) return;
  const std::vector<const OpCase*> cases = KnownCases(op());
  for (const AttrDef& attr : op().attrs) {
    AttrList values = attr.allowed;
    if (attr.type == "bool") values = {AttrValue(false), AttrValue(true)};
    if (IsSilent(op().name, attr.name) || absl::StartsWith(attr.type, "list(")) continue;
    for (const AttrValue& value : values) {
      if (IsHandle(value) || IsWithoutNumbers(op().name, value)) continue;
      const bool has_case = std::any_of(cases.begin(), cases.end(), [&](const OpCase* op_case) {
        const auto it = op_case->attrs.find(attr.name);
        return it != op_case->attrs.end() ? it->second == value : attr.default_value == value;
      });
      EXPECT_TRUE(has_case) << "no case has " << attr.name << "=" << value.ToString();
    }
  }
}

TEST_P(EveryOp, HasCasesWithoutElementsAndWithNonFiniteNumbers) {
  if (FindExemption(op().name, Check::kValues) != nullptr) return;
  bool tensors = false, empty = absl::c_linear_search(kNeverEmpty, op().name), not_finite = false;
  for (const OpCase* op_case : KnownCases(op())) {
    for (const OpCase::Operand& operand : op_case->operands) {
      tensors = tensors || (IsFloating(operand.value.dtype()) && operand.value.shape().rank() > 0);
      empty = empty || operand.value.num_elements() == 0;
      not_finite = not_finite || !AllFinite(operand.value);
    }
  }
  if (!tensors) return;
  EXPECT_TRUE(empty) << "no case has an operand without elements";
  if (op().has(kElementwise)) {
    EXPECT_TRUE(not_finite) << "no case has NaN or an infinity";
  }
}

// Returns an argument's shapes (those of all its tensors if it is a list) in the cases that
// succeed.
std::vector<Shape> ShapesOf(const OpDef& op, const ArgDef& arg) {
  std::vector<Shape> shapes;
  for (const OpCase* op_case : KnownCases(op)) {
    AttrMap attrs = op_case->attrs;
    if (op_case->fails || !CompleteAttrs(op, &attrs).ok()) continue;
    const absl::StatusOr<ArgRange> range = FindArg(op.inputs, attrs, arg.name);
    EXPECT_TRUE(range.ok()) << range.status();
    if (!range.ok()) continue;
    for (int i = range->first; i < range->last; ++i) {
      shapes.push_back(op_case->operands[i].value.shape());
    }
  }
  return shapes;
}

// If the argument has the same rank in all cases, as images and matrices have, each dimension must
// be 1 in some case. Otherwise, the first dimension must be 1 in some case, and so must the last
// dimension if the rank is at least 2.
TEST_P(EveryOp, HasCasesOfSizeOneInEachDimension) {
  for (const ArgDef& arg : op().inputs) {
    if (arg.is_static || MayBeNeverOne(op().name, arg.name)) continue;
    const std::vector<Shape> shapes = ShapesOf(op(), arg);
    int min_rank = kMaxRank, max_rank = 0;
    for (const Shape& shape : shapes) {
      min_rank = std::min(min_rank, shape.rank());
      max_rank = std::max(max_rank, shape.rank());
    }
    const auto has_one = [&](auto dim_of) {
      return absl::c_any_of(shapes, [&](const Shape& shape) { return dim_of(shape) == 1; });
    };
    for (int d = 0; min_rank == max_rank && d < max_rank; ++d) {
      EXPECT_TRUE(has_one([d](const Shape& shape) { return shape.dim(d); }))
          << "no case has a 1 in dimension " << d << " of " << arg.name;
    }
    if (min_rank == max_rank || max_rank == 0) continue;
    EXPECT_TRUE(has_one([](const Shape& shape) { return shape.rank() > 0 ? shape.dim(0) : 0; }))
        << "no case has a 1 in the first dimension of " << arg.name;
    EXPECT_TRUE(max_rank == 1 || has_one([](const Shape& shape) {
                  return shape.rank() > 1 ? shape.dim(shape.rank() - 1) : 0;
                }))
        << "no case has a 1 in the last dimension of " << arg.name;
  }
}

// Returns whether `a` has an explicit dimension of size 1 that `b` stretches to a larger one.
bool IsStretched(const Shape& a, const Shape& b) {
  const int common = std::min(a.rank(), b.rank());
  for (int k = 1; k <= common; ++k) {
    if (a.dim(a.rank() - k) == 1 && b.dim(b.rank() - k) > 1) return true;
  }
  return false;
}

TEST_P(EveryOp, HasCasesThatBroadcastEachOperandIfOpBroadcasts) {
  if (!op().has(kElementwise)) return;
  std::map<int, bool> is_stretched;
  bool differ = false;
  for (const OpCase* op_case : KnownCases(op())) {
    if (op_case->fails) continue;
    const int n = static_cast<int>(op_case->operands.size());
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < n; ++k) {
        const Shape &a = op_case->operands[i].value.shape(),
                    &b = op_case->operands[k].value.shape();
        is_stretched[i] |= IsStretched(a, b);
        differ = differ || (a.rank() > 0 && b.rank() > 0 && !(a == b));
      }
    }
  }
  for (const auto& [i, stretched] : is_stretched) {
    EXPECT_TRUE(!differ || stretched) << "no case broadcasts a 1 of operand " << i;
  }
}

TEST_P(EveryOp, HasCompleteDefinition) {
  EXPECT_FALSE(op().doc.empty());
  EXPECT_NE(op().shape, nullptr);
  EXPECT_NE(op().sharding != nullptr, !op().no_sharding_reason.empty())
      << "the op needs a sharding rule, or a reason why its inputs are gathered";
  EXPECT_NE(op().gradient != nullptr, !op().no_gradient_reason.empty())
      << "the op needs a gradient, or a reason why it has none";
}

TEST_P(EveryOp, HasCpuKernelUnlessItNeedsNone) {
  const OpRole role = op().role;
  // The runtime or the compiler handles these ops, views share memory, and lists become tensors.
  const bool nothing_runs = role == OpRole::kVariable || role == OpRole::kPlaceholder ||
                            role == OpRole::kNoOp || role == OpRole::kHasValue ||
                            role == OpRole::kBranch || role == OpRole::kLoop ||
                            role == OpRole::kCollective || op().has(kView) || IsAboutLists(op());
  EXPECT_EQ(CpuKernels().Has(op().name, "CPU"), !nothing_runs);
}

TEST_P(EveryOp, ComputesTheSameValuesAsTensorFlow) { Expect(Check::kValues, CheckValues); }

TEST_P(EveryOp, GradientMatchesCentralDifferences) {
  if (op().gradient != nullptr) Expect(Check::kGradient, CheckGradient);
}

TEST_P(EveryOp, GradientMatchesTensorFlow) {
  const auto cases = OpCasesByOp().find(op().name);
  if (cases == OpCasesByOp().end()) return;
  CheckReport report;
  for (const OpCase& op_case : cases->second) {
    report.Add(CheckKnownGradients(op_case, Ops(), CpuKernels()));
  }
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
}

TEST_P(EveryOp, ShardingRuleHolds) {
  if (op().sharding != nullptr) Expect(Check::kRule, CheckShardingRule);
}

TEST_P(EveryOp, DeclaredTraitsHold) {
  if ((op().traits & kCheckedTraits) != 0) Expect(Check::kTraits, CheckTraits);
}

std::vector<std::string> OpNames() {
  std::vector<std::string> names;
  for (const OpDef* op : Ops().All()) names.push_back(op->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryOp, ::testing::ValuesIn(OpNames()),
                         [](const auto& info) { return info.param; });

TEST(OpCases, BelongToRegisteredOps) {
  for (const auto& [op, cases] : OpCasesByOp()) {
    EXPECT_NE(Ops().Find(op), nullptr)
        << op << " is not registered but has cases, such as " << cases[0].where;
  }
}

TEST(Exemptions, BelongToRegisteredOps) {
  for (const Exemption& exemption : kExemptions) {
    const OpDef* op = Ops().Find(exemption.op);
    ASSERT_NE(op, nullptr) << exemption.op;
    if (exemption.check == Check::kGradient) {
      EXPECT_NE(op->gradient, nullptr) << exemption.op;
    }
    if (exemption.check == Check::kRule) {
      EXPECT_NE(op->sharding, nullptr) << exemption.op;
    }
  }
}

}  // namespace
}  // namespace mirrorflow
