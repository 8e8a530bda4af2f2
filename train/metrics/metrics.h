// SPDX-License-Identifier: Apache-2.0
//
// Metrics. Most metrics cover all batches since the start or the last reset. Trainer runs those in
// Model::metrics. In a custom loop, prepare one step for each of their operations:
//
//   const metrics::Metric accuracy = metrics::SparseCategoricalAccuracy(root, logits, labels);
//   …
//   MF_ASSIGN_OR_RETURN(Step count, session->Prepare({images, labels}, {}, {accuracy.update}));
//   MF_ASSIGN_OR_RETURN(Step result, session->Prepare({}, {accuracy.result}));
//   MF_ASSIGN_OR_RETURN(Step reset, session->Prepare({}, {}, {accuracy.reset}));
//   MF_RETURN_IF_ERROR(reset.Run({}).status());          // before the first batch
//   MF_RETURN_IF_ERROR(count.Run(batch).status());       // for each batch
//   MF_ASSIGN_OR_RETURN(auto values, result.Run({}));    // after the last batch
//   const float value = values[0].scalar<float>();
//
// To use a loss as a metric, compute it with LossReduction::kNone and pass it to metrics::Mean.
// metrics::Accuracy is different: it returns an Output, the accuracy of a single batch.
#ifndef MIRRORFLOW_TRAIN_METRICS_METRICS_H_
#define MIRRORFLOW_TRAIN_METRICS_METRICS_H_

#include "train/metrics/accuracy.h"          // accuracies, top-k accuracies
#include "train/metrics/auc.h"               // area under the ROC or PR curve
#include "train/metrics/confusion_matrix.h"  // confusion matrix, mean IoU
#include "train/metrics/mean.h"              // mean, sum, perplexity
#include "train/metrics/precision_recall.h"  // precision, recall, F1, F-beta
#include "train/metrics/regression.h"        // regression errors

#endif  // MIRRORFLOW_TRAIN_METRICS_METRICS_H_
