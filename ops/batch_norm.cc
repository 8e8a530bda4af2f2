// SPDX-License-Identifier: Apache-2.0
#include "ops/batch_norm.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/shape_values.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

int RankOf(const Node& node) {
  return static_cast<int>(node.attr<std::string>("data_format").size());
}
int ChannelDim(const Node& node) {
  return node.attr<std::string>("data_format")[1] == 'C' ? 1 : RankOf(node) - 1;
}

// Merges the shapes of inputs [first, last) into `channels`, the shape of a vector with one element
// per channel of x.
absl::Status MergeChannels(const ShapeContext& c, int first, int last, Shape* channels) {
  for (int i = first; i < last; ++i) {
    MF_ASSIGN_OR_RETURN(const Shape vector, c.WithRank(i, 1));
    MF_ASSIGN_OR_RETURN(*channels, MergeShapes(*channels, vector, "input ", i,
                                               " must have one element per channel"));
  }
  return absl::OkStatus();
}

absl::Status BatchNormShape(ShapeContext& c) {
  const int channel_dim = ChannelDim(c.node());
  MF_ASSIGN_OR_RETURN(Shape x, c.WithRank(0, RankOf(c.node())));
  Shape channels({x.dim(channel_dim)});
  const bool reads_statistics =
      !c.attr<bool>("is_training") || c.attr<float>("exponential_avg_factor") != 1;
  MF_RETURN_IF_ERROR(MergeChannels(c, 1, reads_statistics ? 5 : 3, &channels));
  for (int i = 3; i < 5; ++i) MF_RETURN_IF_ERROR(c.WithRank(i, 1).status());
  x.set_dim(channel_dim, channels.dim(0));
  return SetOutputs(c, {x, channels, channels, channels, channels, Shape()});
}

absl::Status BatchNormGradShape(ShapeContext& c) {
  const int channel_dim = ChannelDim(c.node());
  MF_ASSIGN_OR_RETURN(const Shape dy, c.WithRank(0, RankOf(c.node())));
  MF_ASSIGN_OR_RETURN(Shape x, c.WithRank(1, RankOf(c.node())));
  MF_ASSIGN_OR_RETURN(x, MergeShapes(x, dy, "y_backprop must have the shape of x"));
  Shape channels({x.dim(channel_dim)});
  MF_RETURN_IF_ERROR(MergeChannels(c, 2, 5, &channels));
  x.set_dim(channel_dim, channels.dim(0));
  return SetOutputs(c, {x, channels, channels, Shape({0}), Shape({0})});
}

// Returns the images' sharding term, such as `n...`: only the batch dimension can be sharded.
std::string ImagesTerm(const Node& node) {
  return absl::StrCat("n", std::string(RankOf(node) - 1, '.'));
}

absl::StatusOr<bool> IsPerReplica(const Node& node) {
  const auto it = node.attrs().find(ops::kBatchNormAttr);
  if (it == node.attrs().end() || !node.attr<bool>("is_training")) return false;
  if (it->second == AttrValue(ops::kPerReplicaBatchNorm)) return true;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute ", ops::kBatchNormAttr, ": unknown value; expected \"",
                   ops::kPerReplicaBatchNorm, "\", got ", it->second.ToString()));
}

// In inference mode, outputs 1 to 5 do not depend on the rows, so all replicas hold the same
// values. A maximum over the replicas returns them unchanged.
absl::StatusOr<ShardingRule> BatchNormSharding(const ShardContext& c) {
  const std::string x = ImagesTerm(c.node());
  MF_ASSIGN_OR_RETURN(const bool per_replica, IsPerReplica(c.node()));
  if (per_replica) {
    return ShardingRule{.dims = absl::StrCat(x, ",.,.,.,.->", x, ",.,.,~,~,~"),
                        .contracted = Reduction::kMean};
  }
  return ShardingRule{.dims = absl::StrCat(x, ",.,.,.,.->", x, ",.,.,.,.,"),
                      .contracted = Reduction::kMax,
                      .expand = c.node().attr<bool>("is_training")};
}

