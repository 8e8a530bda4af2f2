# SPDX-License-Identifier: Apache-2.0
"""The rules of the source tree that no compiler checks: one function per rule, listed in RULES.

Each rule takes the Tree and yields Violations. layering_test.py applies all rules to the real tree;
house_rules_test.py applies each rule to small trees that violate it.
"""

import ast
import dataclasses
import os
import pathlib
import re

# Dependencies only go down: a folder may depend on itself and on folders of a lower level.
LEVEL = {
    "framework": 0,
    "ops": 1,
    "kernels": 2,
    "distribute": 3,
    "train": 4,
    "examples": 5,
    "tools": 5,
    "tests": 5,
}
# The order within top folders, from the lowest row to the highest. Folders in the same row must not
# depend on each other. A folder stands for the files directly in it. Test folders that are not
# listed form one row above the others.
ROWS = (
    ("framework/core", "framework/proto"),
    ("framework/data", "framework/graph"),
    ("framework/runtime",),
    ("framework/compiler", "framework/workers"),
    ("framework/compiler/passes",),
    ("framework/compiler/plan", "framework/session"),
    ("ops",),
    ("ops/control_flow",),
    ("ops/all", "ops/control_flow/passes", "ops/passes"),
    ("kernels/cpu", "kernels/cuda/code", "kernels/cuda/device"),
    ("kernels/cuda/libraries",),
    ("kernels/cuda",),
    ("distribute/collective",),
    ("distribute/collective/device_copy", "distribute/collective/nccl",
     "distribute/collective/shared_memory", "distribute/collective/tcp", "distribute/collective/ucx",
     "distribute/passes"),
    ("distribute/cluster/connections",),
    ("distribute/cluster/coordination",),
    ("distribute/cluster",),
    ("distribute",),
    ("distribute/strategy",),
    ("train",),
    ("train/formats", "train/layers", "train/losses", "train/optimizers", "train/safetensors"),
    ("train/checkpoint", "train/data", "train/metrics", "train/summary"),
    ("train/trainer/monitoring",),
    ("train/trainer",),
    ("examples", "examples/cluster", "examples/external"),
    ("tools/flags", "tools/models"),
    ("tools/launch", "tools/report"),
    ("tools/bench",),
    ("tools/cli",),
    ("tools/explain",),
    ("tools",),
    ("tests/fakes/cluster", "tests/fakes/cuda", "tests/oracle", "tests/references"),
    ("tests/fakes/nccl",),
    ("tests/support",),
    ("tests/conformance", "tests/kernels/cuda", "tests/ops", "tests/tools", "tests/tools/report",
     "tests/train/numbers"),
    ("tests/cuda",),
)
ROW = {folder: row for row, folders in enumerate(ROWS) for folder in folders}
# `train` builds graphs; only its trainer may depend on a strategy.
MAY_NAME_A_STRATEGY = ("train/trainer/",)

# Inlining replaces a call with a few TensorFlow ops, which messages also name.
MAY_NAME_OPS = ("framework/graph/inline_functions",)
DEVICE_ROOMS = ("kernels/cuda/", "distribute/collective/nccl/", "distribute/collective/device_copy/",
                "tests/fakes/")

CXX = (".h", ".cc", ".cu", ".cuh")
MAX_LINES = 800
MAX_README_LINES = 25


@dataclasses.dataclass
class Violation:
    where: str
    line: int
    what: str

    def __str__(self):
        return f"{self.where}:{self.line}: {self.what}"


class Tree:
    """Holds the text files below a folder, as {relative path: contents}, without build outputs."""

    def __init__(self, root):
        self.files = {}
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if _is_source_folder(folder == str(root), f))
            for name in sorted(set(names) - {".git"}):  # in a git worktree, .git is a file
                path = pathlib.Path(folder, name)
                try:
                    self.files[str(path.relative_to(root))] = path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    pass  # A binary file, such as a stored graph.

    def with_suffix(self, *suffixes):
        return {path: text for path, text in self.files.items() if path.endswith(suffixes)}

    def build_files(self):
        return {p: t for p, t in self.files.items() if pathlib.Path(p).name == "BUILD"}


def _is_source_folder(at_the_top, name):
    if at_the_top and (name == "bin" or name.startswith("bazel-")):
        return False
    return name == ".ci" or not (name.startswith(".") or name == "__pycache__")


