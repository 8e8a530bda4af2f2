#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes a header that holds files as text: with `files`, all of them as CudaCodeFiles(); with
# `text`, a single file as kEmulationText.
set -euo pipefail
kind=$1
shift
echo "#include <vector>"
echo "namespace mirrorflow {"
if [ "$kind" = text ]; then
  echo 'inline constexpr char kEmulationText[] = R"MF('
  cat "$1"
  echo ')MF";'
else
  echo "struct CodeFile { const char* name; const char* text; };"
  echo "inline const std::vector<CodeFile>& CudaCodeFiles() {"
  echo "  static const auto* const files = new std::vector<CodeFile>{"
  for file; do
    echo "{\"$(basename "$file")\", R\"MF("
    cat "$file"
    echo ")MF\"},"
  done
  echo "  };"
  echo "  return *files;"
  echo "}"
fi
echo "}  // namespace mirrorflow"
