// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_READ_BEFORE_WRITING_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_READ_BEFORE_WRITING_H_

#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Orders reads of a list's rows before the writes that overwrite them, if possible. Otherwise each
// iteration of a loop would copy the whole list.
void ReadBeforeWriting(Compilation& body);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_READ_BEFORE_WRITING_H_
