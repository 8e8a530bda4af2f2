// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_CORE_OVERLOADED_H_
#define MIRRORFLOW_FRAMEWORK_CORE_OVERLOADED_H_

namespace mirrorflow {

// Combines several callables into one: std::visit(Overloaded{[](const A&) …, …}, variant).
template <typename... Fns>
struct Overloaded : Fns... {
  using Fns::operator()...;
};
template <typename... Fns>
Overloaded(Fns...) -> Overloaded<Fns...>;

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_OVERLOADED_H_
