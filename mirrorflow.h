// SPDX-License-Identifier: Apache-2.0
//
// Mirrorflow's public API: build a graph, choose a strategy, run steps. Two other headers are
// public: mirrorflow_extend.h, for user-defined ops, kernels and passes, and mirrorflow_debug.h,
// for inspecting compiled steps. Bazel visibility keeps all other headers private.
//
// To read the headers in order, start with framework/graph/scope.h (graphs), then ops/ops.h and
// train/ (what a graph can contain), distribute/strategy/strategy.h (devices) and
// framework/session/session.h (steps and variables). docs/glossary.md defines the terms.
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
