-- One stage more than fits.
gemm {
  name   = "over",
  target = "sm_100f",
  tile   = { m = 128, n = 256, k = 256 },
  stages = 5,
}
