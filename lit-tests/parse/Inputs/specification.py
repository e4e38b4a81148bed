"""Prints the `mlir` blocks of SPEC.md; fails if its tables of operations and passes are not those of the compiler."""

import os
import re
import sys

root = sys.argv[1]


def read(*path):
    with open(os.path.join(root, *path), encoding="utf-8") as file:
        return file.read()


def folder(*path):
    for where, _, files in os.walk(os.path.join(root, *path)):
        yield from (os.path.join(where, file) for file in files)


specification = read("SPEC.md")


def table(name):
    return specification.split(f"<!-- {name} -->")[1].split(f"<!-- end {name} -->")[0]


def compare(what, documented, real):
    if documented != real:
        sys.exit(f"error: SPEC.md and the compiler differ in {what}: {sorted(documented ^ real)}")


operations = re.findall(r'Phobos_Op<"(\w+)"', read("dialect", "ir", "ods", "PhobosOps.td"))
compare("operations", set(re.findall(r"^\| `phobos\.(\w+)", table("operations"), re.M)), set(operations))
sources = [read(path) for path in folder("passes", "src") if path.endswith(".rs")]
passes = {name for source in sources for name in re.findall(r"\bPass = Pass \{\s*name: \"([\w-]+)\"", source)}
compare("passes", set(re.findall(r"^\| `([\w-]+)`", table("passes"), re.M)), passes)
print("\n// -----\n".join(re.findall(r"^```mlir\n(.*?)^```", specification, re.M | re.S)))
