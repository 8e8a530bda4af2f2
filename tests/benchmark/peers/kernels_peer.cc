// SPDX-License-Identifier: Apache-2.0
//
// Measures one core without a framework; peer.py describes the protocol.
//   kernels_peer peak FLOPS               FLOPS multiplications and additions in registers
//   kernels_peer onednn_matmul M N K      one product of plain row-major operands
//   kernels_peer onednn_conv N HW IN OUT  a 3x3 convolution, padding SAME, and both its gradients;
//                                         NHWC images, filters in the layout that oneDNN prefers
//   kernels_peer eigen_conv N HW IN OUT   the same, computed as matrix products of patches
//   kernels_peer onednn_packed_matmul M N K
//       one product of a plain operand and one in the layout that oneDNN prefers
//   kernels_peer onednn_inference_conv N HW IN OUT WINDOW STRIDE
//       a convolution, padding SAME, with NHWC images; depthwise if OUT is 0
// `loss` is the sum of the squares of all results.
#include <sched.h>

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dnnl.hpp"

extern "C" void omp_set_num_threads(int);  // in oneDNN's OpenMP runtime

namespace {

using Dims = std::vector<long>;
using Floats = std::vector<float>;
using dnnl::memory;

struct Work {
  std::function<void()> step;
  std::function<std::vector<Floats>()> results;
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the same numbers as Numbers() in tools/bench/kernels.cc.
Floats Numbers(long count, long seed) {
  Floats numbers(count);
  for (long i = 0; i < count; ++i) {
    numbers[i] = static_cast<float>((i * 37 + seed) % 101) / 101 - 0.5f;
  }
  return numbers;
}

Work Peak(const Dims& d) {
#ifdef __AVX512F__
  using Vector = float __attribute__((vector_size(64)));
#else
  using Vector = float __attribute__((vector_size(32)));
#endif
  constexpr long kChains = 12;  // enough to hide the latency of multiply-adds on two units
  const long turns = d[0] / static_cast<long>(kChains * 2 * sizeof(Vector) / sizeof(float));
  auto sums = std::make_shared<Floats>();
  auto step = [turns, sums] {
    Vector chain[kChains];
    // The values differ and are unknown to the compiler, which would merge equal chains.
    volatile float first = 1;
    for (Vector& v : chain) v = Vector{} + (first = first * 1.1f);
    const Vector factor = Vector{} + 0.999f, summand = Vector{} + 0.001f;
    for (long t = 0; t < turns; ++t) {
      for (Vector& v : chain) v = v * factor + summand;
    }
    sums->clear();
    for (const Vector& v : chain) {
      for (size_t i = 0; i < sizeof(Vector) / sizeof(float); ++i) sums->push_back(v[i]);
    }
  };
  return {step, [sums] { return std::vector<Floats>{*sums}; }};
}

class OneDnn {
 public:
  memory Make(const memory::desc& desc) { return memory(desc, engine); }
  memory From(const memory::desc& plain, const Floats& values, const memory::desc& wanted) {
    memory source(plain, engine, const_cast<float*>(values.data()));
    memory result(wanted, engine);
    dnnl::reorder(source, result).execute(stream, source, result);
    stream.wait();
    return result;
  }
  Floats To(const memory::desc& plain, memory source) {
    Floats values(plain.get_size() / sizeof(float));
    memory result(plain, engine, values.data());
    dnnl::reorder(source, result).execute(stream, source, result);
    stream.wait();
    return values;
  }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

memory::desc Desc(const memory::dims& dims, memory::format_tag tag) {
  return memory::desc(dims, memory::data_type::f32, tag);
}

// The layout of the right operand is `layout`.
Work OneDnnProduct(const Dims& d, memory::format_tag layout) {
  auto dnn = std::make_shared<OneDnn>();
  const auto a = Desc({d[0], d[2]}, memory::format_tag::ab);
  const auto plain = Desc({d[2], d[1]}, memory::format_tag::ab);
  const auto b = Desc({d[2], d[1]}, layout);
  const auto c = Desc({d[0], d[1]}, memory::format_tag::ab);
  const dnnl::matmul::primitive_desc chosen(dnnl::matmul::desc(a, b, c), dnn->engine);
  const dnnl::matmul product(chosen);
  const memory result = dnn->Make(c);
  const std::unordered_map<int, memory> args = {
      {DNNL_ARG_SRC, dnn->From(a, Numbers(d[0] * d[2], 1), a)},
      {DNNL_ARG_WEIGHTS, dnn->From(plain, Numbers(d[2] * d[1], 2), chosen.weights_desc())},
      {DNNL_ARG_DST, result}};
  return {[=] { product.execute(dnn->stream, args); },
          [=] { return std::vector<Floats>{dnn->To(c, result)}; }};
}
Work OneDnnMatMul(const Dims& d) { return OneDnnProduct(d, memory::format_tag::ab); }
Work OneDnnPackedMatMul(const Dims& d) { return OneDnnProduct(d, memory::format_tag::any); }

Work OneDnnInferenceConv(const Dims& d) {
  const long n = d[0], hw = d[1], in = d[2], window = d[4], stride = d[5];
  const bool depthwise = d[3] == 0;
  const long out = depthwise ? in : d[3], rows = (hw + stride - 1) / stride;
  const long padding = std::max((rows - 1) * stride + window - hw, 0L);
  auto dnn = std::make_shared<OneDnn>();
  const auto x = Desc({n, in, hw, hw}, memory::format_tag::nhwc);
  const auto y = Desc({n, out, rows, rows}, memory::format_tag::nhwc);
  const memory::dims filter =
      depthwise ? memory::dims{in, 1, 1, window, window} : memory::dims{out, in, window, window};
  const auto plain = Desc(filter, depthwise ? memory::format_tag::hwigo : memory::format_tag::hwio);
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_inference,
       dnnl::algorithm::convolution_direct,
       x,
       Desc(filter, memory::format_tag::any),
       y,
       {stride, stride},
       {padding / 2, padding / 2},
       {padding - padding / 2, padding - padding / 2}},
      dnn->engine);
  const dnnl::convolution_forward convolution(forward);
  const memory result = dnn->Make(y);
  const Floats weights = Numbers(plain.get_size() / sizeof(float), 2);
  const std::unordered_map<int, memory> args = {
      {DNNL_ARG_SRC, dnn->From(x, Numbers(n * hw * hw * in, 1), x)},
      {DNNL_ARG_WEIGHTS, dnn->From(plain, weights, forward.weights_desc())},
      {DNNL_ARG_DST, result}};
  return {[=] { convolution.execute(dnn->stream, args); },
          [=] { return std::vector<Floats>{dnn->To(y, result)}; }};
}

Work OneDnnConv(const Dims& d) {
  const long n = d[0], hw = d[1], in = d[2], out = d[3];
  auto dnn = std::make_shared<OneDnn>();
  const auto x = Desc({n, in, hw, hw}, memory::format_tag::nhwc);
  const auto y = Desc({n, out, hw, hw}, memory::format_tag::nhwc);
  const auto plain = Desc({out, in, 3, 3}, memory::format_tag::hwio);
  const auto any = Desc({out, in, 3, 3}, memory::format_tag::any);
  const memory::dims one = {1, 1};
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kAlgorithm, x, any, y, one, one, one}, dnn->engine);
  const dnnl::convolution_backward_data::primitive_desc data({kAlgorithm, x, any, y, one, one, one},
                                                             dnn->engine, forward);
  const dnnl::convolution_backward_weights::primitive_desc weights(
      {kAlgorithm, x, any, y, one, one, one}, dnn->engine, forward);
  const memory images = dnn->From(x, Numbers(n * hw * hw * in, 1), x);
  const memory dy = dnn->From(y, Numbers(n * hw * hw * out, 3), y);
  const Floats filter = Numbers(9 * in * out, 2);
  const memory result = dnn->Make(y), dx = dnn->Make(x),
               dw = dnn->Make(weights.diff_weights_desc());
  using Args = std::unordered_map<int, memory>;
  const Args forward_args = {{DNNL_ARG_SRC, images},
                             {DNNL_ARG_WEIGHTS, dnn->From(plain, filter, forward.weights_desc())},
                             {DNNL_ARG_DST, result}};
  const Args data_args = {{DNNL_ARG_DIFF_DST, dy},
                          {DNNL_ARG_WEIGHTS, dnn->From(plain, filter, data.weights_desc())},
                          {DNNL_ARG_DIFF_SRC, dx}};
  const Args weights_args = {
      {DNNL_ARG_SRC, images}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, dw}};
  const dnnl::convolution_forward run_forward(forward);
  const dnnl::convolution_backward_data run_data(data);
  const dnnl::convolution_backward_weights run_weights(weights);
  return {[=] {
            run_forward.execute(dnn->stream, forward_args);
            run_data.execute(dnn->stream, data_args);
            run_weights.execute(dnn->stream, weights_args);
          },
          [=] {
            return std::vector<Floats>{dnn->To(y, result), dnn->To(x, dx), dnn->To(plain, dw)};
          }};
}

