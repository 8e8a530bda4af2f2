// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/forwarded_variables.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(ForwardedVariablesTest, VariablesOfProgramsAreForwarded) {
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG",
                           "NCCL_DEBUG", "NCCL_IB_PKEY", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
                           "UCX_TLS", "TOKENIZERS_PARALLELISM", "MIRRORFLOW_FAILPOINTS", "MONKEY",
                           "MAX_TOKENS", "PASSES", "http_proxy"}) {
    EXPECT_EQ(ForwardingOf(name), Forwarding::kForwarded) << name;
  }
}

TEST(ForwardedVariablesTest, SecretsAreNotForwarded) {
  for (const char* name :
       {"AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AZURE_CLIENT_ID", "GITHUB_TOKEN", "HF_TOKEN",
        "WANDB_API_KEY", "DB_PASSWORD", "PGPASSWORD", "PGPASSFILE", "DB_PASSWORD_FILE",
        "PGPASSFILE_PASSWD", "MY_SECRET_2", "GOOGLE_APPLICATION_CREDENTIALS", "VAULT_ADDR",
        "KRB5CCNAME", "npm_config_token", "DB_PWD"}) {
    EXPECT_EQ(ForwardingOf(name), Forwarding::kSecret) << name;
  }
}

TEST(ForwardedVariablesTest, ShortSecretWordMatchesOnlyWholeWords) {
  for (const char* name :
       {"PASS", "DB_PASS", "SMTP_PASS_2", "SLURM_JWT", "GIT_CREDS", "MY_CRED", "SENTRY_DSN"}) {
    EXPECT_EQ(ForwardingOf(name), Forwarding::kSecret) << name;
  }
  for (const char* name : {"COMPASS", "NUM_PASSES", "PASSIVE_MODE", "CREDIT_LIMIT", "DSN2X"}) {
    EXPECT_EQ(ForwardingOf(name), Forwarding::kForwarded) << name;
  }
}

TEST(ForwardedVariablesTest, HostSpecificVariablesAreNotForwarded) {
  for (const char* name : {"LD_PRELOAD", "LD_AUDIT", "HOME", "PWD", "_", "SSH_AUTH_SOCK", "DISPLAY",
                           "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "BASH_FUNC_x%%"}) {
    EXPECT_EQ(ForwardingOf(name), Forwarding::kHostSpecific) << name;
  }
}

TEST(ForwardedVariablesTest, AddedVariablesAreForwarded) {
  const char* const environment[] = {"A=1=2",       "HF_TOKEN=t", "HOME=/h",
                                     "MY_SECRET=s", "odd",        nullptr};
  EXPECT_THAT(ForwardedVariables(environment, {}), ElementsAre(Pair("A", "1=2")));
  EXPECT_THAT(ForwardedVariables(environment, {"HF_TOKEN", "HOME", "NONE"}),
              ElementsAre(Pair("A", "1=2"), Pair("HF_TOKEN", "t"), Pair("HOME", "/h")));
}

}  // namespace
}  // namespace mirrorflow
