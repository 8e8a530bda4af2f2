// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_graph.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/core/status.h"
#include "ops/all/ops.h"
#include "tests/support/tensors.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

// A value of the program, and its shape for the program's batch.
struct Value {
  Output output;
  Shape shape;
};

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options, RandomProgram* program)
      : random_(seed), options_(options), program_(*program), scope_(&program->graph) {}

  absl::Status Run() {
    program_.batch = 1 + random_.Below(options_.max_batch);
    AddSources();
    for (int i = 0; i < options_.num_ops; ++i) {
      if (options_.has_layers && Chance(15)) Layer(Value(Pick()));
      MF_RETURN_IF_ERROR(AddOp());
      if (!options_.communicates || !Chance(20)) continue;
      const Value x = Pick();
      if (Chance(50)) {
        // LocalPart has no gradient.
        Keep(ops::StopGradient(scope_, Communicate(scope_, ops::LocalPart(scope_, x.output))),
             x.shape);
        continue;
      }
      // A collective accepts a partial value only if both have the same reduction. The product is
      // either partial(sum) or not partial.
      const Output two = ops::ScalarConst(scope_, DT_DOUBLE, 2);
      const Output twice = Communicate(scope_, ops::Mul(scope_, x.output, two), true);
      Keep(ops::RealDiv(scope_, twice, two), x.shape);
    }
    AddTraining();
    if (Chance(30)) AddAccumulator();
    for (int i = 0; i < 3; ++i) program_.fetches.push_back(Pick().output);
    return program_.graph.status();
  }

 private:
  int64_t Size() { return 1 + random_.Below(4); }
  bool Chance(int percent) { return random_.Below(100) < percent; }
  const Value& Pick() { return pool_[random_.Below(static_cast<int64_t>(pool_.size()))]; }

  void AddFeed(const Shape& declared, Tensor value) {
    const Output feed = ops::Placeholder(scope_.WithName("feed"), value.dtype(), declared);
    program_.feeds.push_back(feed);
    program_.values.push_back(value);
    if (value.dtype() == DT_DOUBLE) {
      pool_.push_back({feed, value.shape()});
    } else {
      indices_ = {feed, value.shape()};
    }
  }

  Value AddVariable(const Shape& shape) {
    const Tensor initial = RandomTensor(DT_DOUBLE, shape, &random_);
    const Variable variable = CreateVariable(
        scope_, "variable", shape,
        [&](const Scope& scope, const Shape&, DataType) { return ops::Const(scope, initial); },
        DT_DOUBLE);
    return {variable.value, shape};
  }

  void AddSources() {
    const int64_t batch = program_.batch, depth = Size();
    AddFeed({kUnknownDim, depth}, RandomTensor(DT_DOUBLE, {batch, depth}, &random_));
    if (Chance(60)) {
      const int64_t rows = Size(), columns = Size();
      AddFeed({kUnknownDim, rows, columns},
              RandomTensor(DT_DOUBLE, {batch, rows, columns}, &random_));
    }
    if (Chance(40)) {
      // A replicated feed.
      AddFeed({depth}, RandomTensor(DT_DOUBLE, {depth}, &random_));
    }
    table_ = AddVariable({5, Size()});
    std::vector<int32_t> indices;
    for (int64_t i = 0; i < batch; ++i) indices.push_back(static_cast<int32_t>(random_.Below(5)));
    AddFeed({kUnknownDim}, Tensor::Vector<int32_t>(indices));
    pool_.push_back(AddVariable({depth}));
    pool_.push_back(AddVariable({}));
    const Tensor constant = RandomTensor(DT_DOUBLE, {batch, 1}, &random_);
    pool_.push_back({ops::Const(scope_, constant), constant.shape()});
  }

  // Returns true if b broadcasts to the shape of a.
  static bool BroadcastsInto(const Shape& b, const Shape& a) {
    const absl::StatusOr<Shape> shape = BroadcastShapes(a, b);
    return shape.ok() && *shape == a;
  }

  Output Vector(const std::vector<int64_t>& values) { return ops::VectorConst(scope_, values); }

  // Keeps the value after a tanh, because products of random numbers would soon overflow.
  void Keep(Output output, const Shape& shape) {
    if (output.valid()) KeepAsItIs(ops::Tanh(scope_, output), shape);
  }

  // Keeps a value that is not larger than its operands. Omits the tanh, so that partial values and
  // views become operands of other ops.
  void KeepAsItIs(Output output, const Shape& shape) {
    if (output.valid() && shape.num_elements() <= 400) pool_.push_back({output, shape});
  }

  absl::Status AddOp() {
    using Maker = void (Generator::*)(const Value&);
    constexpr Maker kMakers[] = {
        &Generator::Unary,     &Generator::Binary, &Generator::Binary, &Generator::Product,
        &Generator::Product,   &Generator::Reduce, &Generator::Reduce, &Generator::Regroup,
        &Generator::Transpose, &Generator::Concat, &Generator::Cut,    &Generator::Lookup,
        &Generator::Softmax,   &Generator::Repeat, &Generator::Choose, &Generator::SumOfMany,
        &Generator::Noise,     &Generator::Stack,  &Generator::Fill,   &Generator::Round,
        &Generator::Same,      &Generator::Same,   &Generator::Branch, &Generator::Loop};
    // Makers that use no variables, and no values except the function's arguments.
    constexpr Maker kMakersInFunctions[] = {
        &Generator::Unary,     &Generator::Binary, &Generator::Binary,    &Generator::Reduce,
        &Generator::Reduce,    &Generator::Cut,    &Generator::Regroup,   &Generator::Same,
        &Generator::Transpose, &Generator::Concat, &Generator::Softmax,   &Generator::Repeat,
        &Generator::Fill,      &Generator::Noise,  &Generator::SumOfMany, &Generator::Stack,
        &Generator::Branch,    &Generator::Loop};
    const absl::Span<const Maker> makers =
        depth_ > 0 ? absl::Span<const Maker>(kMakersInFunctions) : absl::Span<const Maker>(kMakers);
    const Maker maker = makers[random_.Below(static_cast<int64_t>(makers.size()))];
    (this->*maker)(Value(Pick()));
    return scope_.status();
  }

  void Unary(const Value& x) {
    using Builder = Output (*)(const Scope&, Output);
    constexpr Builder kBuilders[] = {ops::Tanh,   ops::Sigmoid, ops::Relu, ops::Neg,
                                     ops::Square, ops::Sin,     ops::Exp};
    Keep(kBuilders[random_.Below(static_cast<int64_t>(std::size(kBuilders)))](scope_, x.output),
         x.shape);
  }

  void Binary(const Value& x) {
    using Builder = Output (*)(const Scope&, Output, Output);
    constexpr Builder kBuilders[] = {ops::AddV2, ops::Sub, ops::Mul, ops::Maximum,
                                     ops::SquaredDifference};
    const Builder builder = kBuilders[random_.Below(static_cast<int64_t>(std::size(kBuilders)))];
    for (int attempt = 0; attempt < 5; ++attempt) {
      const Value y = Pick();
      if (BroadcastsInto(y.shape, x.shape))
        return Keep(builder(scope_, x.output, y.output), x.shape);
      if (BroadcastsInto(x.shape, y.shape))
        return Keep(builder(scope_, x.output, y.output), y.shape);
    }
  }

  void Product(const Value& x) {
    if (x.shape.rank() != 2) return;
    const int64_t n = x.shape.dim(0), k = x.shape.dim(1), m = Size();
    if (Chance(25)) {  // contracts the rows
      Output gram = ops::MatMul(scope_, x.output, x.output, {.transpose_a = true});
      if (k == n) gram = ops::Mul(scope_, gram, x.output);  // needs only a shard of `gram`
      return Keep(gram, {k, k});
    }
    if (Chance(50)) {
      return Keep(ops::MatMul(scope_, x.output, AddVariable({k, m}).output), {n, m});
    }
    Keep(ops::MatMul(scope_, x.output, AddVariable({m, k}).output, {.transpose_b = true}), {n, m});
  }

  void Reduce(const Value& x) {
    std::vector<int64_t> axes;
    Shape shape, kept = x.shape;
    for (int d = 0; d < x.shape.rank(); ++d) {
      if (Chance(50)) {
        axes.push_back(d);
        kept.set_dim(d, 1);
      } else {
        shape.AddDim(x.shape.dim(d));
      }
    }
    const bool keep_dims = Chance(40);
    Output y;
    bool grows = false;
    switch (random_.Below(3)) {
      case 0:
        grows = true;
        y = ops::Sum(scope_, x.output, axes, {.keep_dims = keep_dims});
        break;
      case 1:
        y = ops::Mean(scope_, x.output, axes, {.keep_dims = keep_dims});
        break;
      default:
        y = ops::Max(scope_, x.output, axes, {.keep_dims = keep_dims});
        break;
    }
    if (grows) y = ops::Tanh(scope_, y);
    KeepAsItIs(y, keep_dims ? kept : shape);
  }

  // Merges two adjacent dimensions or splits a dimension.
  void Regroup(const Value& x) {
    if (x.shape.rank() == 0) return;
    const int d = static_cast<int>(random_.Below(x.shape.rank()));
    std::vector<int64_t> dims(x.shape.dims().begin(), x.shape.dims().end());
    if (d + 1 < x.shape.rank() && Chance(50)) {
      dims[d] *= dims[d + 1];
      dims.erase(dims.begin() + d + 1);
    } else {
      int64_t divisor = 1 + random_.Below(3);
      if (dims[d] % divisor != 0) divisor = 1;
      dims.insert(dims.begin() + d, dims[d] / divisor);
      dims[d + 1] = divisor;
    }
    if (dims.size() > 5) return;
    const Shape shape{absl::Span<const int64_t>(dims)};
    KeepAsItIs(ops::Reshape(scope_, x.output, shape), shape);
  }

  void Transpose(const Value& x) {
    std::vector<int64_t> perm;
    for (int d = 0; d < x.shape.rank(); ++d) perm.push_back(d);
    for (int d = x.shape.rank() - 1; d > 0; --d) std::swap(perm[d], perm[random_.Below(d + 1)]);
    Shape shape;
    for (int64_t d : perm) shape.AddDim(x.shape.dim(static_cast<int>(d)));
    if (!perm.empty()) KeepAsItIs(ops::Transpose(scope_, x.output, Vector(perm)), shape);
  }

  void Concat(const Value& x) {
    if (x.shape.rank() == 0) return;
    const int axis = static_cast<int>(random_.Below(x.shape.rank()));
    for (int attempt = 0; attempt < 5; ++attempt) {
      const Value y = Pick();
      Shape a = x.shape, b = y.shape;
      if (b.rank() != a.rank()) continue;
      a.set_dim(axis, x.shape.dim(axis) + y.shape.dim(axis));
      b.set_dim(axis, a.dim(axis));
      if (a != b) continue;
      return Keep(ops::ConcatV2(scope_, {x.output, y.output}, axis), a);
    }
  }

  void Cut(const Value& x) {
    std::vector<int64_t> begin, size;
    Shape shape = x.shape;
    for (int d = 0; d < x.shape.rank(); ++d) {
      const int64_t first = Chance(60) ? 0 : random_.Below(x.shape.dim(d));
      const int64_t rest = x.shape.dim(d) - first;
      size.push_back(Chance(60) ? rest : 1 + random_.Below(rest));
      begin.push_back(first);
      shape.set_dim(d, size.back());
    }
    if (!begin.empty()) {
      Keep(ops::Slice(scope_, x.output, Vector(begin), Vector(size)), shape);
    }
  }

  void Lookup(const Value&) {
    Keep(ops::GatherV2(scope_, table_.output, indices_.output,
                       ops::ScalarConst(scope_, DT_INT32, 0)),
         {indices_.shape.dim(0), table_.shape.dim(1)});
  }

  void Softmax(const Value& x) {
    if (x.shape.rank() == 2) Keep(ops::Softmax(scope_, x.output), x.shape);
  }

  // Repeats a dimension of size 1: to the size of the batch, or to a small size.
  void Repeat(const Value& x) {
    for (int d = 0; d < x.shape.rank(); ++d) {
      if (x.shape.dim(d) != 1) continue;
      Shape shape = x.shape;
      shape.set_dim(d, Chance(50) ? program_.batch : Size());
      if (Chance(50)) {
        std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
        return Keep(ops::BroadcastTo(scope_, x.output, Vector(dims)), shape);
      }
      std::vector<int64_t> multiples(x.shape.rank(), 1);
      multiples[d] = shape.dim(d);
      return Keep(ops::Tile(scope_, x.output, Vector(multiples)), shape);
    }
  }

  // Adds a Select. The predicate depends only on a feed, so it does not depend on the summation
  // order.
  void Choose(const Value&) {
    const Value& feed = pool_[0];
    const Output zero = ops::ScalarConst(scope_, DT_DOUBLE, 0);
    const Output positive = ops::Greater(scope_, feed.output, zero);
    const Value x = Pick();
    if (!BroadcastsInto(x.shape, feed.shape)) return;
    Keep(ops::SelectV2(scope_, positive, x.output, feed.output), feed.shape);
  }

  void SumOfMany(const Value& x) {
    std::vector<Output> terms = {x.output};
    for (int attempt = 0; attempt < 6; ++attempt) {
      const Value& y = Pick();
      if (y.shape == x.shape) terms.push_back(y.output);
    }
    Keep(ops::AddN(scope_, terms), x.shape);
  }

  void Noise(const Value& x) {
    draws_ = true;
    const Output shape = Chance(50) ? ops::Shape(scope_, x.output)
                                    : Vector({x.shape.dims().begin(), x.shape.dims().end()});
    const Output of_session = ops::RandomUniform(scope_, shape, DT_DOUBLE);
    const Output of_seeds = ops::StatelessRandomUniform(scope_, shape, Vector({1, 2}), DT_DOUBLE);
    Keep(ops::AddV2(scope_, x.output, ops::Mul(scope_, of_session, of_seeds)), x.shape);
  }

  void Stack(const Value& x) {
    if (x.shape.rank() > 3) return;
    const Value y = Pick();
    if (y.shape != x.shape) return;
    const int64_t axis = random_.Below(x.shape.rank() + 1);
    std::vector<int64_t> dims(x.shape.dims().begin(), x.shape.dims().end());
    dims.insert(dims.begin() + axis, 2);
    Keep(ops::Pack(scope_, {x.output, y.output}, {.axis = axis}),
         Shape{absl::Span<const int64_t>(dims)});
  }

  void Fill(const Value& x) {
    const Output fill = ops::Fill(scope_, ops::Shape(scope_, x.output),
                                  ops::ScalarConst(scope_, DT_DOUBLE, random_.Uniform(-1, 1)));
    Keep(ops::Mul(scope_, x.output, fill), x.shape);
  }

  void Round(const Value& x) {
    if (x.shape.rank() == 0) return;
    const int64_t axis = random_.Below(x.shape.rank() + 1);
    std::vector<int64_t> dims(x.shape.dims().begin(), x.shape.dims().end());
    dims.insert(dims.begin() + axis, 1);
    if (dims.size() > 5) return;
    KeepAsItIs(ops::ExpandDims(scope_, x.output, axis), Shape{absl::Span<const int64_t>(dims)});
  }

  // Adds an op that the compiler can simplify to x or -x.
  void Same(const Value& x) {
    using Builder = Output (*)(const Scope&, Output x, Output zero, Output one);
    using S = const Scope&;
    constexpr Builder kBuilders[] = {
        [](S s, Output x, Output, Output) { return ops::Identity(s, x); },
        [](S s, Output x, Output, Output) { return ops::StopGradient(s, x); },
        [](S s, Output x, Output, Output) { return ops::Neg(s, x); },
        [](S s, Output x, Output, Output) { return ops::Cast(s, x, DT_DOUBLE); },
        [](S s, Output x, Output, Output) { return ops::Sum(s, x, {}); },
        [](S s, Output x, Output zero, Output) { return ops::AddV2(s, zero, x); },
        [](S s, Output x, Output zero, Output) { return ops::Sub(s, x, zero); },
        [](S s, Output x, Output, Output one) { return ops::Mul(s, x, one); },
        [](S s, Output x, Output, Output one) { return ops::RealDiv(s, x, one); },
    };
    const Output zero = ops::ScalarConst(scope_, DT_DOUBLE, Chance(50) ? 0.0 : -0.0);
    const Output one = ops::ScalarConst(scope_, DT_DOUBLE, 1);
    const Builder builder = kBuilders[random_.Below(static_cast<int64_t>(std::size(kBuilders)))];
    KeepAsItIs(builder(scope_, x.output, zero, one), x.shape);
  }

  // Returns a variable or constant of integers between -2 and 2 in float.
  Output Integers(const Shape& shape) {
    Tensor integers = RandomTensor(DT_FLOAT, shape, &random_);
    for (float& element : integers.flat<float>()) element = std::round(2 * element) + 0.0f;
    if (Chance(30)) return ops::Const(scope_, integers);
    const Variable variable = CreateVariable(
        scope_, "integers", shape,
        [&](const Scope& scope, const Shape&, DataType) { return ops::Const(scope, integers); },
        DT_FLOAT, {.trainable = false});
    if (Chance(10)) {
      program_.targets.push_back(
          ops::AssignSubVariableOp(scope_, variable.handle, ops::OnesLike(scope_, variable.value)));
    }
    return variable.value;
  }

  // Returns one more operation on the channels of y, of which there are `channels`.
  Output ScaleOrShift(Output y, int64_t channels, bool is_image) {
    switch (random_.Below(is_image ? 5 : 4)) {
      case 0:
        return ops::BiasAdd(scope_, y, Integers({channels}));
      case 1:
        return ops::Mul(scope_, y, Integers({channels}));
      case 2:
        return ops::AddV2(scope_, Integers({1, channels}), y);
      case 3:
        return ops::Sub(scope_, y, Integers({channels}));
      default: {
        // The square root of each sum of a variance and epsilon is 1 or 2.
        std::vector<float> variance;
        for (int64_t c = 0; c < channels; ++c) variance.push_back(Chance(50) ? 0.5f : 3.5f);
        const Output scale = Integers({channels}), offset = Integers({channels});
        return ops::FusedBatchNormV3(scope_, y, scale, offset, Integers({channels}),
                                     ops::Const(scope_, Tensor::Vector<float>(variance)),
                                     {.epsilon = 0.5f, .is_training = false})
            .y;
      }
    }
  }

  Output Activate(Output y) {
    switch (random_.Below(6)) {
      case 0:
        return ops::Relu(scope_, y);
      case 1:
        return ops::Relu6(scope_, y);
      case 2:
        return ops::Sigmoid(scope_, y);
      case 3:
        return ops::Tanh(scope_, y);
      case 4:
        return ops::Mul(scope_, y, ops::Sigmoid(scope_, y));
      default:
        return y;
    }
  }

  // Returns a convolution of images that have this shape, and sets `shape` to that of the result.
  Output Convolve(Output images, Shape* shape) {
    const int64_t channels = shape->dim(3), each = 1 + random_.Below(2);
    const bool is_depthwise = Chance(30), is_valid = Chance(60);
    std::vector<int32_t> paddings(8, 0);
    Shape filter;
    for (int d = 1; d <= 2; ++d) {
      const int64_t size = 1 + random_.Below(3);
      filter.AddDim(size);
      if (!is_valid) continue;
      // Pads by at least as much as the window needs.
      const int64_t before = random_.Below(size);
      const int64_t after = std::max(random_.Below(size), size - before - shape->dim(d));
      paddings[2 * d] = static_cast<int32_t>(before);
      paddings[2 * d + 1] = static_cast<int32_t>(after);
      shape->set_dim(d, shape->dim(d) + before + after - size + 1);
    }
    filter.AddDim(channels);
    filter.AddDim(is_depthwise ? each : Size());
    shape->set_dim(3, is_depthwise ? channels * each : filter.dim(3));
    if (is_valid) {
      images = ops::Pad(scope_, images, ops::Const(scope_, Tensor::Of<int32_t>({4, 2}, paddings)));
    }
    const char* const padding = is_valid ? "VALID" : "SAME";
    return is_depthwise
               ? ops::DepthwiseConv2dNative(scope_, images, Integers(filter), {1, 1, 1, 1}, padding)
               : ops::Conv2D(scope_, images, Integers(filter), {1, 1, 1, 1}, padding);
  }

  // Adds a layer in float, for the passes that only fuse floats: a convolution or product, what
  // scales and shifts its channels, and possibly a sum and an activation. Elements are integers
  // until the activation, so that sums are exact.
  void Layer(const Value& x) {
    if (x.shape.rank() < 2 || x.shape.rank() > 4) return;
    const bool is_image = x.shape.rank() > 2 || Chance(50);
    Shape shape = x.shape;
    while (is_image && shape.rank() < 4) shape.AddDim(1);
    const Output four = ops::ScalarConst(scope_, DT_DOUBLE, 4);
    const Output rounded = ops::Round(scope_, ops::Mul(scope_, ops::Tanh(scope_, x.output), four));
    const Shape in = shape;
    const Output input = ops::Reshape(scope_, ops::Cast(scope_, rounded, DT_FLOAT), in);
    Output y;
    if (is_image) {
      y = Convolve(input, &shape);
    } else {
      const int64_t m = Size();
      const bool transpose = Chance(50);
      y = ops::MatMul(scope_, input,
                      Integers(transpose ? Shape({m, in.dim(1)}) : Shape({in.dim(1), m})),
                      {.transpose_b = transpose});
      shape.set_dim(1, m);
    }
    const auto keep = [&] {
      Keep(ops::StopGradient(scope_, ops::Cast(scope_, y, DT_DOUBLE)), shape);
    };
    const int64_t channels = shape.dim(shape.rank() - 1);
    for (int64_t i = random_.Below(4); i > 0; --i) y = ScaleOrShift(y, channels, is_image);
    if (Chance(10)) keep();  // a second use
    if (Chance(40)) {
      Shape of_other = in;
      const Output other = !is_image || Chance(50) ? input : Convolve(input, &of_other);
      if (of_other == shape) y = ops::AddV2(scope_, y, other);
    }
    y = Activate(y);
    for (int64_t i = random_.Below(3); i > 0; --i) y = AddBranch(input, in, y, &shape);
    keep();
  }

  // Concatenates the channels of `y` and of another branch: a convolution, a pooled image or a
  // product. Returns `y` if their numbers of rows or pixels differ.
  Output AddBranch(Output input, const Shape& in, Output y, Shape* shape) {
    Shape of_branch = in;
    Output branch;
    if (in.rank() == 2) {
      of_branch.set_dim(1, Size());
      branch = ops::MatMul(scope_, input, Integers({in.dim(1), of_branch.dim(1)}));
    } else if (Chance(60)) {
      branch = Convolve(input, &of_branch);
    } else if (Chance(50)) {
      branch = ops::MaxPool(scope_, input, {1, 3, 3, 1}, {1, 1, 1, 1}, "SAME");
    } else {
      branch = ops::AvgPool(scope_, input, {1, 2, 2, 1}, {1, 1, 1, 1}, "SAME");
    }
    const int last = shape->rank() - 1;
    const int64_t channels = shape->dim(last) + of_branch.dim(last);
    of_branch.set_dim(last, shape->dim(last));
    if (of_branch != *shape) return y;
    shape->set_dim(last, channels);
    return ops::ConcatV2(scope_, {y, Activate(branch)}, last);
  }

  // Adds a few ops on a function's arguments. Returns the last value that has this shape, or an
  // invalid output.
  Output Inside(const Scope& scope, const std::vector<Value>& args, const Shape& shape) {
    const Scope around = std::exchange(scope_, scope);
    const std::vector<Value> pool = std::exchange(pool_, args);
    ++depth_;
    for (int i = 0; i < 3 && scope_.ok(); ++i) AddOp().IgnoreError();  // the scope keeps the error
    --depth_;
    Output last;
    for (const Value& value : pool_) {
      if (value.shape == shape) last = value.output;
    }
    pool_ = pool;
    scope_ = around;
    return last;
  }

  static constexpr int kMaxDepth = 2;

  // Adds an If on x, another value and possibly a variable. One of the two branches adds to the
  // variable. The predicate compares a maximum, which does not depend on the order of computation.
  void Branch(const Value& x) {
    if (depth_ == kMaxDepth) return;
    const Value y = Pick();
    std::vector<Output> inputs = {x.output, y.output};
    const bool counts = depth_ == 0 && Chance(50);
    if (counts) {
      const Tensor zero = RandomTensor(DT_DOUBLE, {}, &random_);
      inputs.push_back(CreateVariable(scope_, "count", {},
                                      [&](const Scope& s, const Shape&, DataType) {
                                        return ops::Const(s, zero);
                                      },
                                      DT_DOUBLE, {.trainable = false})
                           .handle);
    }
    std::vector<int64_t> axes;
    for (int d = 0; d < x.shape.rank(); ++d) axes.push_back(d);
    const Output limit = ops::ScalarConst(scope_, DT_DOUBLE, random_.Uniform(-0.5, 1));
    const Output predicate = ops::Greater(scope_, ops::Max(scope_, x.output, axes), limit);
    auto function = [&](const Scope& scope, absl::Span<const Output> in, bool adds) {
      Output result = Inside(scope, {{in[0], x.shape}, {in[1], y.shape}}, x.shape);
      if (counts && adds) {
        const Output one = ops::ScalarConst(scope, DT_DOUBLE, 1);
        const Operation add = ops::AssignAddVariableOp(scope, in[2], one);
        const Output sum = ops::ReadVariableOp(scope.WithControlDependencies({add}), in[2]);
        result = ops::AddV2(scope, ops::StopGradient(scope, sum), result);
      }
      return std::vector<Output>{ops::Tanh(scope, result)};
    };
    const bool drew_before = std::exchange(draws_, false);
    const Output result = ops::If(
        scope_, predicate, inputs,
        [&](const Scope& s, absl::Span<const Output> in) { return function(s, in, true); },
        [&](const Scope& s, absl::Span<const Output> in) { return function(s, in, false); })[0];
    // A branch that writes a variable or draws random numbers cannot be rerun for its gradient.
    const bool stops = counts || draws_;
    draws_ |= drew_before;
    Keep(stops ? ops::StopGradient(scope_, result) : result, x.shape);
  }

  // Applies a function to x up to three times, and accumulates a sum that starts at zero.
  void Loop(const Value& x) {
    if (depth_ == kMaxDepth) return;
    const Output times = ops::Const(scope_, Tensor::Scalar<int32_t>(random_.Below(4)));
    const Output zeros = ops::ZerosLike(scope_, x.output);
    const bool multiplies = Chance(50);
    const bool drew_before = std::exchange(draws_, false);
    const std::vector<Output> results = ops::While(
        scope_, {ops::Const(scope_, Tensor::Scalar<int32_t>(0)), times, x.output, zeros},
        [](const Scope& scope, absl::Span<const Output> in) {
          return std::vector<Output>{ops::Less(scope, in[0], in[1])};
        },
        [&](const Scope& scope, absl::Span<const Output> in) {
          const Output one = ops::Const(scope, Tensor::Scalar<int32_t>(1));
          const Output next = Inside(scope, {{in[2], x.shape}, {in[3], x.shape}}, x.shape);
          const Output term = multiplies ? ops::Mul(scope, in[2], in[3]) : in[2];
          return std::vector<Output>{ops::AddV2(scope, in[0], one), in[1], ops::Tanh(scope, next),
                                     ops::AddV2(scope, in[3], term)};
        });
    if (results.size() < 4) return;
    for (const int i : {2, 3}) {
      const bool draws = draws_;
      draws_ = draws || drew_before;
      // For a gradient, the interpreter runs a loop twice, and would draw different random numbers.
      const bool stops = draws || Chance(40);
      Keep(stops ? ops::StopGradient(scope_, results[i]) : results[i], x.shape);
    }
  }

  // Adds a loss of several values, its gradients, and updates of a random kind.
  void AddTraining() {
    if (Chance(20)) return;  // inference only
    std::vector<Output> terms;
    for (int i = 0; i < 2; ++i) {
      const Value& x = i == 0 ? pool_.back() : Pick();
      std::vector<int64_t> axes;
      for (int d = 0; d < x.shape.rank(); ++d) axes.push_back(d);
      const Output square = ops::Square(scope_, x.output);
      terms.push_back(Chance(50) ? ops::Mean(scope_, square, axes)
                                 : ops::Sum(scope_, square, axes));
    }
    // Gives every program a variable to train.
    const Value weight = AddVariable({pool_[0].shape.dim(1), 1});
    const Output product = ops::MatMul(scope_, pool_[0].output, weight.output);
    terms.push_back(ops::Mean(scope_, ops::Square(scope_, product), {0, 1}));
    const Output loss = ops::AddN(scope_, terms);
    program_.fetches.push_back(loss);
    const std::vector<Output> variables = TrainableVariables(program_.graph);
    if (Chance(25)) return AddForeignUpdates(loss, variables);
    const double clip_norm = Chance(30) ? 0.5 : 0;
    GradientReducer reduce;
    if (options_.communicates) reduce = [this](GradientReduction& r) { return Reduce(r); };
    Operation train;
    switch (random_.Below(3)) {
      case 0:
        train = GradientDescent({.learning_rate = 0.1})
                    .Minimize(scope_, loss, {.global_clipnorm = clip_norm, .reduce = reduce});
        break;
      case 1:
        train = Momentum({.learning_rate = 0.1, .momentum = 0.9, .use_nesterov = Chance(50)})
                    .Minimize(scope_, loss, {.global_clipnorm = clip_norm, .reduce = reduce});
        break;
      default:
        train = Adam({.learning_rate = 0.01, .epsilon = 1e-3})
                    .Minimize(scope_, loss, {.global_clipnorm = clip_norm, .reduce = reduce});
    }
    program_.targets.push_back(train);
  }

  // Returns the value after communication that changes only the order of sums.
  Output Communicate(const Scope& s, Output part, bool has_gradient = false) {
    const Output two = ops::ScalarConst(s, DT_DOUBLE, 2);
    switch (random_.Below(has_gradient ? 2 : 3)) {
      case 0:
        return ops::AllReduce(s, part);
      case 1:
        return ops::AllGather(s, ops::ReduceScatter(s, part));
      default:
        part = ops::Mul(s, ops::LocalPart(s, part), two);
        return ops::RealDiv(s, ops::AllReduce(s, part), two);
    }
  }

  // A communication hook, often with state that differs between replicas.
  Output Reduce(GradientReduction& r) {
    const Scope& s = r.scope();
    if (Chance(30)) return Communicate(s, r.gradient());
    Output gradient = r.gradient();
    if (Chance(40)) {  // weight decay must be added to the sum once, not on every replica
      const Output weight = ops::ReadVariableOp(s, r.variable());
      gradient = ops::AddV2(s, gradient, ops::Mul(s, weight, ops::ScalarConst(s, DT_DOUBLE, 0.1)));
    }
    const Variable memory = r.State("memory", r.shape(), initializers::Ones(), DT_DOUBLE,
                                    VariableSynchronization::kOnRead);
    const Output part = ops::LocalPart(s, gradient), before = ops::LocalPart(s, memory.value);
    const Output sum = ops::AddV2(s, part, before);
    r.Update(memory, ops::Mul(s, sum, ops::ScalarConst(s, DT_DOUBLE, 0.25)), before);
    return Communicate(s, sum);
  }

  // Adds assignments instead of an optimizer's ops, with weight decay: gradient + lambda * weight.
  void AddForeignUpdates(Output loss, const std::vector<Output>& variables) {
    for (const GradientAndVariable& gv : Optimizer::ComputeGradients(scope_, loss, variables)) {
      const Output read = ops::ReadVariableOp(scope_, gv.variable);
      const Output decay = ops::Mul(scope_, read, ops::ScalarConst(scope_, DT_DOUBLE, 0.1));
      const Output sum = ops::AddV2(scope_, gv.gradient, decay);
      const Output rate = ops::ScalarConst(scope_, DT_DOUBLE, 0.1);
      program_.targets.push_back(
          ops::AssignSubVariableOp(scope_, gv.variable, ops::Mul(scope_, sum, rate)));
    }
  }

  // Adds a variable that is synchronised on read. The value assigned to it passes through no tanh,
  // so it can be partial.
  void AddAccumulator() {
    const Value& x = Pick();
    const Variable sum = CreateVariable(scope_, "sum", x.shape, initializers::Ones(), DT_DOUBLE,
                                        {.synchronization = VariableSynchronization::kOnRead});
    std::vector<int64_t> rows;
    if (x.shape.rank() > 0) rows.push_back(0);
    const Output total = ops::Sum(scope_, x.output, rows, {.keep_dims = true});
    const Operation add = ops::AssignAddVariableOp(
        scope_, sum.handle, Chance(50) ? x.output : ops::AddV2(scope_, x.output, total));
    program_.targets.push_back(add);
    if (Chance(50)) {
      program_.fetches.push_back(
          ops::ReadVariableOp(scope_.WithControlDependencies({add}), sum.handle));
    }
  }

  Random random_;
  bool draws_ = false;  // whether random numbers were drawn since the last reset
  const RandomGraphOptions options_;
  RandomProgram& program_;
  Scope scope_;
  std::vector<Value> pool_;
  int depth_ = 0;  // of the function that is being built
  Value indices_, table_;
};

}  // namespace

absl::StatusOr<RandomProgram> MakeRandomProgram(uint64_t seed, const RandomGraphOptions& options) {
  RandomProgram program;
  Generator generator(seed, options, &program);
  MF_RETURN_IF_ERROR(generator.Run());
  return program;
}

uint64_t NumRandomPrograms(uint64_t otherwise) {
  const char* text = std::getenv("MIRRORFLOW_RANDOM_PROGRAMS");
  uint64_t programs;
  return text != nullptr && absl::SimpleAtoi(text, &programs) ? programs : otherwise;
}

}  // namespace mirrorflow