def _top(path):
    return path.partition("/")[0]


def _stem(path):
    return pathlib.Path(path).stem


def _below(path, folders):
    """Returns whether `path` is in one of the folders or in the tests of one of them."""
    return path.startswith(tuple(folders) + tuple(f"tests/{folder}" for folder in folders))


def _find(pattern, text):
    """Yields (line number, match)."""
    for match in re.finditer(pattern, text, re.MULTILINE):
        yield text.count("\n", 0, match.start()) + 1, match


def _blank_comments(text):
    """Returns the text without `//` and `#` comments that start a line or follow a space."""
    return re.sub(r"(^|\s)(//|#(?=\s)).*$", r"\1", text, flags=re.MULTILINE)


def _arrow(path, folder):
    """Returns why `path` must not depend on `folder`, or None."""
    here = _top(path)
    if here not in LEVEL:
        return None
    if folder == "mirrorflow.h":
        if LEVEL[here] < LEVEL["tools"]:
            return f"{here} is part of the public header and must not depend on it"
        return None
    if folder not in LEVEL or folder == here:
        return None
    if LEVEL[folder] > LEVEL[here] or folder == "tests":
        return f"{here} is below {folder} and must not depend on it"
    if here == "train" and folder == "distribute" and not path.startswith(MAY_NAME_A_STRATEGY):
        return "only train/trainer may depend on a strategy"
    return None


def includes_go_down(tree):
    for path, text in tree.with_suffix(*CXX).items():
        for line, match in _find(r'^\s*#\s*include\s+"([^"/]+)', text):
            why = _arrow(path, match[1])
            if why:
                yield Violation(path, line, why)


def _targets(text):
    """Yields (line, name, labels of dependencies, labels of visibility) for each rule call."""
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call):
            continue
        name, uses, users = "", [], []
        for argument in call.keywords:
            labels = [n.value for n in ast.walk(argument.value)
                      if isinstance(n, ast.Constant) and isinstance(n.value, str)]
            if argument.arg == "name" and labels:
                name = labels[0]
            elif argument.arg in ("visibility", "default_visibility"):
                users += labels
            else:
                uses += labels
        yield call.lineno, name, uses, users


def _top_of_label(label):
    """Returns the top folder of a label of this repository; None for any other string."""
    match = re.match(r"//(\w*)", label)
    return match and match[1]


def build_deps_go_down(tree):
    for path, text in tree.build_files().items():
        for line, name, uses, _ in _targets(text):
            for label in uses:
                folder = _top_of_label(label)
                if folder is None:
                    continue
                # The only layer in the root package is the public library.
                why = _arrow(path.removesuffix("BUILD") + name, folder or "mirrorflow.h")
                if why:
                    yield Violation(path, line, f"{label}: {why}")


@dataclasses.dataclass
class _Arrow:
    """A dependency of one folder on another, and the place that declares it."""

    source: str
    target: str
    path: str
    line: int


def _include_arrows(tree):
    for path, text in tree.with_suffix(*CXX).items():
        for line, match in _find(r'^\s*#\s*include\s+"([^"]+)', text):
            if _top(path) in LEVEL and _top(match[1]) in LEVEL:
                yield _Arrow(os.path.dirname(path), os.path.dirname(match[1]), path, line)


def _dep_arrows(tree):
    for path, text in tree.build_files().items():
        for line, _, uses, _ in _targets(text):
            for label in uses:
                match = re.match(r"//([\w/]+)", label)
                if match and _top(path) in LEVEL and _top(match[1]) in LEVEL:
                    yield _Arrow(os.path.dirname(path), match[1], path, line)


def _reachable(start, targets):
    """Returns what is reachable from `start`, including itself only if it is on a cycle."""
    found, stack = set(), [start]
    while stack:
        new = targets.get(stack.pop(), set()) - found
        found |= new
        stack += new
    return found


def no_two_folders_include_each_other(tree):
    """Includes and Bazel dependencies form no cycle of folders, not even through other folders."""
    for arrows in (list(_include_arrows(tree)), list(_dep_arrows(tree))):
        targets = {}
        for arrow in arrows:
            if arrow.source != arrow.target:
                targets.setdefault(arrow.source, set()).add(arrow.target)
        reachable = {folder: _reachable(folder, targets) for folder in targets}
        for arrow in arrows:
            if arrow.source != arrow.target and arrow.source in reachable.get(arrow.target, ()):
                what = f"{arrow.source} depends on {arrow.target}, which depends on it in turn"
                yield Violation(arrow.path, arrow.line, what)