// Processes one image at a time, so its patches are still cached when they are multiplied.
struct EigenConv {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Map = Eigen::Map<Matrix>;
  long n, hw, in, out;
  Floats x, w, dy, y, dx, dw;
  Matrix patches;

  explicit EigenConv(const Dims& d)
      : n(d[0]),
        hw(d[1]),
        in(d[2]),
        out(d[3]),
        x(Numbers(n * hw * hw * in, 1)),
        w(Numbers(9 * in * out, 2)),
        dy(Numbers(n * hw * hw * out, 3)),
        y(dy.size()),
        dx(x.size()),
        dw(w.size()),
        patches(hw * hw, 9 * in) {}

  // Calls f(row of patches, column of the first channel, position in the image or -1 outside it).
  template <typename F>
  void ForEachTap(const F& f) const {
    for (long p = 0; p < hw * hw; ++p) {
      for (long tap = 0; tap < 9; ++tap) {
        const long i = p / hw + tap / 3 - 1, j = p % hw + tap % 3 - 1;
        f(p, tap * in, i < 0 || j < 0 || i >= hw || j >= hw ? -1 : (i * hw + j) * in);
      }
    }
  }
  void ToPatches(const float* image) {
    ForEachTap([&](long row, long column, long at) {
      float* to = &patches(row, column);
      if (at < 0) {
        std::fill(to, to + in, 0.0f);
      } else {
        std::copy(image + at, image + at + in, to);
      }
    });
  }
  void AddPatches(float* image) {
    ForEachTap([&](long row, long column, long at) {
      if (at < 0) return;
      const float* from = &patches(row, column);
      for (long c = 0; c < in; ++c) image[at + c] += from[c];
    });
  }
  void Step() {
    const Map filter(w.data(), 9 * in, out);
    Map filter_gradient(dw.data(), 9 * in, out);
    filter_gradient.setZero();
    std::fill(dx.begin(), dx.end(), 0.0f);
    for (long b = 0; b < n; ++b) {
      const long image = b * hw * hw * in, result = b * hw * hw * out;
      const Map gradient(dy.data() + result, hw * hw, out);
      ToPatches(x.data() + image);
      Map(y.data() + result, hw * hw, out).noalias() = patches * filter;
      filter_gradient.noalias() += patches.transpose() * gradient;
      patches.noalias() = gradient * filter.transpose();
      AddPatches(dx.data() + image);
    }
  }
};

