// SPDX-License-Identifier: Apache-2.0
//
// A fake of cuDNN's backend API that a test links in its place. It computes convolutions and
// attention by definition, in order with other enqueued work. It rejects descriptors that the real
// library rejects, and also misuse that makes the real library compute wrong results or crash:
// attributes that were never set, operands with less alignment than their descriptors specify, a
// workspace that is too small, and a plan that two handles execute.
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/fake_cudnn_attributes.h"
#include "tests/fakes/cuda/fake_cudnn_graph.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using mirrorflow::FakeCudnnAttribute;
using mirrorflow::FakeCudnnAttributes;
using mirrorflow::FakeCudnnGraph;
using mirrorflow::FakeCudnnTensor;
using Descriptor = mirrorflow::FakeCudnnDescriptor;

using namespace mirrorflow::fake_cudnn;

thread_local std::string last_error;

cudnnStatus_t Reject(cudnnStatus_t status, std::string reason) {
  last_error = std::move(reason);
  return status;
}
cudnnStatus_t Reject(std::string reason) {
  return Reject(CUDNN_STATUS_BAD_PARAM, std::move(reason));
}

// The engines. Only kTensorCore and kPlain can be executed; kTensorCore rounds floats.
enum Engine {
  kNondeterministic,
  kHungry,       // its workspace exceeds any limit
  kUnsupported,  // has no plan
  kDownConverts,
  kReducesPrecision,
  kTensorCore,
  kPlain,
  kFailing,  // fails only when it is executed
};

std::vector<cudnnBackendNumericalNote_t> NotesOf(int engine) {
  switch (engine) {
    case kNondeterministic:
      return {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    case kDownConverts:
      return {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
    case kReducesPrecision:
      return {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION};
    case kTensorCore:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    default:
      return {};
  }
}

constexpr int64_t kWorkspace = 768;

int64_t WorkspaceOf(int engine) { return engine == kHungry ? int64_t{1} << 40 : kWorkspace; }

Descriptor* Of(cudnnBackendDescriptor_t descriptor) { return static_cast<Descriptor*>(descriptor); }

size_t SizeOf(cudnnDataType_t type) {
  if (type == CUDNN_DATA_BOOLEAN) return 1;
  return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ? 2 : 4;
}

std::string ErrorOfTensor(const Descriptor& d) {
  const FakeCudnnTensor t(d);
  if (t.dims.size() != 4 || t.strides.size() != 4)
    return "a tensor needs four dimensions and strides";
  if (std::any_of(t.dims.begin(), t.dims.end(), [](int64_t size) { return size <= 0; })) {
    return "a dimension is not positive";
  }
  const bool is_number =
      t.type == CUDNN_DATA_FLOAT || t.type == CUDNN_DATA_HALF || t.type == CUDNN_DATA_BFLOAT16;
  const bool is_inner = t.type == CUDNN_DATA_INT32 || t.type == CUDNN_DATA_BOOLEAN;
  if (!is_number && !(is_inner && t.is_virtual)) return "the fake does not support this dtype";
  if (t.is_by_value && (t.is_virtual || t.size() != 1 || t.type != CUDNN_DATA_FLOAT)) {
    return "only one float can be passed by value";
  }
  return t.alignment <= 0 || t.alignment % SizeOf(t.type) != 0 ? "the alignment is wrong" : "";
}

std::string ErrorOfConvolution(const Descriptor& d) {
  for (const auto list :
       {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
        CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS}) {
    if (d.values.at(list).count != d.One<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)) {
      return "a list does not have one value per dimension";
    }
  }
  return d.One<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 &&
                 d.One<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT &&
                 d.One<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) ==
                     CUDNN_CROSS_CORRELATION
             ? ""
             : "the fake does not support this convolution";
}

std::string ErrorOfReduction(const Descriptor& d) {
  const auto op = d.One<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
  return (op == CUDNN_REDUCE_TENSOR_ADD || op == CUDNN_REDUCE_TENSOR_MAX) &&
                 d.One<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE) == CUDNN_DATA_FLOAT
             ? ""
             : "the fake does not support this reduction";
}