def folders_keep_their_rows(tree):
    for path in tree.with_suffix(*CXX, "BUILD"):
        folder = os.path.dirname(path)
        if _top(path) in LEVEL and _top(path) != "tests" and folder not in ROW:
            yield Violation(path, 1, f"{folder} is not in house_rules.ROWS")
    for arrow in [*_include_arrows(tree), *_dep_arrows(tree)]:
        if _top(arrow.source) != _top(arrow.target) or arrow.source == arrow.target:
            continue  # LEVEL orders the top folders.
        if ROW.get(arrow.target, len(ROWS)) >= ROW.get(arrow.source, len(ROWS)):
            what = f"{arrow.source} is not above {arrow.target} and must not depend on it"
            yield Violation(arrow.path, arrow.line, what)


def visibility_goes_up(tree):
    """A target is visible only at its level and above, so that Bazel rejects other dependencies."""
    for path, text in tree.build_files().items():
        level = LEVEL.get(_top(path), 0)
        if level == 0:
            continue  # The lowest level may be visible to all.
        for line, _, _, users in _targets(text):
            for label in users:
                folder = _top_of_label(label)
                if label in ("//visibility:private", "//:__pkg__") or folder is None:
                    continue
                if LEVEL.get(folder, -1) < level:
                    yield Violation(path, line, f"{label} is wider than {_top(path)} allows")


def devices_stay_in_their_rooms(tree):
    header = (r"^\s*#\s*include\s+[<\"]"
              r"(cuda|cu(blas|dnn|rand|sparse|solver|fft|pti)|cooperative_|nccl|nv|cub/|thrust/)")
    # An include guard names its path, and is not a condition.
    condition = (r"^\s*#\s*(if|ifdef|ifndef|elif)\b(?!\s*MIRRORFLOW_\w+_H_\s*$)"
                 r".*(CUDA|NVCC|NCCL)")
    for path, text in tree.with_suffix(*CXX).items():
        if _below(path, DEVICE_ROOMS):
            continue
        for line, _ in _find(header, text):
            yield Violation(path, line, "a device library used outside " + ", ".join(DEVICE_ROOMS))
        for line, _ in _find(condition, text):
            yield Violation(path, line, "a condition on CUDA; expected a stub chosen by select()")
    for path, text in tree.build_files().items():
        for line, _ in () if _below(path, DEVICE_ROOMS) else _find('"@local_cuda//', text):
            yield Violation(path, line, "the CUDA toolkit used outside " + ", ".join(DEVICE_ROOMS))


def _op_names(tree):
    """Returns the ops of the tree: those defined by name and those with reference values."""
    names = set()
    code = "\n".join(tree.with_suffix(".h", ".cc").values())
    names.update(re.findall(r'\bDefine\("(\w+)"\)', code))
    for constant in re.findall(r"\bDefine\((k\w+)\)", code):
        names.update(re.findall(rf'\b{constant}(?:\[\])?\s*=\s*"(\w+)"', code))
    for path, text in tree.files.items():
        if path.startswith("tests/references/cases/"):
            names.update(re.findall(r"^case (\w+)", text, re.MULTILINE))
    return names


def a_pass_has_the_name_of_its_file(tree):
    """Passes named by --without or --pass can be found by file name."""
    for path, text in tree.with_suffix(".h").items():
        if _top(path) == "tests":
            continue
        class_name = "".join(word.capitalize() for word in _stem(path).split("_"))
        for line, match in _find(r"^class (\w+)[^;{]*: public (?:Pass|PlanPass)\b", text):
            names = re.findall(r'string_view name\(\) const override { return "(\w+)"', text)
            if match[1] != class_name or names != [_stem(path)]:
                what = f"expected {class_name}, named {_stem(path)}, got {match[1]}, named {names}"
                yield Violation(path, line, what)


GAINS = "docs/benchmarks.md"


