// SPDX-License-Identifier: Apache-2.0
//
// Trains a small GPT (Radford et al., 2019) on the characters of a text, and generates text. Shows
// embeddings, causal attention, an output layer that shares its weights with the embedding, and how
// to run a model on the program's own inputs after training.
//
//   bazel run --config=opt //examples:char_gpt -- [FILE [STEPS [REPLICAS]]]
//
// By default, it trains for 500 steps on this project's licence, with one replica per device. The
// perplexity is measured on a tenth of the text, which is held out from training.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "mirrorflow.h"

namespace mf = mirrorflow;

namespace {

struct Options {
  std::string path = "LICENSE";
  int64_t steps = 500;
  std::optional<int> replicas = std::nullopt;  // on CPUs; by default, one per device
};
constexpr int64_t kContext = 64, kWidth = 64, kHeads = 4, kBlocks = 2, kBatch = 32;

struct Text {
  std::string alphabet;  // the distinct characters; a token is an index into it
  std::vector<int32_t> tokens;
};

absl::StatusOr<Text> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file || bytes.size() < 20 * kContext) {
    return absl::InvalidArgumentError(path +
                                      ": no such file, or too short; expected at least 1280 bytes");
  }
  const std::set<char> characters(bytes.begin(), bytes.end());
  Text text{.alphabet = {characters.begin(), characters.end()}};
  for (const char c : bytes) text.tokens.push_back(static_cast<int32_t>(text.alphabet.find(c)));
  return text;
}

// Returns rows of kContext tokens that start at `starts`, each with its target: the row shifted by
// one token.
mf::Dataset Windows(const Text& text, std::vector<int64_t> starts) {
  const auto read = [&text, starts](int64_t i, mf::Row* row) -> absl::Status {
    const auto window = absl::MakeConstSpan(text.tokens).subspan(starts[i], kContext + 1);
    *row = {mf::Tensor::Vector(window.first(kContext)), mf::Tensor::Vector(window.last(kContext))};
    return absl::OkStatus();
  };
  return mf::Dataset::FromRandomAccess(static_cast<int64_t>(starts.size()), read);
}

mf::Output Block(const mf::Scope& scope, mf::Output x) {
  const mf::Output normal = mf::layers::LayerNormalization(scope, x);
  x = x + mf::layers::MultiHeadAttention(scope, normal, normal, kHeads, kWidth / kHeads,
                                         {.dropout = 0.1, .mask = {.causal = true}});
  mf::Output wide =
      mf::layers::Dense(scope, mf::layers::LayerNormalization(scope, x), 4 * kWidth, mf::ops::Gelu);
  return x + mf::layers::Dropout(scope, mf::layers::Dense(scope, wide, kWidth), 0.1);
}

mf::Output Logits(const mf::Scope& root, const mf::Output& tokens, int64_t alphabet) {
  const auto normal = mf::initializers::RandomNormal(0.02);
  auto embedding = mf::CreateVariable(root, "embedding", {alphabet, kWidth}, normal);
  auto positions = mf::CreateVariable(root, "positions", {kContext, kWidth}, normal);
  mf::Output x = mf::layers::Embedding(root, tokens, embedding) + positions.value;
  for (int64_t i = 0; i < kBlocks; ++i) x = Block(root.SubScope("block"), x);
  x = mf::layers::LayerNormalization(root, x);
  return mf::ops::BatchMatMulV2(root, x, embedding.value, {.adj_y = true});
}

// Samples one character after another from what `step` predicts for the text so far.
absl::StatusOr<std::string> Write(mf::Step& step, const std::string& alphabet, int64_t length) {
  std::mt19937 random(1);
  std::vector<int32_t> tokens = {0};
  while (static_cast<int64_t>(tokens.size()) <= length) {
    // Every step has the same shape. Attention is causal, so the padding after the text has no
    // effect.
    std::vector<int32_t> window(tokens.end() - std::min<int64_t>(tokens.size(), kContext),
                                tokens.end());
    const int64_t last = static_cast<int64_t>(window.size()) - 1;
    window.resize(kContext);
    MF_ASSIGN_OR_RETURN(auto out, step.Run({mf::Tensor::Of<int32_t>({1, kContext}, window)}));
    const auto weights = out[0].flat<float>().subspan(last * alphabet.size(), alphabet.size());
    std::discrete_distribution<int32_t> next(weights.begin(), weights.end());
    tokens.push_back(next(random));
  }
  std::string text;
  for (const int32_t token : tokens) text += alphabet[token];
  return text;
}

absl::Status Train(const Options& options) {
  MF_ASSIGN_OR_RETURN(const Text text, ReadText(options.path));
  MF_ASSIGN_OR_RETURN(auto strategy,
                      mf::MirroredStrategy::Create({.num_cpu_replicas = options.replicas}));
  mf::Graph graph;
  mf::Scope root(&graph);
  auto mirrored = strategy->scope();
  auto tokens = mf::ops::Placeholder(root.WithName("tokens"), mf::DT_INT32, {-1, kContext});
  auto next = mf::ops::Placeholder(root.WithName("next"), mf::DT_INT32, {-1, kContext});
  auto logits = Logits(root, tokens, static_cast<int64_t>(text.alphabet.size()));
  auto loss = mf::losses::SparseSoftmaxCrossEntropy(root, logits, next);
  const mf::Adam adam({.learning_rate = mf::schedules::OneCycle(
                           {.max_learning_rate = 0.005, .total_steps = options.steps})});
  const mf::Model model = {
      .inputs = {tokens, next},
      .loss = loss,
      .train = adam.Minimize(root, loss, {.global_clipnorm = 1}),
      .metrics = {{"perplexity", mf::metrics::Perplexity(root, logits, next)}}};
  // A temperature below 1 favours likely characters.
  auto probabilities = mf::ForInference(root, mf::ops::Softmax(root, logits / 0.7));
  MF_ASSIGN_OR_RETURN(auto trainer, mf::Trainer::Create(*strategy, graph, model));
  MF_ASSIGN_OR_RETURN(mf::Step predict, trainer->session().Prepare({tokens}, {probabilities}));

  // Train on nine of every ten pieces of the text, and test on the tenth.
  std::vector<int64_t> of_training, of_test;
  for (int64_t i = 0; i + kContext < static_cast<int64_t>(text.tokens.size()); ++i) {
    const int64_t offset = i % (10 * (kContext + 1));
    if (offset <= 8 * (kContext + 1)) of_training.push_back(i);
    if (offset == 9 * (kContext + 1)) of_test.push_back(i);
  }
  const mf::Dataset batches = Windows(text, of_training).Shuffle(/*seed=*/1).Batch(kBatch);
  mf::ProgressBar progress;
  const mf::FitOptions fit = {.steps = options.steps, .callbacks = {&progress}};
  MF_RETURN_IF_ERROR(trainer->Fit(batches, fit).status());
  MF_ASSIGN_OR_RETURN(mf::Logs logs, trainer->Evaluate(Windows(text, of_test).Batch(kBatch)));
  MF_ASSIGN_OR_RETURN(std::string written, Write(predict, text.alphabet, /*length=*/300));
  std::printf("%s\nperplexity=%.2f\n", written.c_str(), logs["perplexity"]);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc > 1) options.path = argv[1];
  if (argc > 2) options.steps = std::atoll(argv[2]);
  if (argc > 3) options.replicas = std::atoi(argv[3]);
  const absl::Status status = Train(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