absl::StatusOr<ShardingRule> BatchNormGradSharding(const ShardContext& c) {
  const std::string x = ImagesTerm(c.node());
  MF_ASSIGN_OR_RETURN(const bool per_replica, IsPerReplica(c.node()));
  if (per_replica) {
    return ShardingRule{.dims = absl::StrCat(x, ",", x, ",.,~,~,~->", x, ",.,.,.,.")};
  }
  return ShardingRule{.dims = absl::StrCat(x, ",", x, ",.,.,.,*->", x, ",.,.,.,."),
                      .linearity = Linearity::kMulti,
                      .linear_inputs = {0},
                      .expand = c.node().attr<bool>("is_training")};
}

// Building blocks of both decompositions. Images have the dtype of the statistics; means and
// variances are vectors with one element per channel. Normalize and its gradient are the two ops in
// inference mode. The statistics are then inputs, so no collective is needed.
class Decomposition {
 public:
  static absl::StatusOr<Decomposition> Create(const Scope& scope, const Node& node, Output images) {
    const Shape& shape = scope.shape(images);
    if (!shape.IsFullyDefined()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "training over several replicas requires images of known shape, got ", shape.ToString()));
    }
    Decomposition d(scope, node, images.dtype());
    const int channel_dim = ChannelDim(node);
    d.against_images_ = shape;
    for (int i = 0; i < shape.rank(); ++i) {
      if (i == channel_dim) continue;
      d.axes_.push_back(i);
      d.count_ *= static_cast<double>(shape.dim(i));
      d.against_images_.set_dim(i, 1);
    }
    return d;
  }

  // Returns the number of elements per channel.
  double count() const { return count_; }
  Output Scalar(double value) const { return ops::ScalarConst(scope_, dtype_, value); }
  Output Times(Output a, Output b) const { return ops::Mul(scope_, a, b); }
  Output Plus(Output a, Output b) const { return ops::AddV2(scope_, a, b); }
  // Returns the mean per channel.
  Output Mean(Output images) const {
    return Times(ops::Sum(scope_, images, axes_), Scalar(1 / std::max(count_, 1.0)));
  }
  Output Variance(Output images, Output mean) const {
    const Output against = ops::Reshape(scope_, mean, against_images_);
    return Mean(ops::SquaredDifference(scope_, images, against));
  }
  Output InverseDeviation(Output variance) const {
    return ops::Rsqrt(scope_, Plus(variance, Scalar(epsilon_)));
  }
  // Returns (images - mean) / sqrt(variance + epsilon) * scale + offset.
  Output Normalize(Output images, Output scale, Output offset, Output mean, Output variance) const {
    return ops::FusedBatchNormV3(
               scope_, images, scale, offset, mean, variance,
               {.epsilon = epsilon_, .data_format = data_format_, .is_training = false})
        .y;
  }
  ops::FusedBatchNormGradV3Outputs NormalizeGrad(Output dy, Output images, Output scale,
                                                 Output mean, Output variance) const {
    return ops::FusedBatchNormGradV3(
        scope_, dy, images, scale, mean, variance, Scalar(0),
        {.epsilon = epsilon_, .data_format = data_format_, .is_training = false});
  }

 private:
  Decomposition(const Scope& scope, const Node& node, DataType dtype)
      : scope_(scope),
        dtype_(dtype),
        data_format_(node.attr<std::string>("data_format")),
        epsilon_(node.attr<float>("epsilon")) {}

  Scope scope_;
  DataType dtype_;
  std::string data_format_;
  float epsilon_;
  std::vector<int64_t> axes_;
  double count_ = 1;
  Shape against_images_;
};