def an_optional_pass_shows_its_gain(tree):
    """Every optional pass must pay off: it has a row in the tables of gains."""
    for path, text in tree.with_suffix(".h").items():
        for line, _ in _find(r"bool optional\(\) const override { return true; }", text):
            if _top(path) != "tests" and f"\n| `{_stem(path)}`" not in tree.files.get(GAINS, ""):
                yield Violation(path, line, f"{_stem(path)} has no row in {GAINS}")


# GPU kernels are grouped into files by the mechanism that they share, not named after their ops.
# Registering a kernel twice ends the process.
KERNEL_FAMILIES = "kernels/cuda/"


def an_op_is_named_by_its_stem_alone(tree):
    """Only one file names an op: other code uses its builder, constant, traits or role."""
    places = {}
    for path, text in tree.with_suffix(*CXX).items():
        if _top(path) in ("tests", "examples") or path.rpartition(".")[0] in MAY_NAME_OPS:
            continue
        for line, match in _find(r'"([A-Za-z]\w*)"', _blank_comments(text)):
            places.setdefault(match[1], []).append((path, line))
    for name in sorted(_op_names(tree)):
        found = places.get(name, [])
        homes = {_stem(path) for path, _ in found if _top(path) == "ops"}
        homes = homes or {_stem(path) for path, _ in found if _top(path) == "distribute"}
        for path, line in found:
            if path.startswith(KERNEL_FAMILIES):
                continue
            if len(homes) != 1 or not _stem(path).startswith(min(homes)):
                what = f'"{name}" is named here; expected only in {" or ".join(sorted(homes))}.*'
                yield Violation(path, line, what)


def files_are_short(tree):
    for path, text in tree.files.items():
        lines = text.count("\n")
        if path.endswith(CXX + (".py", ".bzl", ".proto")) and lines > MAX_LINES:
            yield Violation(path, lines, f"expected at most {MAX_LINES} lines, got {lines}")


def folders_say_what_they_are(tree):
    for folder in LEVEL:
        readme = f"{folder}/README.md"
        if not any(path.startswith(folder + "/") for path in tree.files):
            continue
        lines = tree.files.get(readme, "").count("\n")
        if not 0 < lines <= MAX_README_LINES:
            yield Violation(readme, lines, f"expected 1 to {MAX_README_LINES} lines, got {lines}")
        first = re.findall(r"`([^`]+)`", tree.files.get(readme, "").rpartition("Read first:")[2])
        there = [os.path.normpath(f"{folder}/{path}") in tree.files for path in first]
        if len(first) != 3 or not all(there):
            what = f"expected three files to read first, got {', '.join(first) or 'none'}"
            yield Violation(readme, lines, what)


# The names that READMEs use for the libraries of bazel/workspace.bzl, and their headers.
LIBRARIES = {
    "com_google_absl": ("Abseil", "absl/"),
    "com_google_protobuf": ("protobuf", r"google/protobuf/|\S*\.pb\.h"),
    "com_github_grpc_grpc": ("gRPC", r"grpc(pp)?/|\S*\.grpc\.pb\.h"),
    "com_google_googletest": ("GoogleTest", "g(test|mock)/"),
    "com_github_google_benchmark": ("Google Benchmark", "benchmark/"),
    "eigen_archive": ("Eigen", "(unsupported/)?Eigen/"),
    "nlohmann_json": ("nlohmann/json", "nlohmann/"),
    "openssl": ("OpenSSL", "openssl/"),
    "libjpeg": ("libjpeg", r"j(peglib|error)\.h"),
    "libpng": ("libpng", r"png\.h"),
    "zlib": ("zlib", r"zlib\.h"),
    "onednn": ("oneDNN", r"dnnl\.h"),
    "isal": ("isa-l", "isa-l/"),
    "gloo": ("Gloo", "gloo/"),
    "local_cuda": ("CUDA", r"cu(da|blas|dnn)\w*\.h|nvrtc\.h"),
    "nccl": ("NCCL", r"nccl\.h"),  # a part of local_cuda
    "ucx": ("UCX", "ucp/"),         # loaded at run time
}


def _may_depend_on(readme):
    """Returns the sentence of a README that names the folders and libraries its folder uses."""
    match = re.search(r"^May depend on: (.*?)\n(?:\n|\Z)", readme, re.MULTILINE | re.DOTALL)
    return match[1].replace("\n", " ") if match else ""


