-- The smallest tile, three stages.
gemm {
  name   = "small",
  target = "sm_100f",
  tile   = { m = 128, n = 64, k = 128 },
  stages = 3,
}
