// SPDX-License-Identifier: Apache-2.0
//
// Mirrorflow's public API: build a graph, choose a strategy, run steps. README.md has a complete
// program, and docs/glossary.md defines the terms. Read the headers in this order:
//
//   1. distribute/strategy/strategy.h runs a graph on one or more devices, and leads to
//      framework/session/session.h and step.h, which run its steps;
//   2. framework/graph/scope.h, ops/all/ops.h and framework/core/tensor.h build graphs and values;
//   3. the headers in train: data, layers, losses, optimizers, metrics, and trainer, which combines
//      them; then inference, checkpoints and file formats;
//   4. distribute/strategy/multi_worker_mirrored_strategy.h and run_with_rejoin.h, for several
//      processes.
//
// Functions that can fail return absl::Status or absl::StatusOr. Their comments say "Returns
// InvalidArgument if ..."; those of builders, which record errors in the graph instead, have a line
// `Errors:`. MF_RETURN_IF_ERROR and MF_ASSIGN_OR_RETURN (framework/core/status.h) pass errors on.
//
// Two other headers are public: mirrorflow_extend.h, for user-defined ops, kernels and passes, and
// mirrorflow_debug.h, for inspecting compiled steps. Bazel visibility keeps all other headers
// private.
#ifndef MIRRORFLOW_MIRRORFLOW_H_
#define MIRRORFLOW_MIRRORFLOW_H_

#include "distribute/strategy/multi_worker_mirrored_strategy.h"  // strategies, sessions, steps
#include "distribute/strategy/run_with_rejoin.h"                 // survive lost workers
#include "framework/core/log.h"                                  // where log lines go
#include "framework/core/state_report.h"      // what a process is doing, on a signal
#include "framework/core/tensor.h"            // tensors, dtypes, shapes, status macros
#include "framework/graph/graph_file.h"       // graphs from and to files
#include "framework/graph/scope.h"            // graphs and how to build them
#include "ops/all/ops.h"                      // a builder for each op
#include "train/checkpoint/variables_file.h"  // variables from and to files
#include "train/data/input_pipelines.h"       // pipelines of batches
#include "train/formats/npy.h"                // a tensor from and to a NumPy file
#include "train/formats/npz.h"                // tensors by name from and to a NumPy archive
#include "train/inference.h"                  // the inference form of a model
#include "train/layers/layers.h"              // layers
#include "train/losses/losses.h"              // losses
#include "train/metrics/metrics.h"            // metrics of all batches and of one
#include "train/optimizers/optimizers.h"      // optimizers, learning rates, communication hooks
#include "train/regularizers.h"               // penalties on variables
#include "train/safetensors/safetensors.h"    // named tensors from and to a safetensors file
#include "train/trainer/training.h"           // training, evaluation, prediction and callbacks

#endif  // MIRRORFLOW_MIRRORFLOW_H_