def readmes_name_what_folders_use(tree):
    """A README names all folders and libraries that its folder includes, and no other library."""
    for line, match in _find(r'\b(?:pkg_config_repo|cuda_configure)\(\s*name = "(\w+)"',
                             tree.files.get("bazel/workspace.bzl", "")):
        if match[1] not in LIBRARIES:
            what = f"{match[1]} is not in house_rules.LIBRARIES"
            yield Violation("bazel/workspace.bzl", line, what)
    for top in LEVEL:
        sentence = _may_depend_on(tree.files.get(f"{top}/README.md", ""))
        if sentence.startswith("everything"):
            continue
        used = set()
        for path, text in tree.with_suffix(*CXX).items():
            if _top(path) != top:
                continue
            for line, match in _find(r'^\s*#\s*include\s+[<"]([^>"]+)', text):
                names = {name for name, headers in LIBRARIES.values()
                         if re.match(headers, match[1])}
                if _top(match[1]) in LEVEL and _top(match[1]) != top:
                    names.add(f"`{_top(match[1])}`")
                used |= names
                for name in sorted(names):
                    if name not in sentence:
                        yield Violation(path, line, f"{top}/README.md does not name {name}")
        for name, _ in LIBRARIES.values():
            if name in sentence and name not in used:
                yield Violation(f"{top}/README.md", 1, f"{top} does not use {name}")


def examples_can_be_copied(tree):
    """Examples can be copied into a user's project: public headers only, outside our namespace."""
    for path, text in tree.with_suffix(".h", ".cc").items():
        if _top(path) != "examples":
            continue
        for line, match in _find(r'^\s*#\s*include "(?!mirrorflow(?:_extend)?\.h")([^"]+)"', text):
            yield Violation(path, line, f"{match[1]} is not a public header")
        for line, _ in _find(r"^namespace mirrorflow\b(?! *=)", _blank_comments(text)):
            yield Violation(path, line, "an example must not be in the namespace of the library")


def no_path_of_one_machine(tree):
    for path, text in tree.files.items():
        for line, match in _find(r"(?<![\w.~$}])/(work|root|farm|home)/[a-z]\S*", text):
            yield Violation(path, line, f"{match[0]} is a path of a particular machine")


def files_begin_with_the_licence(tree):
    for path, text in tree.with_suffix(*CXX).items():
        if path == "examples/readme.cc":
            continue  # The README quotes it from its first byte.
        if not text.startswith("// SPDX-License-Identifier: Apache-2.0\n"):
            yield Violation(path, 1, "expected // SPDX-License-Identifier: Apache-2.0")


def headers_are_guarded_by_their_path(tree):
    """Two headers with the same guard would hide each other."""
    for path, text in tree.with_suffix(".h", ".cuh").items():
        guard = "MIRRORFLOW_" + re.sub(r"\W", "_", path).upper() + "_"
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            yield Violation(path, 1, f"expected the include guard {guard}")


def setup_installs_what_the_build_names(tree):
    setup = tree.files.get("tools/setup", "")
    for line, match in _find(r'\bapt = "([^"]+)"', tree.files.get("bazel/workspace.bzl", "")):
        for package in match[1].split():
            if not re.search(rf"(?<!\S){re.escape(package)}(?!\S)", setup):
                yield Violation("bazel/workspace.bzl", line, f"tools/setup does not install {package}")


