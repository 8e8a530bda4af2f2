// SPDX-License-Identifier: Apache-2.0
//
// Tests attention with autotune, which chooses between our kernel and cuDNN's.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/runtime/tuning_table.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_device.h"
#include "ops/registry.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/support/cpu_and_gpu_kernels.h"
#include "tests/support/run_on_device.h"

namespace mirrorflow {
namespace {

// Returns a case of attention from `queries` to `keys`, with rows of 16 and 24 elements.
std::string Case(const char* dtype, bool causal, int queries, int keys, bool heads_inside = false,
                 int num_masks = 0) {
  const auto rows = [&](int count, int columns) {
    const std::string dims = heads_inside ? absl::StrCat(count, ",3") : absl::StrCat("3,", count);
    return absl::StrCat("random ", dtype, "<2,", dims, ",", columns, ">\n");
  };
  return absl::StrCat("case ScaledDotProductAttention {T=", dtype,
                      ", U=float, scale=0.7, causal=", causal ? "true" : "false",
                      ", num_masks=", num_masks, ", heads_inside=", heads_inside ? "true" : "false",
                      "}\n", rows(queries, 16), rows(keys, 16), rows(keys, 24),
                      num_masks > 0 ? absl::StrCat("random ", dtype, "<", keys, ">\n") : "", "\n");
}

std::vector<OpCase> Parsed(const std::string& text) {
  const absl::StatusOr<std::vector<OpCase>> cases = ParseOpCases(text, "attention");
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.value_or(std::vector<OpCase>());
}

// Returns the choices that a table's text contains.
std::vector<char> ChoicesOf(const TuningTable& table) {
  std::vector<char> choices;
  bool begins = true;
  for (const char c : table.ToString()) {
    if (begins) choices.push_back(c);
    begins = c == '\n';
  }
  return choices;
}

// Runs the cases, compares them with the CPU, and returns how often cuDNN computed attention.
int64_t RunWith(const std::vector<OpCase>& cases, TuningTable* table, CheckReport* report) {
  ResetFakeCuda();
  auto device = CreateCudaDevice(0, 0);
  EXPECT_TRUE(device.ok()) << device.status();
  if (!device.ok()) return -1;
  *report = CheckCasesOnDevice(cases, AllOps(), CpuAndGpuKernels(), **device, /*units=*/4,
                               {.autotune = true}, table);
  const std::vector<std::string> operations = OperationsOf(0);
  return std::count(operations.begin(), operations.end(), "cudnnAttention");
}

TEST(CudnnAttentionTest, ChosenKernelMatchesCpu) {
  std::string text;
  for (const char* const dtype : {"half", "bfloat16"}) {
    // First fewer queries than keys, then more.
    absl::StrAppend(&text, Case(dtype, /*causal=*/false, 5, 9),
                    Case(dtype, /*causal=*/true, 9, 5, /*heads_inside=*/true));
  }
  const std::vector<OpCase> cases = Parsed(text);
  ASSERT_EQ(cases.size(), 4);
  // All candidates take the same time on the fake, so autotune keeps our own kernel.
  TuningTable measured(/*measures=*/true);
  CheckReport report;
  EXPECT_GT(RunWith(cases, &measured, &report), 0);  // in trials
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_EQ(ChoicesOf(measured), std::vector<char>(4, '0')) << measured.ToString();
  EXPECT_TRUE(absl::StrContains(measured.ToString(), "ours or cuDNN")) << measured.ToString();

  for (const char choice : {'0', '1'}) {
    TuningTable replayed(/*measures=*/false);
    ASSERT_EQ(replayed.TakeOver(absl::StrReplaceAll(
                  measured.ToString(), {{"0 ours", std::string(1, choice) + " ours"}})),
              absl::OkStatus());
    EXPECT_EQ(RunWith(cases, &replayed, &report), choice == '1' ? 4 : 0);
    EXPECT_TRUE(report.failures.empty()) << report.ToString();
    EXPECT_EQ(report.checked, 4);
  }
}

TEST(CudnnAttentionTest, OurKernelIsUsedIfCudnnHasNoKernel) {
  const std::vector<OpCase> cases = Parsed(
      absl::StrCat(Case("float", false, 5, 9), Case("half", true, 5, 9, false, /*num_masks=*/1)));
  TuningTable table(/*measures=*/true);
  CheckReport report;
  EXPECT_EQ(RunWith(cases, &table, &report), 0);
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_EQ(ChoicesOf(table), std::vector<char>(2, '0')) << table.ToString();
  // The table comes from a worker whose cuDNN has kernels for these cases.
  TuningTable other(/*measures=*/false);
  ASSERT_EQ(other.TakeOver(absl::StrReplaceAll(table.ToString(), {{"0 ours", "1 ours"}})),
            absl::OkStatus());
  EXPECT_EQ(RunWith(cases, &other, &report), 0);
  ASSERT_EQ(report.failures.size(), 2) << report.ToString();
  EXPECT_TRUE(absl::StrContains(report.failures[0], "kernel 1")) << report.ToString();
}

TEST(CudnnAttentionTest, OurKernelIsUsedIfCudnnHasNoEngines) {
  const std::vector<OpCase> cases = Parsed(Case("half", true, 5, 9));
  ResetFakeCuda({.attention = false});
  auto device = CreateCudaDevice(0, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  TuningTable table(/*measures=*/true);
  const CheckReport report = CheckCasesOnDevice(cases, AllOps(), CpuAndGpuKernels(), **device,
                                                /*units=*/4, {.autotune = true}, &table);
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_EQ(ChoicesOf(table), std::vector<char>{'0'});
}

}  // namespace
}  // namespace mirrorflow
