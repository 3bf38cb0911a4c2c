-- Scale columns cannot start at row 96; and a field that does not exist.
gemm {
  name   = "odd",
  target = "sm_100f",
  tile   = { m = 128, n = 96, k = 256 },
  stage  = 2,
}
