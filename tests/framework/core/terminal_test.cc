// SPDX-License-Identifier: Apache-2.0
#include "framework/core/terminal.h"

#include <string>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

TEST(ForTerminalTest, PrintableTextStaysUnchanged) {
  for (const char* text : {"", "worker 1: loss 0.5", "größer → ∞ 😀", "latin-1 \xfc\xe9", "\xc2"}) {
    EXPECT_EQ(ForTerminal(text), text);
    EXPECT_EQ(OutputForTerminal(text), text);
  }
}

TEST(ForTerminalTest, EveryControlCharacterIsEscaped) {
  for (int c = 0; c < 256; ++c) {
    const bool is_control = c < 32 || (c >= 127 && c < 160);
    const std::string text = {'a', static_cast<char>(c), 'b'};
    if (is_control) {
      EXPECT_EQ(ForTerminal(text).find(static_cast<char>(c)), std::string::npos) << c;
    } else {
      EXPECT_EQ(ForTerminal(text), text) << c;
    }
  }
  EXPECT_EQ(ForTerminal("\033[31mred\033]0;title\a"), "\\033[31mred\\033]0;title\\007");
}

TEST(ForTerminalTest, UnicodeControlCharactersAreEscaped) {
  for (const char* text : {"\xc2\x80", "\xc2\x9b", "\xc2\x9f"}) {
    for (const std::string& escaped : {ForTerminal(text), OutputForTerminal(text)}) {
      EXPECT_EQ(escaped.substr(0, 5), "\\302\\");
      EXPECT_EQ(escaped.size(), 8u);
    }
  }
  // The last two bytes of this character would be control characters on their own.
  EXPECT_EQ(ForTerminal("\xe2\x80\x9c"), "\xe2\x80\x9c");
  EXPECT_EQ(ForTerminal("\xc2\xa0"), "\xc2\xa0");
}

TEST(ForTerminalTest, PrintedLinesAreEscaped) {
  testing::internal::CaptureStdout();
  PrintLine("out \a");
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "out \\007\n");
}

TEST(OutputForTerminalTest, ColoursAndProgressBarsStayUnchanged) {
  for (const char* text :
       {"a\tb\nc\rd", "\033[1;31mred\033[0m", "\033[m", "\r 50 %\033[K", "\033[2K"}) {
    EXPECT_EQ(OutputForTerminal(text), text);
  }
}

TEST(OutputForTerminalTest, ColoursAreResetAtEndOfLine) {
  const std::string end = "\033[0m";
  for (const char* text : {"\033[8m", "a\033[0m\033[31mb", "\033[0;8mhidden", "\033[8m\033[K"}) {
    EXPECT_EQ(OutputForTerminal(text), text + end);
    EXPECT_EQ(OutputForTerminal(text + end), text + end);
  }
  EXPECT_EQ(OutputForTerminal("\033[8ma\nb\n"), "\033[8ma" + end + "\nb\n");
}

TEST(OutputForTerminalTest, EveryOtherSequenceIsEscaped) {
  for (const char* rest : {"[2J", "[1;1H", "[6n", "[?25l", "[>4m", "[31", "[", "", "]0;title\a",
                           "c", "P$q\033\\", "[3\0331m", "[1A"}) {
    const std::string escaped = OutputForTerminal("\033" + std::string(rest));
    EXPECT_EQ(escaped.find('\033'), std::string::npos) << rest;
    EXPECT_EQ(escaped.substr(0, 4), "\\033");
  }
}

}  // namespace
}  // namespace mirrorflow
