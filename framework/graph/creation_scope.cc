// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/creation_scope.h"

#include <atomic>

namespace mirrorflow {
namespace {
// Each scope saves the owner of the enclosing scope, so the scopes form a stack.
thread_local int64_t current_owner = 0;
}  // namespace

CreationScope::CreationScope(int64_t owner) : outer_(current_owner) { current_owner = owner; }
CreationScope::~CreationScope() { current_owner = outer_; }

int64_t CreationScope::NewOwner() {
  static std::atomic<int64_t> last{0};
  return ++last;
}

int64_t CreationScope::Current() { return current_owner; }

}  // namespace mirrorflow