# Calls that are safe only with checks around them, each with the files that have these checks.
GUARDED_CALLS = (
    (r"[Jj]son\w*::(?:(?:sax_)?parse|accept)\(|>>\s*\w*[Jj]son\b", "framework/core/json.h",
     ("framework/core/json.cc", "train/safetensors/safetensors_json.cc")),
    # Checks for links, pipes and half-written files. The benchmark writes to /proc.
    (r"\bstd::o?fstream\b|\bfopen\([^;]*\"[aw]|\b(?:creat|freopen)\(|\bO_(?:CREAT|TRUNC)\b",
     "framework/core/file.h",
     ("framework/core/file.cc", "tools/bench/graphs.cc")),
    # Checks for text that controls the terminal. These files print only their own text, or escape it.
    (r'\bf?printf\([^";]*"(?:[^"\\]|\\.|"\s*")*%[-\d.*]*s', "framework/core/terminal.h",
     ("framework/core/log_line.cc", "framework/core/status.cc", "framework/core/terminal.cc", "tools/fashion_mnist.cc",
      "tools/launch/supervisor_process.cc", "tools/mirrorflow.cc", "tools/cli/ops.cc")),
    # Text printed without a format, with a format that is not a literal, or by a stream.
    (r'\b(?:puts|fputs|perror)\((?!\s*")|\bfwrite\('
     r'|\bstd::(?:cout|cerr|clog)\b|\babsl::F?PrintF\('
     r'|\bwrite\(\s*(?:STD(?:OUT|ERR)_FILENO|[12])\b'
     r'|\bf?printf\((?:\s*std(?:out|err),)?\s*(?!["\s]|std(?:out|err)\b)',
     "framework/core/terminal.h",
     ("train/trainer/progress_host.cc",)),
    # Clang cannot check which members these guard.
    (r"\bstd::(?:(?:shared_|recursive_)?(?:timed_)?mutex|(?:lock_guard|unique_lock|scoped_lock|"
     r"shared_lock)\b|condition_variable(?:_any)?)\b", "framework/core/mutex.h", ("framework/core/mutex.h",)),
)


def dangerous_calls_have_one_owner(tree):
    for path, text in tree.with_suffix(*CXX).items():
        if _top(path) in ("tests", "examples"):
            continue
        for pattern, owner, files in GUARDED_CALLS:
            for line, match in () if path in files else _find(pattern, _blank_comments(text)):
                yield Violation(path, line, f"{match[0]} is called here; expected a function of {owner}")


# These print log lines, the last report of a process that may hang in the user's log sink, and a
# progress bar.
KEEP_STDERR = ("framework/core/log.cc", "framework/core/log_line.cc", "framework/core/log_line.h",
               "framework/core/terminal.h", "framework/runtime/error_report.cc", "train/trainer/progress_host.cc")


def the_library_logs(tree):
    """A user's program decides where messages go (SetLogSink), so the library does not print."""
    for path, text in tree.with_suffix(*CXX).items():
        if LEVEL.get(_top(path), 5) == 5 or path in KEEP_STDERR:
            continue
        for line, match in _find(r"\b(?:PrintError(?:Line|Literal|Report)|stderr|STDERR_FILENO)\b", _blank_comments(text)):
            yield Violation(path, line, f"{match[0]} is used here; expected framework/core/log.h")


# These record timestamps for people and other programs.
KEEP_TIME_OF_DAY = ("framework/core/log_line.cc", "tools/bench/trainer.cc", "train/summary/", "train/trainer/progress_host.cc")


def deadlines_are_monotonic(tree):
    """The time of day is only for display: changing it must not shorten or extend a wait."""
    for path, text in tree.with_suffix(*CXX).items():
        if _top(path) not in LEVEL or path.startswith(("tests/", *KEEP_TIME_OF_DAY)):
            continue
        for line, _ in _find(r"^(?!.*(?:\bFormatTime\(|\bToUnix\w+\(|\.time = )).*\babsl::Now\(",
                             _blank_comments(text)):
            yield Violation(path, line, "absl::Now() is called here; expected MonotonicTime::Now()")


# Numbers that no other process sees: the identity of a graph in memory; the name of a strategy,
# which graphs lose when they leave the process; a part of a file name that also has the process id;
# and a key of a cache.
KEEP_PROCESS_NUMBERS = ("framework/graph/graph.cc", "distribute/strategy/strategy.cc",
                        "train/summary/event_file_writer.cc", "kernels/cpu/onednn_primitive.cc")
_PROCESS_NUMBER = (r"^(?:\s*static(?: inline)? )?(?:std::atomic<)?u?int(?:\d+_t)?>? (\w+)"
                   r"(?: = 0|\{0?\})?;")


def numbers_belong_to_an_object(tree):
    """A worker that restarts counts from the beginning, and would disagree with the others."""
    for path, text in tree.with_suffix(*CXX).items():
        if LEVEL.get(_top(path), 5) == 5 or path in KEEP_PROCESS_NUMBERS:
            continue
        text = _blank_comments(text)
        for line, match in _find(_PROCESS_NUMBER, text):
            name = match[1]
            taken = rf"(?:return|[=(,]) *(?:\+\+{name}\b|{name}(?:\+\+(?! ==)|\.fetch_add\())"
            if re.search(taken, text):
                yield Violation(path, line, f"{name} numbers things of the whole process; expected "
                                            "a member of what they belong to")


