-- The largest tile with f32 output, for exactly the B200, in the spelling that wants it.
gemm {
  name      = "large",
  target    = "sm_100a",
  d         = { type = "f32", major = "n" },
  tile      = { m = 128, n = 256, k = 256 },
  scale_vec = true,
}
