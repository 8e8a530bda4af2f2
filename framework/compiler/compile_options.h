// SPDX-License-Identifier: Apache-2.0
//
// CompileOptions: options for compiling steps, set on a strategy.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_COMPILE_OPTIONS_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_COMPILE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "framework/core/dtype.h"
#include "framework/runtime/kernel_options.h"

namespace mirrorflow {

class PassObserver;  // framework/compiler/pass.h

struct CompileOptions {
  // The names of optional passes to skip (PassInfo::optional). Compiling a step returns
  // InvalidArgument for an unknown name.
  absl::flat_hash_set<std::string> disabled_passes = {};
  // Trade-offs between accuracy, reproducibility and speed.
  KernelOptions kernels = {};
  // DT_BFLOAT16 or DT_HALF selects mixed precision: float products, convolutions and attention
  // compute in this type, and so do ops that only pass on their results. Variables, losses,
  // reductions over replicas and updates stay in float. With DT_HALF, small gradients underflow to
  // 0 unless MinimizeOptions::loss_scale is set.
  DataType compute_dtype = DT_FLOAT;
  // Limits how many bytes of operands and results a CPU kernel accesses at a time, so that they
  // stay in the cache. Nodes that exceed four times this limit run in micro-batches, unless the
  // step writes a variable. 0 disables micro-batches. The default is roughly a few cores' share of
  // the last-level cache of current servers.
  int64_t microbatch_bytes = 16 << 20;
  // With several threads per CPU replica: the minimum time of each part of a divided node, in
  // nanoseconds, by a rough estimate. A small node is divided into fewer parts than there are
  // threads, or not at all. The default is about ten times what it costs two threads to
  // synchronise.
  int64_t min_part_ns = 2000;
  // For tests: if true, verifies the graph after every pass.
  bool verify = false;
  // For tests: if true, checks that every plan writes each value before it reads it.
  bool check_plan = false;
  // Called before and after every pass; not owned.
  PassObserver* observer = nullptr;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_COMPILE_OPTIONS_H_
