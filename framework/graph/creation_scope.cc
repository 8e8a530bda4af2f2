// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/creation_scope.h"

#include <utility>

namespace mirrorflow {
namespace {
// Each scope saves the strategy of the enclosing scope, so the scopes form a stack.
thread_local std::string current_strategy;
}  // namespace

CreationScope::CreationScope(std::string strategy)
    : outer_(std::exchange(current_strategy, std::move(strategy))) {}
CreationScope::~CreationScope() { current_strategy = std::move(outer_); }

const std::string& CreationScope::Current() { return current_strategy; }

}  // namespace mirrorflow
