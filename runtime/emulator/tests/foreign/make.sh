#!/bin/sh
# Makes the PTX files here. Needs Python only:
#   python3 -m venv V
#   V/bin/pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl triton
#   make.sh V
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=$(cd "$1" && pwd)
cu=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)
cd "$here"
compile() {
    "$cu/bin/nvcc" -ptx -O3 -lineinfo -std=c++17 -arch="compute_$2" \
        -I "$cu/include" -I "$cu/include/cccl" "$1.cu" -o "$1.ptx"
    sed -i 's|\(\.file[[:space:]]*[0-9]*\) ".*/\([^/"]*\)"|\1 "\2"|; s|"/[^"]*/\([^/"]*\)"|"\1"|' "$1.ptx"
}
compile kernels 75
compile kernels80 80
compile functions 80
compile cub 80
TRITON_CACHE_DIR=$(mktemp -d) "$venv/bin/python" matmul.py "$here"
TRITON_CACHE_DIR=$(mktemp -d) "$venv/bin/python" triton/kernels.py "$here/triton"
