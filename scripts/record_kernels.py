#!/usr/bin/env python3
"""Records which kernels the models under models/ need, as a manifest for `phobos-cache warm`.

Each GGUF file is run once, briefly, by phobos-bench with PHOBOS_KERNEL_MANIFEST set. That records the requests
of the model, and those that files of the same shape with other weight formats would make. A file that cannot be
run is named and the rest go on.

Exit status: 0 done, 1 some files could not be run, 2 the command line is wrong.
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

EXAMPLES = """\
examples:
  scripts/record_kernels.py --out manifest
  scripts/record_kernels.py --out manifest --bench target/release/phobos-bench model.gguf -- --kv f32
  phobos-cache warm --manifest manifest --chip all
"""


def arguments():
    parser = argparse.ArgumentParser(
        usage="%(prog)s --out DIR [OPTIONS] [FILE ...] [-- ARGUMENTS OF phobos-bench]",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files",
        nargs="*",
        type=pathlib.Path,
        metavar="FILE",
        help="the GGUF files [default: every *.gguf in and below models/, those of tests left out]",
    )
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="DIR", help="the manifest to add to")
    parser.add_argument(
        "--bench",
        type=pathlib.Path,
        default=ROOT / "target/release/phobos-bench",
        metavar="PATH",
        help="the phobos-bench to run [default: target/release/phobos-bench]",
    )
    parser.add_argument(
        "--prompt-tokens", type=int, default=1, metavar="N", help="tokens of the prompt [default: 1]"
    )
    parser.add_argument("--gen-tokens", type=int, default=1, metavar="N", help="tokens to generate [default: 1]")
    # What follows `--` is phobos-bench's own.
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    parsed = parser.parse_args(words[:split])
    parsed.further = words[split + 1 :]
    return parser, parsed


def model_files():
    models = ROOT / "models"
    found = sorted(models.rglob("*.gguf"))
    return [path for path in found if "tests" not in path.relative_to(models).parts]


def recipes(manifest):
    return sum(1 for path in manifest.glob("*.json")) if manifest.is_dir() else 0


def precisions(parsed):
    """Kernels differ by the precision of activations: both are recorded, unless one is asked for."""
    asked = any(word == "--act" or word.startswith("--act=") for word in parsed.further)
    return [[]] if asked else [["--act", "f32"], ["--act", "q8"]]


def record(parsed, file):
    return all([record_in(parsed, file, precision) for precision in precisions(parsed)])


def record_in(parsed, file, precision):
    command = [parsed.bench, "--gguf", file, "--repeat", "1", *precision]
    command += ["--prompt-tokens", str(parsed.prompt_tokens), "--gen-tokens", str(parsed.gen_tokens)]
    environment = {**os.environ, "PHOBOS_KERNEL_MANIFEST": str(parsed.out.absolute())}
    before = recipes(parsed.out)
    # Speeds of so short a run mean nothing.
    status = subprocess.run(command + parsed.further, env=environment, stdout=subprocess.DEVNULL).returncode
    new = recipes(parsed.out) - before
    if status != 0:
        print(f"error: {file}: phobos-bench failed with status {status}; {new} new kernels", file=sys.stderr)
        return False
    print(" ".join([f"{file}: {new} new kernels", *precision]))
    return True


def main():
    parser, parsed = arguments()
    if not os.access(parsed.bench, os.X_OK):
        parser.error(f"{parsed.bench}: not a program; build it with `cargo build --release -p phobos-cli`")
    files = parsed.files or model_files()
    if not files:
        parser.error(f"no GGUF files under {ROOT / 'models'}; `cargo xtask demo` fetches one")
    for file in parsed.files:
        if not file.is_file():
            parser.error(f"{file}: no such file")
    failed = [file for file in files if not record(parsed, file)]
    print(f"{parsed.out}: {recipes(parsed.out)} kernels of {len(files) - len(failed)} models")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