// Expands the op in training mode into ops with sums over all replicas. All values are computed in
// the dtype of the statistics.
absl::StatusOr<std::vector<Output>> ExpandBatchNorm(const Scope& s, const Node& op) {
  const Output x = ops::CastTo(s, op.input(0), op.input(1).dtype());
  MF_ASSIGN_OR_RETURN(const Decomposition d, Decomposition::Create(s, op, x));
  const Output mean = d.Mean(x), variance = d.Variance(x, mean);
  const Output y = d.Normalize(x, op.input(1), op.input(2), mean, variance);
  const double n = d.count(), bessel = n / std::max(n - 1, 1.0);
  const double weight = op.attr<float>("exponential_avg_factor");
  // Returns the moving average after this batch, or NaN if the batch has no rows.
  auto moved = [&](Output before, Output now, double correction) {
    if (n == 0) correction = std::numeric_limits<double>::quiet_NaN();
    if (weight == 1) return d.Times(now, d.Scalar(correction));
    return d.Plus(d.Times(before, d.Scalar(1 - weight)),
                  d.Times(now, d.Scalar(weight * correction)));
  };
  return std::vector<Output>{ops::CastTo(s, y, op.output_dtype(0)),
                             moved(op.input(3), mean, 1),
                             moved(op.input(4), variance, bessel),
                             mean,
                             variance,
                             d.Scalar(0)};
}

// Expands the gradient op: the gradient with the statistics held constant, minus the part that
// flows through the statistics:
//   dx = (dy - sum(dy) / n - (x - mean) * dscale * inverse / n) * scale * inverse
// The subtracted part also has the form of a normalisation.
absl::StatusOr<std::vector<Output>> ExpandBatchNormGrad(const Scope& s, const Node& op) {
  const DataType dtype = op.input(2).dtype();
  const Output dy = ops::CastTo(s, op.input(0), dtype), x = ops::CastTo(s, op.input(1), dtype);
  const Output scale = op.input(2), mean = op.input(3), variance = op.input(4);
  MF_ASSIGN_OR_RETURN(const Decomposition d, Decomposition::Create(s, op, x));
  const auto given = d.NormalizeGrad(dy, x, scale, mean, variance);
  const Output factor =
      d.Times(d.Times(scale, d.InverseDeviation(variance)), d.Scalar(1 / std::max(d.count(), 1.0)));
  const Output through = d.Normalize(x, d.Times(given.scale_backprop, factor),
                                     d.Times(given.offset_backprop, factor), mean, variance);
  const Output dx = ops::Sub(s, given.x_backprop, through);
  MF_ASSIGN_OR_RETURN(Tensor empty, Tensor::Allocate(x.dtype(), Shape({0})));
  const Output nothing = ops::Const(s, std::move(empty));
  return std::vector<Output>{ops::CastTo(s, dx, op.output_dtype(0)), given.scale_backprop,
                             given.offset_backprop, nothing, nothing};
}

absl::StatusOr<std::vector<Output>> BatchNormGradient(const GradContext& c) {
  for (int i = 1; i < 5; ++i) {
    if (!c.dy[i].valid()) continue;
    return absl::UnimplementedError(absl::StrCat("FusedBatchNormV3(", c.op.name(),
                                                 "): gradient of output ", i,
                                                 " is not supported; only y has a gradient"));
  }
  if (!c.dy[0].valid()) return std::vector<Output>(5);
  const bool training = c.op.attr<bool>("is_training");
  const auto grads = ops::FusedBatchNormGradV3(
      c.scope, c.dy[0], c.op.input(0), c.op.input(1), training ? c.op.output(3) : c.op.input(3),
      training ? c.op.output(4) : c.op.input(4), c.op.output(5),
      {.epsilon = c.op.attr<float>("epsilon"),
       .data_format = c.op.attr<std::string>("data_format"),
       .is_training = training,
       .per_replica = c.op.has_attr(ops::kBatchNormAttr)});
  return std::vector<Output>{grads.x_backprop, grads.scale_backprop, grads.offset_backprop,
                             Output(), Output()};
}

