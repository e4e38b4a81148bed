// A region that ends in a phobos terminator. Trait ids are keyed by the compiler's spelling of
// types: were the dialect's C++ built with g++, phobos.return and phobos.yield would lose their
// terminator trait without any other sign, and this would fail with "block with no terminator".
// RUN: phobos-opt %s | FileCheck %s

// CHECK: phobos.kernel @k
phobos.kernel @k(%s: f32) {
  %t = phobos.map(%s) : (f32) -> tensor<4xf32> {
  ^bb0(%x: f32):
    // CHECK: phobos.yield
    phobos.yield %x : f32
  }
  // CHECK: phobos.return
  phobos.return
}
