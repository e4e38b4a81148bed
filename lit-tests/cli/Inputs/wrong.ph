fn wrong(x: f32) -> f32 {
  return x + oops
}
