// SPDX-License-Identifier: Apache-2.0
//
// Tests communicators of hosts that are connected over UCX.
#include "gtest/gtest.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/conformance/connect_hosts.h"

namespace mirrorflow {
namespace {

INSTANTIATE_TEST_SUITE_P(, CommunicatorConformance, testing::ValuesIn(HostsCases(Network::kUcx)),
                         ConformanceCaseName);
// These suites do not apply, because only a session forwards a failure on one host to the others.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorFailures);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorAborts);

}  // namespace
}  // namespace mirrorflow
