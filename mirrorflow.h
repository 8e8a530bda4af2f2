// SPDX-License-Identifier: Apache-2.0
//
// The public API: define a graph, put it under a strategy, run it. Everything else is private by
// visibility.
#ifndef MIRRORFLOW_MIRRORFLOW_H_
#define MIRRORFLOW_MIRRORFLOW_H_

#include "distribute/replicated_graph.h"   // a step with its replicas written out
#include "distribute/strategy/strategy.h"  // strategies, sessions, steps
#include "framework/core/tensor.h"         // tensors, dtypes, shapes, status macros
#include "framework/graph/graph_file.h"    // graphs from and to files
#include "framework/graph/scope.h"         // graphs and how to build them
#include "ops/ops.h"                       // one builder for each op
#include "train/checkpoint.h"              // variables from and to files
#include "train/dataset.h"                 // where batches come from
#include "train/fashion_mnist.h"           //
#include "train/inference.h"               // a trained model as it is used
#include "train/layers.h"                  // layers, losses, metrics
#include "train/learning_rate.h"           // schedules
#include "train/loop.h"                    // a loop that shows its progress
#include "train/npy.h"                     // tensors from and to files
#include "train/npz.h"                     // named tensors from and to files
#include "train/optimizer.h"               // what makes a graph learn
#include "train/safetensors.h"             // named tensors from and to files
#include "train/transformer_layers.h"      // embeddings, attention, normalisation of rows

#endif  // MIRRORFLOW_MIRRORFLOW_H_
