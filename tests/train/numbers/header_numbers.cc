// SPDX-License-Identifier: Apache-2.0
#include "tests/train/numbers/header_numbers.h"

#include <cctype>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {
namespace {

// Returns `text` without comments, preprocessor lines and the contents of string literals.
std::string CodeOf(const std::string& text) {
  std::string code;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0 || (text[i] == '#' && (i == 0 || text[i - 1] == '\n'))) {
      while (i < text.size() && text[i] != '\n') ++i;
      code += '\n';
    } else if (text[i] == '"') {
      while (text[++i] != '"') i += text[i] == '\\';
      code += '0';
    } else {
      code += text[i];
    }
  }
  return code;
}

// Returns whether `declaration` is `[const] NUMBER name [= value]`. If so, sets `name`.
bool IsNumber(const std::string& declaration, std::string* name) {
  static const std::regex number(
      R"(^\s*(?:static |inline |const |constexpr )*)"
      R"((?:std::(?:optional|vector)<|absl::Span<const )?)"
      R"((?:double|float|int|int32_t|int64_t|uint32_t|uint64_t|size_t|absl::Duration|LearningRate|)"
      R"(Size2D|Size3D|Border|Border2D)>?&?\s+(\w+)\s*(?:=[\s\S]*|\{[\s\S]*)?$)");
  std::smatch match;
  if (!std::regex_match(declaration, match, number)) return false;
  *name = match[1];
  return name->back() != '_' && declaration.find("constexpr") == std::string::npos;
}

// Reads declarations and tracks the structs and functions that enclose them.
class Reader {
 public:
  explicit Reader(std::string code) : code_(std::move(code)) {}

  std::set<std::string> Read() {
    std::string text;  // source since the end of the last declaration
    for (; at_ < code_.size(); ++at_) {
      const char c = code_[at_];
      if (c == '(') {
        text += absl::StrCat("(", ReadParameters(LastWord(text)), ")");
      } else if (c == '{') {
        if (!Opens(text)) {
          SkipBraces();
          const bool is_body = text.find('(') < text.find('=');
          if (is_body) text.clear();
          continue;
        }
        text.clear();
      } else if (c == '}') {
        if (!around_.empty()) around_.pop_back();
        text.clear();
      } else if (c == ';') {
        AddFields(text);
        text.clear();
      } else if (c == ':' && (text.ends_with("public") || text.ends_with("private"))) {
        around_.back().is_private = text.ends_with("private");
        text.clear();
      } else {
        text += c;
      }
    }
    return found_;
  }

 private:
  struct Block {
    std::string name;  // the struct's name; empty for a namespace
    bool is_private = false;
  };

  void Add(const std::string& number) {
    for (const Block& block : around_) {
      if (block.is_private) return;
    }
    found_.insert(number);
  }

  static std::string LastWord(const std::string& text) {
    size_t end = text.find_last_not_of(" \n");
    if (end == std::string::npos) return "";
    size_t begin = ++end;
    while (begin > 0 && (std::isalnum(text[begin - 1]) || text[begin - 1] == '_')) --begin;
    return text.substr(begin, end - begin);
  }

  // Enters a namespace or a struct. Returns false for any other brace.
  bool Opens(const std::string& text) {
    static const std::regex opening(
        R"(^[^=()]*\b(namespace|struct|class|enum)\b\s*([\w:]*)[^()]*$)");
    std::smatch match;
    if (!std::regex_match(text, match, opening) || match[1] == "enum") return false;
    around_.push_back({match[1] == "namespace" ? "" : match[2].str()});
    return true;
  }

  void SkipBraces() {
    int depth = 0;
    for (; at_ < code_.size(); ++at_) {
      depth += (code_[at_] == '{') - (code_[at_] == '}');
      if (depth == 0) return;
    }
  }

  // Reads up to the closing parenthesis.
  std::string ReadParameters(const std::string& function) {
    std::string parameter, all;
    int depth = 0;
    for (; at_ < code_.size(); ++at_) {
      const char c = code_[at_];
      if (c == '(' && depth++ == 0) continue;
      depth += (c == '{' || c == '<') - (c == '}' || c == '>');
      if (c == ')') --depth;
      if (depth == 0 || (depth == 1 && c == ',')) {
        std::string name;
        if (!function.empty() && IsNumber(parameter, &name)) Add(absl::StrCat(function, ".", name));
        parameter.clear();
        if (depth == 0) return all;
        continue;
      }
      parameter += c;
      all += c;
    }
    return all;
  }

  void AddFields(const std::string& text) {
    std::string owner;
    for (const Block& block : around_) {
      if (!block.name.empty()) absl::StrAppend(&owner, owner.empty() ? "" : "::", block.name);
    }
    std::string name;
    if (owner.empty() || text.find('(') < text.find('=') || !IsNumber(text, &name)) return;
    Add(absl::StrCat(owner, ".", name));
  }

  const std::string code_;
  size_t at_ = 0;
  std::vector<Block> around_;
  std::set<std::string> found_;
};

}  // namespace

std::set<std::string> NumbersOf(std::string text) { return Reader(CodeOf(text)).Read(); }

}  // namespace mirrorflow
