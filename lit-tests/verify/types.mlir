// Verifiers of types and attributes.
// RUN: phobos-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{a tensor has at least one axis}}
phobos.kernel @k(%a: !phobos.tensor<[], f32>) {
  phobos.return
}

// -----

// expected-error@+1 {{a tensor's element must be a scalar or a block format, got 'index'}}
phobos.kernel @k(%a: !phobos.tensor<[M], index>) {
  phobos.return
}

// -----

// expected-error@+1 {{a tensor's element must be a scalar or a block format, got 'vector<4xf32>'}}
phobos.kernel @k(%a: !phobos.tensor<[M], vector<4xf32>>) {
  phobos.return
}

// -----

// expected-error@+1 {{a dim must be positive, got 0}}
phobos.kernel @k(%a: !phobos.tensor<[M, 0], f32>) {
  phobos.return
}

// -----

// expected-error@+1 {{a dim must be positive, got -3}}
phobos.kernel @k(%a: !phobos.tensor<[-3], f32>) {
  phobos.return
}

// -----

phobos.kernel @k() {
  // expected-error@+1 {{a dim must be positive, got 0}}
  %0 = phobos.undef : tensor<?x8xf32, #phobos.dims<["T", 0]>>
  phobos.return
}

// -----

// expected-error@+1 {{expected valid keyword or string}}
phobos.kernel @k(%a: !phobos.tensor<[M, 1.5], f32>) {
  phobos.return
}

// -----

// expected-error@+1 {{expected '['}}
phobos.kernel @k(%a: !phobos.tensor<M, f32>) {
  phobos.return
}

// -----

// expected-error@+1 {{unknown  type `tile` in dialect `phobos`}}
phobos.kernel @k(%a: !phobos.tile<[M], f32>) {
  phobos.return
}
