// SPDX-License-Identifier: Apache-2.0
//
// The public API: build a graph, choose a strategy, run steps. Two more headers are public:
// mirrorflow_extend.h for user-defined ops, kernels and passes, and mirrorflow_debug.h for the
// results of compilation. All other headers are private by visibility.
#ifndef MIRRORFLOW_MIRRORFLOW_H_
#define MIRRORFLOW_MIRRORFLOW_H_

#include "distribute/strategy/multi_worker_mirrored_strategy.h"  // strategies, sessions, steps
#include "framework/core/tensor.h"            // tensors, dtypes, shapes, status macros
#include "framework/graph/graph_file.h"       // graphs from and to files
#include "framework/graph/scope.h"            // graphs and how to build them
#include "ops/ops.h"                          // a builder for each op
#include "train/checkpoint/variables_file.h"  // variables from and to files
#include "train/dataset.h"                    // pipelines of batches
#include "train/fashion_mnist.h"              // a dataset of images
#include "train/layers.h"                     // layers, losses, metrics, inference
#include "train/loop.h"                       // a training loop with progress and checkpoints
#include "train/npy.h"                        // a tensor from and to a NumPy file
#include "train/npz.h"                        // named tensors from and to a NumPy file
#include "train/optimizer.h"                  // optimizers and learning-rate schedules
#include "train/safetensors/safetensors.h"    // named tensors from and to a safetensors file
#include "train/transformer_layers.h"         // embeddings, attention, layer normalisation

#endif  // MIRRORFLOW_MIRRORFLOW_H_
