// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/creation_scope.h"

namespace mirrorflow {
namespace {
// Each scope keeps the one outside it, so the stack is on the C++ stack.
thread_local const void* current_owner = nullptr;
}  // namespace

CreationScope::CreationScope(const void* owner) : outer_(current_owner) { current_owner = owner; }
CreationScope::~CreationScope() { current_owner = outer_; }
const void* CreationScope::Current() { return current_owner; }

}  // namespace mirrorflow
