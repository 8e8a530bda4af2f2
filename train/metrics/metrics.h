// SPDX-License-Identifier: Apache-2.0
//
// Metrics. Most metrics cover all batches since the start or the last reset:
//
//   const metrics::Metric accuracy = metrics::SparseCategoricalAccuracy(root, logits, labels);
//   auto test = session->Prepare({images, labels}, {}, {accuracy.update});   // for each batch
//   auto result = session->Prepare({}, {accuracy.result}, {});               // after the last one
//   auto reset = session->Prepare({}, {}, {accuracy.reset});                 // before a new pass
//
// To use a loss as a metric, compute it with LossReduction::kNone and pass it to metrics::Mean.
// metrics::Accuracy, which returns an Output, is the accuracy of a single batch.
#ifndef MIRRORFLOW_TRAIN_METRICS_METRICS_H_
#define MIRRORFLOW_TRAIN_METRICS_METRICS_H_

#include "train/metrics/accuracy.h"          // accuracies, top-k accuracies
#include "train/metrics/auc.h"               // area under the ROC or PR curve
#include "train/metrics/confusion_matrix.h"  // confusion matrix, mean IoU
#include "train/metrics/mean.h"              // mean, sum, perplexity
#include "train/metrics/precision_recall.h"  // precision, recall, F1, F-beta
#include "train/metrics/regression.h"        // regression errors

#endif  // MIRRORFLOW_TRAIN_METRICS_METRICS_H_