std::string ErrorOfPack(const Descriptor& d) {
  const std::vector<int64_t> ids = d.All<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  if (d.values.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count !=
      static_cast<int64_t>(ids.size())) {
    return "the pack must have as many ids as addresses";
  }
  return std::set<int64_t>(ids.begin(), ids.end()).size() == ids.size() ? "" : "an id occurs twice";
}

// Returns what is wrong with an engine configuration; empty if nothing. Only kTensorCore has a
// knob.
std::string ErrorOfConfig(const Descriptor& d) {
  const int engine = d.Child(CUDNN_ATTR_ENGINECFG_ENGINE).engine;
  const bool has_choice = d.Has(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  if (has_choice != (engine == kTensorCore)) return "the choices do not match the engine's knobs";
  return has_choice && d.Child(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES).engine != engine
             ? "a knob choice is for another engine"
             : "";
}

// Returns what is wrong with a descriptor whose required attributes are set; empty if nothing.
std::string ErrorOf(const Descriptor& d) {
  switch (d.type) {
    case kTensor:
      return ErrorOfTensor(d);
    case kConvolution:
      return ErrorOfConvolution(d);
    case kPointwise:
      return d.One<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC) ==
                     (d.One<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) ==
                              CUDNN_POINTWISE_CMP_GE
                          ? CUDNN_DATA_BOOLEAN
                          : CUDNN_DATA_FLOAT)
                 ? ""
                 : "the fake does not support this pointwise precision";
    case kMatMul:
      return d.One<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE) == CUDNN_DATA_FLOAT
                 ? ""
                 : "the fake does not support this product precision";
    case kReduction:
      return ErrorOfReduction(d);
    case kForward:
    case kBackwardData:
    case kBackwardFilter:
    case kApply:
    case kMultiply:
    case kReduce:
      return FakeCudnnGraph::ErrorOfOperation(d);
    case kGraph:
      return FakeCudnnGraph::ErrorOfGraph(d);
    case kGpu:
      return d.Has(CUDNN_ATTR_DEVICEPROP_DEVICE_ID) !=
                     d.Has(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)
                 ? ""
                 : "a device needs either an ordinal or a JSON description";
    case kHeuristic:
    case kPlan:
      return "";
    case kConfig:
      return ErrorOfConfig(d);
    case kPack:
      return ErrorOfPack(d);
    default:
      return "only a heuristic can create engines";
  }
}

