// SPDX-License-Identifier: Apache-2.0
//
// The environment variables that `mirrorflow launch` sends to workers on other hosts.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_FORWARDED_VARIABLES_H_
#define MIRRORFLOW_TOOLS_LAUNCH_FORWARDED_VARIABLES_H_

#include <map>
#include <set>
#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Whether a variable is sent to other hosts and, if not, why.
enum class Forwarding {
  kForwarded,
  kHostSpecific,  // describes this host or the user's session on it
  kSecret,        // has the name of a secret
};
// Decides by the name, because a program may need any variable: NCCL_*, OMP_*, its own.
Forwarding ForwardingOf(absl::string_view name);

// The variables of `environment`, entries NAME=VALUE up to a null pointer, that are forwarded by
// their name or are in `added`.
std::map<std::string, std::string> ForwardedVariables(const char* const* environment,
                                                      const std::set<std::string>& added);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_FORWARDED_VARIABLES_H_