MAX_WORDS = 4
# These test the wording of operating system errors and of a failed MF_CHECK.
PIN_WORDING = ("tests/framework/core/status_test.cc", "tests/framework/core/system_error_test.cc")
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_ASSERTION = re.compile(
    rf'\b(?:EXPECT|ASSERT)_\w+\((?:R"\((?:.|\n)*?\)"|{_STRING}|(?!<<)[^";])*')
# Matches what precedes the expected text of an error: a matcher, a compared message, a whole
# Status, or a death test.
_EXPECTS = re.compile(r"\b(?:HasSubstr|StartsWith|(?:Contains|Matches)Regex|absl::\w+Error)\("
                      r"|\bIsError\(\s*[\w:]+,|\bmessage\(\)\)?,|find\(|_(?:DEATH|EXIT)\(")


def tests_pin_no_sentence(tree):
    """Tests pin an error's code, place and one token, so better wording breaks no test."""
    for path, text in tree.with_suffix(".cc").items():
        if _top(path) != "tests" or path in PIN_WORDING:
            continue
        for assertion in _ASSERTION.finditer(text):
            start = _EXPECTS.search(assertion[0])
            code = re.sub(_STRING, "", assertion[0])
            if not start or not re.search(r"[eE]rror|[mM]essage|[sS]tatus|_(?:DEATH|EXIT)\(", code):
                continue
            for literal in re.findall(rf"{_STRING}(?:\s*{_STRING})*", assertion[0][start.end():]):
                sentence = re.sub(r'"\s*"', "", literal)[1:-1]
                if len(re.findall(r"(?<!\S)[A-Za-z]+[,;:.]?(?!\S)", sentence)) > MAX_WORDS:
                    line = text.count("\n", 0, assertion.start()) + 1
                    what = f"expected at most {MAX_WORDS} words of an error, got '{sentence}'"
                    yield Violation(path, line, what)


# Matches code that expects an error of any code, or compares only the message of a Status: by a
# matcher, with a literal, or in a helper that drops the code. A test may still check what a message
# does not contain, how it starts and how long it is.
_WITHOUT_CODE = (
    r"\b(?:message|status\(\)\.ToString)\(\)\)*,\s*(?:[\w:]*A(?:ll|ny)Of\(\s*)?[\w:]*\bHasSubstr\("
    r"|_(?:TRUE|FALSE)\([\w:]*StrContains\([^;]*?\bmessage\(\)"
    r"|_NE\([^;]*?\bmessage\(\)\.find\("
    r"|_EQ\([^;]*?\bmessage\(\)\)?,\s*(?:\"|[\w:]*StrCat\()"
    r"|_FALSE\([^;]*?\bok\(\)\)"
    r"|\breturn std::string\([^;]*?\bmessage\(\)\)")


def tests_pin_codes(tree):
    """IsError matches a token with its code: other errors at the same place may share the token."""
    for path, text in tree.with_suffix(".h", ".cc").items():
        if _top(path) != "tests" or path in PIN_WORDING:
            continue
        for line, _ in _find(_WITHOUT_CODE, text):
            yield Violation(path, line, "an error is expected without its code; expected IsError()")


