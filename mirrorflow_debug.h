// SPDX-License-Identifier: Apache-2.0
//
// Access to compiled programs and plans, the variable layout, timelines and exported replica
// graphs. `mirrorflow inspect`, `explain` and `bench` use it. These interfaces can change without
// notice.
#ifndef MIRRORFLOW_MIRRORFLOW_DEBUG_H_
#define MIRRORFLOW_MIRRORFLOW_DEBUG_H_

#include "distribute/replicated_graph.h"        // a step with its replicas written out
#include "framework/compiler/pass.h"            // observers of passes
#include "framework/graph/text_form.h"          // graphs as text
#include "framework/runtime/topology.h"         // replicas by worker, domain and device
#include "framework/runtime/trace.h"            // timelines of steps
#include "framework/runtime/variable_layout.h"  // where variables are in memory
#include "framework/session/step_plans.h"       // compiled steps
#include "framework/workers/connection.h"       // how the workers are connected
#include "mirrorflow.h"

#endif  // MIRRORFLOW_MIRRORFLOW_DEBUG_H_
