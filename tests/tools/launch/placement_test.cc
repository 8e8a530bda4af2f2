// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/placement.h"

#include <cstdio>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

// Returns the words that a shell splits the text into, one per line.
std::string WordsOf(const std::string& text) {
  std::FILE* const shell = popen(("printf '%s\\n' " + text).c_str(), "r");
  std::string words;
  for (int c; (c = std::fgetc(shell)) != EOF;) words += static_cast<char>(c);
  pclose(shell);
  return words;
}

std::string Quoted(const std::string& word) {
  return CommandOnHost({.name = "a", .address = "a"}, {"ssh"}, {word}).back();
}

TEST(CommandOnHostTest, RemoteShellReadsTheWordsBack) {
  for (const std::string word :
       {"/opt/my programs/mirrorflow", "a;b", "$HOME", "`id`", "it's", "''", "", "*", "~", "a\\b",
        "a\"b", "\t", "a&b|c>d", "#x", "größe"}) {
    EXPECT_EQ(WordsOf(Quoted(word)), word + "\n");
  }
}

TEST(CommandOnHostTest, PlainWordsStayUnchanged) {
  const std::string path = "/opt/mirrorflow-1.2/bin/mirrorflow_x";
  EXPECT_EQ(Quoted(path), path);
}

TEST(CommandOnHostTest, HostReplacesThePlaceholder) {
  EXPECT_THAT(
      CommandOnHost({.name = "a", .address = "b"}, {"ssh", "{host}", "x{host}"}, {"run", "it"}),
      ElementsAre("ssh", "a", "xa", "run", "it"));
}

TEST(CommandOnHostTest, ThisMachineNeedsNoShell) {
  EXPECT_THAT(CommandOnHost({.name = "", .address = "b"}, {"ssh"}, {"a b"}), ElementsAre("a b"));
}

}  // namespace
}  // namespace mirrorflow