// Returns the engines that a heuristic proposes.
std::vector<int> Proposals(const Descriptor& heuristic) {
  const FakeCudnnGraph graph(heuristic.Child(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
  const bool supported = graph.is_attention() ? mirrorflow::FakeHasAttention()
                                              : mirrorflow::FakeHasConvolutions(graph.is_fused());
  if (!supported) return {};
  switch (heuristic.One<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE)) {
    case CUDNN_HEUR_MODE_A:
      return {kNondeterministic, kHungry,           kUnsupported,
              kDownConverts,     kReducesPrecision, kTensorCore};
    case CUDNN_HEUR_MODE_FALLBACK:
      return {kPlain, kFailing};
    default:
      return {};
  }
}

// Returns the configuration of an engine for a graph.
Descriptor ConfigOf(int engine_number, const Descriptor::Value& graph) {
  const auto child = [](Descriptor d) {
    d.finalized = true;
    return Descriptor::Value{.count = 1, .descriptors = {std::make_shared<Descriptor>(d)}};
  };
  Descriptor engine{.type = kEngine, .engine = engine_number};
  engine.values[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = graph;
  Descriptor config{.type = kConfig, .has_plan = std::make_shared<bool>(false)};
  config.values[CUDNN_ATTR_ENGINECFG_ENGINE] = child(std::move(engine));
  if (engine_number == kTensorCore) {
    config.values[CUDNN_ATTR_ENGINECFG_KNOB_CHOICES] =
        child({.type = kChoice, .engine = engine_number});
  }
  return config;
}

// Makes `made`, which the caller created, a finalized copy of `filled`.
cudnnStatus_t Fill(cudnnBackendDescriptor_t made, Descriptor filled) {
  if (made == nullptr || Of(made)->type != filled.type || Of(made)->finalized) {
    return Reject("the descriptor to fill is not new or has the wrong type");
  }
  *Of(made) = std::move(filled);
  Of(made)->finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

template <typename T>
cudnnStatus_t Return(const std::vector<T>& values, cudnnBackendAttributeType_t type,
                     cudnnBackendAttributeType_t expected, int64_t max_count, int64_t* count,
                     void* to) {
  if (type != expected) return Reject(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the type is wrong");
  *count = std::min<int64_t>(max_count, values.size());
  std::copy_n(values.begin(), *count, static_cast<T*>(to));
  return CUDNN_STATUS_SUCCESS;
}

const Descriptor& EngineOf(const Descriptor& plan) {
  return plan.Child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).Child(CUDNN_ATTR_ENGINECFG_ENGINE);
}

// Rejects a second plan for a configuration, because the real library can create several plans only
// for engines whose kernels it need not compile.
cudnnStatus_t FinalizePlan(const Descriptor& plan) {
  bool& has_plan = *plan.Child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).has_plan;
  if (EngineOf(plan).engine == kUnsupported) {
    return Reject(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "the engine has no plan");
  }
  if (mirrorflow::FakeConvolutionsAreBroken()) {
    return Reject(CUDNN_STATUS_INTERNAL_ERROR, "plans are broken");
  }
  if (has_plan) {
    return Reject(CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED,
                  "the configuration already has a plan");
  }
  has_plan = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t Execute(cudnnHandle_t handle, const Descriptor& plan, const Descriptor& pack) {
  const Descriptor& engine = EngineOf(plan);
  const FakeCudnnGraph graph(engine.Child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
  const std::vector<int64_t> ids = pack.All<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const std::vector<void*> addresses = pack.All<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<int64_t, void*> by_id;
  for (size_t i = 0; i < ids.size(); ++i) by_id[ids[i]] = addresses[i];
  const std::vector<FakeCudnnTensor> operands = graph.Operands();
  if (operands.size() != by_id.size()) return Reject("the pack needs one address per tensor");
  // Reads the scalars during the call, because the caller can change them before the work runs.
  std::map<int64_t, float> scalars;
  for (const FakeCudnnTensor& operand : operands) {
    const auto found = by_id.find(operand.id);
    if (found == by_id.end() || found->second == nullptr) return Reject("a tensor has no address");
    if (operand.is_by_value) {
      scalars[operand.id] = *static_cast<const float*>(found->second);
      continue;
    }
    if (reinterpret_cast<uintptr_t>(found->second) % operand.alignment != 0) {
      return Reject(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "an operand is not aligned");
    }
  }
  void* const workspace = pack.One<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (workspace == nullptr || !mirrorflow::FakeMayWrite(workspace, kWorkspace)) {
    return Reject(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "the workspace is too small");
  }
  const bool rounds = engine.engine == kTensorCore && graph.type() == CUDNN_DATA_FLOAT;
  if (engine.engine != kTensorCore && engine.engine != kPlain) {
    return Reject(CUDNN_STATUS_EXECUTION_FAILED, "the engine cannot be executed");
  }
  const char* const name = graph.is_attention() ? "cudnnAttention" : "cudnnConvolution";
  mirrorflow::LaunchWatchedOnFake(handle->stream, name, [=] {
    std::memset(workspace, 0xff, kWorkspace);
    graph.Compute(by_id, scalars, rounds);
  });
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return 99999; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "error reported by the fake"; }
void cudnnGetLastErrorString(char* message, size_t max_size) {
  std::strncpy(message, last_error.c_str(), max_size - 1);
  message[max_size - 1] = '\0';
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Descriptor{type};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete Of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  Descriptor& d = *Of(descriptor);
  if (d.finalized) return Reject("the descriptor is already finalized");
  const auto attribute = std::find_if(
      FakeCudnnAttributes().begin(), FakeCudnnAttributes().end(),
      [&](const FakeCudnnAttribute& each) { return each.of == d.type && each.name == name; });
  if (attribute == FakeCudnnAttributes().end())
    return Reject("the descriptor has no such attribute");
  if (type != attribute->type) {
    return Reject(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the type is wrong");
  }
  if (values == nullptr || count < 1 || count > attribute->max_count) {
    return Reject("the number of elements is wrong");
  }
  Descriptor::Value value = {.count = count};
  const auto* const bytes = static_cast<const std::byte*>(values);
  value.bytes.assign(bytes, bytes + count * attribute->size);
  for (int64_t i = 0; !attribute->children.empty() && i < count; ++i) {
    const Descriptor* const child = Of(static_cast<const cudnnBackendDescriptor_t*>(values)[i]);
    if (child == nullptr || std::find(attribute->children.begin(), attribute->children.end(),
                                      child->type) == attribute->children.end()) {
      return Reject(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                    "a child descriptor has the wrong type");
    }
    if (!child->finalized) {
      return Reject(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a child descriptor is not finalized");
    }
    value.descriptors.push_back(std::make_shared<const Descriptor>(*child));
  }
  d.values[name] = std::move(value);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor& d = *Of(descriptor);
  if (d.finalized) return Reject("the descriptor is already finalized");
  for (const FakeCudnnAttribute& attribute : FakeCudnnAttributes()) {
    if (attribute.of == d.type && attribute.required && !d.Has(attribute.name)) {
      return Reject("attribute " + std::to_string(attribute.name) + " is not set");
    }
  }
  const std::string error = ErrorOf(d);
  if (!error.empty()) return Reject(error);
  if (d.type == kPlan) {
    const cudnnStatus_t made = FinalizePlan(d);
    if (made != CUDNN_STATUS_SUCCESS) return made;
  }
  if (d.type == kConfig) d.has_plan = std::make_shared<bool>(false);
  if (d.type == kHeuristic && Proposals(d).empty()) {
    return Reject(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "no engine supports the graph");
  }
  d.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t max_count,
                                       int64_t* count, void* to) {
  const Descriptor& d = *Of(descriptor);
  if (!d.finalized) return Reject(CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is not finalized");
  auto* const descriptors = static_cast<cudnnBackendDescriptor_t*>(to);
  if (d.type == kHeuristic && name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    const std::vector<int> engines = Proposals(d);
    *count = std::min<int64_t>(max_count, engines.size());
    for (int64_t i = 0; i < *count; ++i) {
      const cudnnStatus_t filled = Fill(
          descriptors[i], ConfigOf(engines[i], d.values.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)));
      if (filled != CUDNN_STATUS_SUCCESS) return filled;
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (d.type == kConfig) {  // its attributes are descriptors
    *count = d.Has(name) ? 1 : 0;
    return d.Has(name) ? Fill(descriptors[0], d.Child(name)) : CUDNN_STATUS_SUCCESS;
  }
  if (d.type == kEngine && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    return Return(NotesOf(d.engine), type, CUDNN_TYPE_NUMERICAL_NOTE, max_count, count, to);
  }
  if (d.type == kPlan && name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    return Return(std::vector<int64_t>{WorkspaceOf(EngineOf(d).engine)}, type, CUDNN_TYPE_INT64,
                  max_count, count, to);
  }
  return Reject("the descriptor has no such attribute");
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  if (handle == nullptr) return Reject("the handle is null");
  if (Of(plan)->type != kPlan || Of(pack)->type != kPack) {
    return Reject(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a descriptor has the wrong type");
  }
  if (!Of(plan)->finalized || !Of(pack)->finalized) {
    return Reject(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor is not finalized");
  }
  if (Of(plan)->handle != nullptr && Of(plan)->handle != handle) {
    return Reject(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "the plan belongs to another handle");
  }
  Of(plan)->handle = handle;
  return Execute(handle, *Of(plan), *Of(pack));
}

}  // extern "C"
