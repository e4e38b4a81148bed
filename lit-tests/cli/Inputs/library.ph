const HALF = 0.5

fn halved(x: f32) -> f32 {
  return x * HALF
}