OpBuilder& CommonAttrs(OpBuilder& op) {
  return op.Attr("T: {half, bfloat16, float, double}")
      .Attr("U: {float, double}")
      .Attr("epsilon: float = 0.0001")
      .Attr("data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'")
      .Attr("is_training: bool = true");
}

}  // namespace

void RegisterBatchNorm(OpRegistry& ops) {
  CommonAttrs(ops.Define("FusedBatchNormV3")
                  .Doc("y = (x - mean) / sqrt(variance + epsilon) * scale + offset, per channel")
                  .Input("x: T")
                  .Input("scale: U")
                  .Input("offset: U")
                  .Input("mean: U")
                  .Input("variance: U")
                  .Output("y: T")
                  .Output("batch_mean: U")
                  .Output("batch_variance: U")
                  .Output("reserve_space_1: U")
                  .Output("reserve_space_2: U")
                  .Output("reserve_space_3: U"))
      .Attr("exponential_avg_factor: float = 1.0")
      .Traits(kKeepsPrecision)
      .Shape(BatchNormShape)
      .Sharding(BatchNormSharding)
      .Expand(ExpandBatchNorm)
      .Gradient(BatchNormGradient);
  CommonAttrs(ops.Define("FusedBatchNormGradV3")
                  .Doc("the gradients of x, scale and offset of FusedBatchNormV3")
                  .Input("y_backprop: T")
                  .Input("x: T")
                  .Input("scale: U")  // TensorFlow allows only float for U
                  .Input("reserve_space_1: U")
                  .Input("reserve_space_2: U")
                  .Input("reserve_space_3: U")
                  .Output("x_backprop: T")
                  .Output("scale_backprop: U")
                  .Output("offset_backprop: U")
                  .Output("reserve_space_4: U")
                  .Output("reserve_space_5: U"))
      .Traits(kKeepsPrecision)
      .Shape(BatchNormGradShape)
      .Sharding(BatchNormGradSharding)
      .Expand(ExpandBatchNormGrad)
      .NoGradient("second derivatives of batch normalisation are not implemented");
}

namespace ops {

FusedBatchNormV3Outputs FusedBatchNormV3(const Scope& scope, Output x, Output scale, Output offset,
                                         Output mean, Output variance,
                                         const FusedBatchNormV3Options& options) {
  NodeBuilder node = Build(scope, "FusedBatchNormV3", {x, scale, offset, mean, variance})
                         .Attr("epsilon", options.epsilon)
                         .Attr("exponential_avg_factor", options.exponential_avg_factor)
                         .Attr("data_format", options.data_format)
                         .Attr("is_training", options.is_training);
  if (options.per_replica) node.Attr(kBatchNormAttr, kPerReplicaBatchNorm);
  const std::vector<Output> y = OutputsOf(std::move(node).Finish(), 6);
  return {y[0], y[1], y[2], y[3], y[4], y[5]};
}

FusedBatchNormGradV3Outputs FusedBatchNormGradV3(const Scope& scope, Output y_backprop, Output x,
                                                 Output scale, Output reserve_space_1,
                                                 Output reserve_space_2, Output reserve_space_3,
                                                 const FusedBatchNormGradV3Options& options) {
  NodeBuilder node =
      Build(scope, "FusedBatchNormGradV3",
            {y_backprop, x, scale, reserve_space_1, reserve_space_2, reserve_space_3})
          .Attr("epsilon", options.epsilon)
          .Attr("data_format", options.data_format)
          .Attr("is_training", options.is_training);
  if (options.per_replica) node.Attr(kBatchNormAttr, kPerReplicaBatchNorm);
  const std::vector<Output> y = OutputsOf(std::move(node).Finish(), 3);
  return {y[0], y[1], y[2]};
}

}  // namespace ops
}  // namespace mirrorflow
