// SPDX-License-Identifier: Apache-2.0
//
// Tests that NVRTC compiles our device code for GPUs. The fakes compile the same code for the host,
// but NVRTC is stricter in some respects and provides different functions.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/libraries/compile.h"
#include "kernels/cuda/libraries/program.h"
#include "ops/registry.h"
#include "tests/cuda/capabilities.h"
#include "tests/support/cpu_and_gpu_kernels.h"
#include "tests/support/is_error.h"
#include "tests/support/ops_with_fused.h"
#include "tests/support/run_on_device.h"

namespace mirrorflow {
namespace {

constexpr char kArch[] = "sm_90";
// How many bytes a kernel is allowed to spill. ptxas spills one or two registers if that lets
// another block run at the same time.
constexpr int kMaxSpilled = 16;

// Returns whether creating a kernel failed only because it requires a GPU. cuBLASLt requires one to
// initialise, and cuDNN engines depend on its properties. Their kernels are not our code.
bool NeedsAGpu(const absl::Status& status) {
  return absl::IsInternal(status) && (absl::StrContains(status.message(), "cublasLtCreate") ||
                                      absl::StrContains(status.message(), "cudaGetDevice"));
}

// Returns the first case of each op for each set of dtypes.
std::vector<OpCase> OneCaseEach() {
  std::vector<OpCase> chosen;
  std::set<std::string> seen;
  for (const char* folder : {"tests/references/cases", "tests/ops/cases"}) {
    const absl::StatusOr<std::vector<OpCase>> cases = LoadOpCases(folder);
    EXPECT_TRUE(cases.ok()) << cases.status();
    if (!cases.ok()) continue;
    for (const OpCase& op_case : *cases) {
      if (op_case.fails || !CpuAndGpuKernels().Has(op_case.op, kGpu)) continue;
      std::string key = op_case.op;
      bool empty = false;
      for (const OpCase::Operand& operand : op_case.operands) {
        key += " " + std::string(DataTypeName(operand.value.dtype()));
        empty = empty || operand.value.num_elements() == 0;
      }
      if (!empty && seen.insert(key).second) chosen.push_back(op_case);
    }
  }
  return chosen;
}

// Adds a case's kernel to the program.
void Add(const OpCase& op_case, CudaProgram* program, const KernelOptions& options = {}) {
  const absl::StatusOr<CaseNode> node = MakeCaseNode(op_case, AllOps());
  ASSERT_TRUE(node.ok()) << op_case.ToString() << ": " << node.status();
  const auto plan = CpuAndGpuKernels().Create(kGpu, *ContextOf(*node, program, options));
  EXPECT_TRUE(plan.ok() || NeedsAGpu(plan.status())) << op_case.ToString() << ": " << plan.status();
}

int Count(absl::string_view text, absl::string_view part) {
  const std::vector<absl::string_view> between = absl::StrSplit(text, part);
  return static_cast<int>(between.size()) - 1;
}

// Returns what ptxas reports about the registers and spills of each kernel in a PTX text.
std::string ResourceUsage(const std::string& ptx, int capability) {
  const std::string file = testing::TempDir() + "/kernels.ptx";
  std::ofstream(file, std::ios::binary) << ptx.c_str();  // without the terminating zero
  const char* const home = getenv("CUDA_HOME");
  const std::string command = absl::StrCat(home != nullptr ? home : "/usr/local/cuda",
                                           "/bin/ptxas --verbose --gpu-name=sm_", capability,
                                           " -o /dev/null ", file, " 2>&1");
  std::string said;
  FILE* const pipe = popen(command.c_str(), "r");
  char line[512];
  while (pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr) said += line;
  if (pipe != nullptr) pclose(pipe);
  return said;
}

// Returns the largest number of bytes that a kernel spills, from the text of ResourceUsage.
int MaxSpilledBytes(absl::string_view usage) {
  int max_bytes = 0;
  for (const absl::string_view line : absl::StrSplit(usage, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, ", ");
    int bytes = 0;  // of `8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads`
    if (parts.size() < 2 || !absl::EndsWith(parts[1], " bytes spill stores")) continue;
    if (!absl::SimpleAtoi(parts[1].substr(0, parts[1].find(' ')), &bytes)) continue;
    max_bytes = std::max(max_bytes, bytes);
  }
  return max_bytes;
}

// Returns attention and its gradient for 1,024 queries and keys, with rows of `depth` elements.
std::vector<OpCase> LongAttention(absl::string_view dtype, int depth, bool causal, bool masked) {
  const std::string attrs =
      absl::StrCat("{T=", dtype, ", U=float, scale=0.125, causal=", causal ? "true" : "false",
                   masked ? ", num_masks=1}\n" : "}\n");
  const std::string rows = absl::StrCat("random ", dtype, "<1,2,1024,", depth, ">\n");
  const std::string mask = masked ? absl::StrCat("random ", dtype, "<1024>\n") : "";
  const absl::StatusOr<std::vector<OpCase>> cases =
      ParseOpCases(absl::StrCat("case ScaledDotProductAttention ", attrs, rows, rows, rows, mask,
                                "\ncase ScaledDotProductAttentionGrad ", attrs, rows, rows, rows,
                                rows, rows, "random float<1,2,1024>\n", mask),
                   "long attention");
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.value_or(std::vector<OpCase>());
}

// These kernels use instructions that differ between architectures. How many registers they need
// determines their speed.
TEST(NvrtcTest, CompilesAttentionForAllArchitectures) {
  CudaProgram program;
  for (const OpCase& op_case : OneCaseEach()) {
    if (absl::StrContains(op_case.op, "Attention")) Add(op_case, &program);
  }
  for (const std::vector<OpCase>& cases : {
           LongAttention("half", 64, /*causal=*/true, /*masked=*/false),
           LongAttention("half", 64, /*causal=*/false, /*masked=*/true),
           LongAttention("half", 128, /*causal=*/true, /*masked=*/false),
           LongAttention("bfloat16", 64, /*causal=*/false, /*masked=*/false),
           LongAttention("float", 64, /*causal=*/true, /*masked=*/false),
       }) {
    for (const OpCase& op_case : cases) Add(op_case, &program, {.allow_tf32 = true});
  }
  for (const int capability : kCapabilities) {
    const absl::StatusOr<std::string> ptx =
        CompileCudaFor(program.Source(), absl::StrCat("compute_", capability));
    ASSERT_TRUE(ptx.ok()) << capability << ": " << ptx.status();
    const std::string usage = ResourceUsage(*ptx, capability);
    EXPECT_GT(Count(usage, "spill stores"), 0) << usage;
    EXPECT_LE(MaxSpilledBytes(usage), kMaxSpilled) << usage;
    EXPECT_FALSE(absl::StrContains(usage, "error")) << usage;
    std::printf("%s\n", usage.c_str());
  }
}

// Returns the loads and stores of the kernel for a case, one per line.
std::string MemoryAccesses(const std::string& text) {
  const absl::StatusOr<std::vector<OpCase>> cases = ParseOpCases(text, "text");
  if (!cases.ok()) return cases.status().ToString();
  CudaProgram program;
  const absl::StatusOr<CaseNode> node = MakeCaseNode(cases->at(0), OpsWithFused());
  if (!node.ok()) return node.status().ToString();
  const auto plan = CpuAndGpuKernels().Create(kGpu, *ContextOf(*node, &program));
  if (!plan.ok()) return plan.status().ToString();
  const absl::StatusOr<std::string> ptx = CompileCudaFor(program.Source(), "compute_90");
  if (!ptx.ok()) return ptx.status().ToString();
  std::string accesses;
  for (const absl::string_view line : absl::StrSplit(*ptx, '\n')) {
    for (const char* const access : {"ld.global", "ld.local", "st.global", "st.local"}) {
      const size_t begin = line.find(access);
      if (begin == absl::string_view::npos) continue;
      absl::StrAppend(&accesses, line.substr(begin, line.find_first_of(" \t", begin) - begin),
                      "\n");
    }
  }
  return accesses;
}

// Each access is 16 bytes wide, except accesses to repeated elements and to the remainder after the
// last whole pack.
TEST(NvrtcTest, ElementwiseKernelsAccessSixteenBytes) {
  const std::string two = "ld.global.v4.u32\nld.global.v4.u32\nst.global.v4.u32\n";
  EXPECT_EQ(MemoryAccesses("case Relu {T=bfloat16}\nrandom bfloat16<4096>"),
            "ld.global.v4.u32\nst.global.v4.u32\n");
  EXPECT_EQ(MemoryAccesses("case AddV2 {T=half}\nrandom half<64,64>\nrandom half<64,64>"), two);
  EXPECT_EQ(MemoryAccesses("case BiasAdd {T=bfloat16}\nrandom bfloat16<64,64>\n"
                           "random bfloat16<64>"),
            two);
  EXPECT_EQ(MemoryAccesses("case Mul {T=half}\nrandom half<64,64>\nrandom half<64,1>"),
            "ld.global.v4.u32\nld.global.u16\nst.global.v4.u32\n");
  EXPECT_EQ(MemoryAccesses("case Relu {T=half}\nrandom half<4097>"),
            "ld.global.v4.u32\nst.global.v4.u32\nld.global.u16\nst.global.u16\n");
  EXPECT_EQ(MemoryAccesses("case Relu {T=float}\nrandom float<4096>"),
            "ld.global.v4.f32\nst.global.v4.f32\n");
  EXPECT_EQ(MemoryAccesses("case _FusedElementwise {Tin=[half, half], T=half, body=\""
                           R"(x0 = Placeholder() {dtype=half}\n)"
                           R"(x1 = Placeholder() {dtype=half}\n)"
                           R"(t0 = AddV2(x0, x1) {T=half}\n)"
                           R"(t1 = Relu(t0) {T=half}\n)"
                           R"(t2 = Mul(t1, x0) {T=half}\n)"
                           "\"}\nrandom half<64,64>\nrandom half<64>"),
            two);
  // Expects accesses to the rate and the momentum; the gradient and two variables; the write count.
  const std::string variable =
      absl::StrCat("var half<4096>{", absl::StrJoin(std::vector<int>(4096), ", "), "}\n");
  EXPECT_EQ(MemoryAccesses(absl::StrCat("case ResourceApplyMomentum {T=half}\n", variable, variable,
                                        "random half<>\nrandom half<4096>\nrandom half<>")),
            absl::StrCat("ld.global.u16\nld.global.u16\nld.global.v4.u32\n", two,
                         "st.global.v4.u32\nld.global.u64\nst.global.u64\n"));
}

// Each thread processes 8 elements of a row.
TEST(NvrtcTest, LayerNormGradLoadsEachElementOnce) {
  const std::string accesses = MemoryAccesses(
      "case LayerNormGrad {T=half, U=float}\nrandom half<640,64>\nrandom half<640,64>\n"
      "random float<64>\nrandom float<640>\nrandom float<640>");
  const std::vector<std::string> all = absl::StrSplit(accesses, '\n');
  EXPECT_EQ(std::count(all.begin(), all.end(), "ld.global.u16"), 2 * 8) << accesses;
  EXPECT_EQ(std::count(all.begin(), all.end(), "st.global.u16"), 8) << accesses;
}

TEST(NvrtcTest, CompilesKernelsOfAllOps) {
  CudaProgram program;
  std::set<std::string> ops;
  for (const OpCase& op_case : OneCaseEach()) {
    Add(op_case, &program);
    ops.insert(op_case.op);
  }
  for (const std::string& op : CpuAndGpuKernels().Ops(kGpu)) {
    // Ops that only passes create have no cases.
    EXPECT_TRUE(AllOps().Find(op) == nullptr || ops.count(op) == 1) << op;
  }
  const absl::StatusOr<std::string> code = CompileCudaFor(program.Source(), kArch);
  EXPECT_TRUE(code.ok()) << code.status();
}

TEST(NvrtcTest, ErrorQuotesCompilerMessage) {
  CudaProgram program;
  program.Add({.parameters = "float* x", .body = "x[0] = nothing;"});
  const absl::StatusOr<std::string> code = CompileCudaFor(program.Source(), kArch);
  ASSERT_THAT(code.status(),
              IsError(absl::StatusCode::kInternal, "identifier \"nothing\" is undefined"));
}

}  // namespace
}  // namespace mirrorflow