Work EigenConvolution(const Dims& d) {
  auto conv = std::make_shared<EigenConv>(d);
  return {[conv] { conv->Step(); },
          [conv] {
            return std::vector<Floats>{conv->y, conv->dx, conv->dw};
          }};
}

}  // namespace

int main(int argc, char** argv) {
  const struct {
    const char* name;
    Work (*make)(const Dims&);
    size_t dims;
  } kinds[] = {{"peak", Peak, 1},
               {"onednn_matmul", OneDnnMatMul, 3},
               {"onednn_packed_matmul", OneDnnPackedMatMul, 3},
               {"onednn_conv", OneDnnConv, 4},
               {"onednn_inference_conv", OneDnnInferenceConv, 6},
               {"eigen_conv", EigenConvolution, 4}};
  Dims dims;
  for (int i = 2; i < argc; ++i) dims.push_back(std::strtol(argv[i], nullptr, 10));
  const auto* kind = std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& k) {
    return argc > 1 && std::string(argv[1]) == k.name && dims.size() == k.dims;
  });
  if (kind == std::end(kinds)) {
    std::fprintf(stderr, "usage: kernels_peer KIND DIMENSION...; see kernels_peer.cc\n");
    return 2;
  }
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(0, &core);
  sched_setaffinity(0, sizeof(core), &core);
  omp_set_num_threads(1);

  const Work work = kind->make(dims);
  work.step();
  double loss = 0;
  for (const Floats& result : work.results()) {
    for (const float x : result) loss += static_cast<double>(x) * x;
  }
  auto time = [&](long steps) {
    const double began = Seconds();
    for (long i = 0; i < steps; ++i) work.step();
    return Seconds() - began;
  };
  long steps = 1;
  double seconds = 0;
  while ((seconds = time(steps)) < 0.05) steps *= 2;
  const double step_seconds = seconds / static_cast<double>(steps);
  const dnnl_version_t* version = dnnl_version();
  std::printf("version %d.%d.%d\nloss %.9g\nready\n", version->major, version->minor,
              version->patch, loss);
  std::fflush(stdout);
  double wanted = 0;
  while (std::scanf(" run %lf", &wanted) == 1) {
    steps = std::max(1L, static_cast<long>(wanted / step_seconds));
    seconds = time(steps);
    std::printf("ran %ld %.9f\n", steps, seconds);
    std::fflush(stdout);
  }
}
