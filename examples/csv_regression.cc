// SPDX-License-Identifier: Apache-2.0
//
// Predicts one column of a CSV file from the others with a small network. Shows how to choose
// columns by the file's header, how to normalise with statistics of the training rows, and how to
// stop before the model overfits these rows.
//
//   bazel run --config=opt //examples:csv_regression --
//       FILE TARGET [FEATURES [EPOCHS [REPLICAS]]]
//
// TARGET is the column to predict. FEATURES is a comma-separated list of columns, by default all
// others. They must be numeric; the file may also have other columns. 15 % of the rows decide when
// to stop, and 15 % are the test set. scikit-learn has datasets to try, such as
//
//   sklearn.datasets.load_diabetes(as_frame=True).frame.to_csv("diabetes.csv", index=False)
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "mirrorflow.h"

namespace mf = mirrorflow;

namespace {

struct Options {
  std::string path, target, features;
  int64_t epochs = 500;
  std::optional<int> replicas = std::nullopt;  // on CPUs; by default, one per device
};

// Returns the columns that the options name, as floats. The last one is the target.
absl::StatusOr<std::vector<mf::CsvColumn>> ChooseColumns(const Options& options) {
  std::vector<std::string> names;
  if (options.features.empty()) {
    MF_ASSIGN_OR_RETURN(const mf::CsvTable table, mf::ReadCsv(options.path));
    names = table.names;
    std::erase(names, options.target);
  }
  std::istringstream features(options.features);
  for (std::string name; std::getline(features, name, ',');) names.push_back(name);
  names.push_back(options.target);
  std::vector<mf::CsvColumn> columns;
  for (const auto& name : names) columns.push_back({.name = name, .dtype = mf::DT_FLOAT});
  return columns;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

absl::Status Train(const Options& options) {
  MF_ASSIGN_OR_RETURN(const auto columns, ChooseColumns(options));
  MF_ASSIGN_OR_RETURN(mf::CsvTable table, mf::ReadCsv(options.path, {.columns = columns}));
  const int64_t num_rows = table.num_rows, num_features = table.columns.size() - 1;
  const int64_t num_train = num_rows * 70 / 100, num_stop = num_rows * 15 / 100;
  if (num_stop == 0) return absl::InvalidArgumentError("too few rows; expected at least 7");

  // Draw the parts at random, because files are often sorted.
  std::vector<int64_t> order(num_rows);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  std::vector<float> features(num_rows * num_features), targets(num_rows);
  double target_deviation = 0;
  for (int64_t c = 0; c <= num_features; ++c) {
    std::vector<double> column, squares;
    for (const int64_t row : order) column.push_back(table.columns[c].flat<float>()[row]);
    // The test set must not influence training, not even through the mean.
    const double mean = Mean({column.begin(), column.begin() + num_train});
    for (int64_t i = 0; i < num_train; ++i) squares.push_back(std::pow(column[i] - mean, 2));
    const double deviation = std::max(std::sqrt(Mean(squares)), 1e-9);
    for (int64_t i = 0; i < num_rows; ++i) {
      float& to = c < num_features ? features[i * num_features + c] : targets[i];
      to = static_cast<float>((column[i] - mean) / deviation);
    }
    target_deviation = deviation;
  }
  MF_ASSIGN_OR_RETURN(auto x, mf::Tensor::Create<float>({num_rows, num_features}, features));
  MF_ASSIGN_OR_RETURN(auto y, mf::Tensor::Create<float>({num_rows, 1}, targets));
  const mf::Dataset rows = mf::Dataset::FromTensors({x, y});

  MF_ASSIGN_OR_RETURN(auto strategy,
                      mf::MirroredStrategy::Create({.num_cpu_replicas = options.replicas}));
  mf::Graph graph;
  mf::Scope root(&graph);
  auto mirrored = strategy->scope();
  auto in = mf::ops::Placeholder(root.WithName("features"), mf::DT_FLOAT, {-1, num_features});
  auto target = mf::ops::Placeholder(root.WithName("target"), mf::DT_FLOAT, {-1, 1});
  auto hidden = mf::layers::Dense(root, in, 32, mf::ops::Relu);
  auto predicted = mf::layers::Dense(root, mf::layers::Dense(root, hidden, 32, mf::ops::Relu), 1);
  auto loss = mf::losses::MeanSquaredError(root, predicted, target);
  MF_ASSIGN_OR_RETURN(
      auto trainer,
      mf::Trainer::Create(*strategy, graph,
                          {.inputs = {in, target},
                           .loss = loss,
                           .train = mf::AdamW({.weight_decay = 0.01}).Minimize(root, loss),
                           .predictions = predicted}));
  mf::EarlyStopping stop({.patience = 20, .restore_best_weights = true});
  mf::ProgressBar progress;
  MF_ASSIGN_OR_RETURN(auto result,
                      trainer->Fit(rows.Take(num_train).Shuffle(/*seed=*/1).Batch(32),
                                   {.epochs = options.epochs,
                                    .validation = rows.Skip(num_train).Take(num_stop).Batch(256),
                                    .callbacks = {&progress, &stop}}));
  const mf::Dataset test = mf::Dataset::FromTensors({x}).Skip(num_train + num_stop);
  MF_ASSIGN_OR_RETURN(mf::Tensor answers, trainer->Predict(test.Batch(256)));
  std::vector<double> truth(targets.begin() + num_train + num_stop, targets.end());
  const double mean = Mean(truth);
  std::vector<double> errors, spread;
  for (size_t i = 0; i < truth.size(); ++i) {
    errors.push_back(std::pow(answers.flat<float>()[i] - truth[i], 2));
    spread.push_back(std::pow(truth[i] - mean, 2));
  }
  std::printf("epochs=%d test_rmse=%.4g test_r2=%.4f\n", static_cast<int>(result.history.size()),
              std::sqrt(Mean(errors)) * target_deviation, 1 - Mean(errors) / Mean(spread));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s FILE TARGET [FEATURES [EPOCHS [REPLICAS]]]\n", argv[0]);
    return 2;
  }
  Options options{.path = argv[1], .target = argv[2]};
  if (argc > 3) options.features = argv[3];
  if (argc > 4) options.epochs = std::atoll(argv[4]);
  if (argc > 5) options.replicas = std::atoi(argv[5]);
  const absl::Status status = Train(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
