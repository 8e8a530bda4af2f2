// SPDX-License-Identifier: Apache-2.0
#include "distribute/collective/address_space.h"

#include "framework/core/buffer.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

class OneProcess final : public AddressSpace {
 public:
  // User addresses have 47 bits, so this segment contains all of them.
  OneProcess() : AddressSpace({{.base = nullptr, .bytes = kMaxOffset}}) {}

  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(size_t bytes) override {
    MF_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, Buffer::Allocate(bytes));
    std::byte* const data = buffer->data();
    return std::shared_ptr<std::byte>(std::move(buffer), data);
  }
};

}  // namespace

std::shared_ptr<AddressSpace> AddressSpace::OfThisProcess() {
  return std::make_shared<OneProcess>();
}

}  // namespace mirrorflow
