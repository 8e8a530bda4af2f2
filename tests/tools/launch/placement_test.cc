// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/placement.h"

#include <cstdio>
#include <string>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

// The words that a shell makes of the text, each in a line.
std::string WordsOf(const std::string& text) {
  std::FILE* const shell = popen(("printf '%s\\n' " + text).c_str(), "r");
  std::string words;
  for (int c; (c = std::fgetc(shell)) != EOF;) words += static_cast<char>(c);
  pclose(shell);
  return words;
}

TEST(QuotedForShellTest, ShellReadsTheWordBack) {
  for (const std::string& word :
       {"/opt/my programs/mirrorflow", "a;b", "$HOME", "`id`", "it's", "''", "", "*", "~", "a\\b",
        "a\"b", "\t", "a&b|c>d", "#x", "größe"}) {
    EXPECT_EQ(WordsOf(QuotedForShell(word)), word + "\n");
  }
}

TEST(QuotedForShellTest, PlainPathStaysUnchanged) {
  EXPECT_EQ(QuotedForShell("/opt/mirrorflow-1.2/bin/mirrorflow_x"),
            "/opt/mirrorflow-1.2/bin/mirrorflow_x");
}

}  // namespace
}  // namespace mirrorflow
