// SPDX-License-Identifier: Apache-2.0
//
// A primitive is oneDNN's term for an operation compiled for fixed shapes. Compiling takes 0.1 to
// 0.5 ms, so equal layers and all replicas in the process share one primitive. To run, a primitive
// needs memory objects for its operands. Its first run on a lane creates them for that lane; later
// runs only set their pointers.
#ifndef MIRRORFLOW_KERNELS_CPU_ONEDNN_PRIMITIVE_H_
#define MIRRORFLOW_KERNELS_CPU_ONEDNN_PRIMITIVE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dnnl.hpp"
#include "framework/core/buffer.h"
#include "framework/runtime/device.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow::onednn {

const dnnl::engine& Engine();

class Primitive {
 public:
  // An operand: its oneDNN argument number and its memory layout.
  struct Arg {
    int part;
    dnnl::memory::desc desc;
  };

  Primitive(dnnl::primitive primitive, std::vector<Arg> args);
  ~Primitive();
  Primitive(const Primitive&) = delete;
  Primitive& operator=(const Primitive&) = delete;

  const dnnl::memory::desc& desc(int i) const { return args_[i].desc; }

  // Runs on `operands`, in the order of `args`. An empty scratchpad may be null.
  absl::Status Run(Lane& lane, std::initializer_list<const void*> operands) const;

 private:
  friend class LaneOperands;

  const int slot_;
  const uint64_t number_;  // unique in this process, starting at 1
  const dnnl::primitive primitive_;
  const std::vector<Arg> args_;
};

using PrimitivePtr = std::shared_ptr<const Primitive>;

// Returns the primitive called `key`, which all plans of this process share. If the primitive does
// not exist, creates it.
absl::StatusOr<PrimitivePtr> Cached(const std::string& key, absl::FunctionRef<PrimitivePtr()> make);

// Describes a bias of `channels` elements, or an empty one if `bias` is false.
dnnl::memory::desc FloatBias(bool bias, const dnnl::memory::dims& channels,
                             dnnl::memory::format_tag layout);

// Makes the scratchpad an operand, so that it comes from the plan's scratch memory.
dnnl::primitive_attr Attributes();

template <typename Pd>
Primitive::Arg Scratchpad(const Pd& pd) {
  return {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()};
}

// The pieces of a kernel's scratch memory, each aligned to a cache line.
class Scratch {
 public:
  // Adds a piece and returns its offset.
  int64_t Add(const dnnl::memory::desc& desc);
  // Includes room to align the first piece.
  int64_t bytes() const { return bytes_ == 0 ? 0 : bytes_ + kBufferAlignment; }

  // Returns the address of the first piece, or null if all pieces are empty.
  static std::byte* Start(const KernelArgs& args, int64_t bytes);

 private:
  int64_t bytes_ = 0;
};

// Rejects operands of more than INT32_MAX elements, because parts of oneDNN use 32-bit counts.
absl::Status CheckSizes(std::initializer_list<double> element_counts);

}  // namespace mirrorflow::onednn

#endif  // MIRRORFLOW_KERNELS_CPU_ONEDNN_PRIMITIVE_H_
