"""Configuration of lit for the Phobos tests.

`cargo xtask test lit` builds and runs them all. By hand, after `cargo build --release --workspace`:

    /usr/lib/llvm-22/bin/lit -v lit-tests/passes --filter mask

Substitutions, besides those of lit:
    phobos-opt, phobos-compile, ...   the programs of PHOBOS_BIN (target/release unless set)
    mlir-opt, FileCheck, ptxas, ...   the tools of LLVM 22; ptxas where it is found
    %phobos_plugin                    the shared object for mlir-opt's --load-dialect-plugin/--load-pass-plugin
    %root                             the root of the checkout
    %{status} N COMMAND               COMMAND, which must exit with N
    %python                           the Python that runs lit

Features for REQUIRES: host-x86-64-v2, -v3, -v4, -v4-vnni (levels that this CPU has), ptxas.
"""

import os
import re
import shutil
import sys

import lit.formats

LLVM_BIN = "/usr/lib/llvm-22/bin"
COMPILER_TOOLS = ["phobos-opt", "phobos-compile"]
OTHER_TOOLS = ["phobos-cli", "phobos-emu"]
LLVM_TOOLS = ["mlir-opt", "mlir-translate", "FileCheck", "split-file", "llvm-readelf", "llvm-nm"]

# x86-64 psABI, section 3.1.1, in the names of /proc/cpuinfo; each level includes those below it.
HOST_LEVELS = [
    ("host-x86-64-v2", "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"),
    ("host-x86-64-v3", "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"),
    ("host-x86-64-v4", "avx512f avx512bw avx512cd avx512dq avx512vl"),
    ("host-x86-64-v4-vnni", "avx512f avx512bw avx512cd avx512dq avx512vl avx512_vnni"),
]


def require(path, how):
    """Returns `path`, or ends the run with a line that says what to do."""
    if not os.path.exists(path):
        lit_config.fatal(f"{path} is not there: {how}")
    return path


def host_levels():
    """The names of the levels that this CPU has."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as cpuinfo:
            line = next((line for line in cpuinfo if line.startswith("flags")), "")
    except OSError:
        return
    flags = set(line.partition(":")[2].split())
    for name, needed in HOST_LEVELS:
        if not flags.issuperset(needed.split()):
            return
        yield name


def substitute(tool, path):
    """Puts `path` where `tool` stands as a word of its own, not as a part of a name or path."""
    config.substitutions.append((r"(?<![\w./%-])" + re.escape(tool) + r"(?![\w./-])", path))


root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
binaries = os.path.abspath(os.environ.get("PHOBOS_BIN") or os.path.join(root, "target", "release"))

config.name = "Phobos"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".ph", ".test"]
# Folders of files that tests read and that are no tests.
config.excludes = ["Inputs"]
config.test_source_root = os.path.join(root, "lit-tests")
config.test_exec_root = os.path.join(binaries, "lit-tests")

how_to_build = "build the programs with `cargo build --release --workspace`, or set PHOBOS_BIN to their folder"
how_to_install = "`cargo xtask test setup` installs it"
for tool in COMPILER_TOOLS:
    substitute(tool, require(os.path.join(binaries, tool), how_to_build))
# Of the others, only the tests that call one need it.
for tool in OTHER_TOOLS:
    substitute(tool, os.path.join(binaries, tool))
for tool in LLVM_TOOLS:
    substitute(tool, require(os.path.join(LLVM_BIN, tool), how_to_install))
plugin = require(os.path.join(binaries, "libphobos_plugin.so"), how_to_build)
config.substitutions.append(("%phobos_plugin", plugin))
config.substitutions.append(("%root", root))
config.substitutions.append(("%python", sys.executable))
# `%{status} 2 COMMAND` succeeds if COMMAND exits with 2; its output is passed on.
status = os.path.join(root, "lit-tests", "status.py")
config.substitutions.append((re.escape("%{status}"), f"{sys.executable} {status}"))

config.available_features.update(host_levels())
ptxas = os.environ.get("PHOBOS_PTXAS") or shutil.which("ptxas")
if ptxas:
    config.available_features.add("ptxas")
    substitute("ptxas", ptxas)

# `not` and whatever else has no substitution.
config.environment["PATH"] = os.pathsep.join([LLVM_BIN, os.environ.get("PATH", os.defpath)])
config.environment["PHOBOS_COMPILE"] = os.path.join(binaries, "phobos-compile")
# Tests neither see nor fill the user's kernel cache.
config.environment["HOME"] = config.test_exec_root
config.environment["XDG_CACHE_HOME"] = os.path.join(config.test_exec_root, "cache")
if "PHOBOS_BLESS" in os.environ:
    config.environment["PHOBOS_BLESS"] = os.environ["PHOBOS_BLESS"]