# Names that the precompiled headers (bazel/rules/cc_library.bzl) declare. Omits those that many other
# headers also declare, such as std::string and std::move.
_DECLARED_BY = {
    "algorithm": r"std::(?:(?:stable_)?sort|min|max|clamp|count(?:_if)?|(?:any|all|none)_of"
                 r"|(?:lower|upper)_bound|(?:min|max)_element|transform|reverse)\(",
    "atomic": r"std::atomic\b",
    "functional": r"std::function\b",
    "map": r"std::(?:multi)?map\b",
    "memory": r"std::(?:unique_ptr|make_unique|shared_ptr|make_shared)\b",
    "optional": r"std::optional\b",
    "string": None,
    "thread": r"std::thread\b",
    "utility": None,
    "vector": r"std::vector\b",
    "absl/container/flat_hash_map.h": r"absl::flat_hash_map\b",
    "absl/container/flat_hash_set.h": r"absl::flat_hash_set\b",
    "absl/container/inlined_vector.h": r"absl::InlinedVector\b",
    "absl/functional/function_ref.h": r"absl::FunctionRef\b",
    "absl/status/status.h": r"absl::(?:Status|StatusCode|OkStatus|Is[A-Z]\w+|\w+Error)\b",
    "absl/status/statusor.h": r"absl::StatusOr\b",
    "absl/strings/match.h": r"absl::(?:StrContains|StartsWith|EndsWith)",
    "absl/strings/str_cat.h": r"absl::(?:Str(?:Cat|Append)|Hex)\b",
    "absl/strings/str_format.h": r"absl::Str(?:Append)?Format\b",
    "absl/strings/str_join.h": r"absl::StrJoin\b",
    "absl/strings/str_split.h": r"absl::(?:StrSplit|MaxSplits|SkipEmpty)\b",
    "absl/synchronization/mutex.h": r"absl::(?:\w*Mutex\w*|CondVar)\b",
    "absl/time/time.h": r"absl::(?:Duration|Time|(?:Nano|Micro|Milli)?[sS]econds|Minutes|Hours|UnixEpoch"
                        r"|(?:Zero|Infinite)Duration|InfiniteFuture|Format(?:Duration|Time)"
                        r"|To(?:Double|Int64|Unix)\w+)\b",
    "absl/types/span.h": r"absl::(?:Span|MakeSpan|MakeConstSpan)\b",
    "gtest/gtest.h": r"\b(?:TEST|TEST_F|TEST_P|EXPECT_EQ|EXPECT_TRUE)\(",
    "gmock/gmock.h": r"\bEXPECT_THAT\(",
}
# Includes between headers from outside the tree.
_ALSO_INCLUDES = {
    "absl/status/statusor.h": {"absl/status/status.h"},
    "absl/time/clock.h": {"absl/time/time.h"},
    "gmock/gmock.h": {"gtest/gtest.h"},
}


def precompiled_headers_are_included(tree):
    """A file includes what it uses, directly or through the tree's headers. With precompiled headers,
    the compiler does not report a missing #include."""
    rules = "bazel/rules/cc_library.bzl"
    if rules in tree.files:
        common = re.search(r"COMMON_HEADERS = \[(.*?)\]", tree.files[rules], re.DOTALL)
        for header in re.findall(r'"(.*?)"', common[1]):
            if header not in _DECLARED_BY:
                yield Violation(rules, 1, f"_DECLARED_BY in house_rules.py lacks {header}")
    files = tree.with_suffix(".h", ".cc")
    included = {path: set(re.findall(r'^#include [<"]([^">]+)', text, re.MULTILINE))
                for path, text in files.items()} | _ALSO_INCLUDES
    for path, text in files.items():
        reached = _reachable(path, included)
        code = re.sub(_STRING, '""', _blank_comments(text))
        for header, pattern in _DECLARED_BY.items():
            if pattern and header not in reached and (use := re.search(pattern, code)):
                line = code.count("\n", 0, use.start()) + 1
                yield Violation(path, line, f"{use[0]} is used without #include of {header}")


def libraries_use_the_macro(tree):
    """A BUILD file loads the project's cc_library, whose options the native rule does not have."""
    for path, text in tree.build_files().items():
        if re.search(r"^cc_library\(", text, re.MULTILINE) and "cc_library.bzl" not in text:
            yield Violation(path, 1, "cc_library without load of //bazel/rules:cc_library.bzl")


RULES = [
    includes_go_down,
    build_deps_go_down,
    no_two_folders_include_each_other,
    folders_keep_their_rows,
    visibility_goes_up,
    devices_stay_in_their_rooms,
    dangerous_calls_have_one_owner,
    deadlines_are_monotonic,
    the_library_logs,
    numbers_belong_to_an_object,
    tests_pin_no_sentence,
    tests_pin_codes,
    an_op_is_named_by_its_stem_alone,
    a_pass_has_the_name_of_its_file,
    an_optional_pass_shows_its_gain,
    files_are_short,
    folders_say_what_they_are,
    readmes_name_what_folders_use,
    examples_can_be_copied,
    no_path_of_one_machine,
    files_begin_with_the_licence,
    headers_are_guarded_by_their_path,
    libraries_use_the_macro,
    precompiled_headers_are_included,
    setup_installs_what_the_build_names,
]
