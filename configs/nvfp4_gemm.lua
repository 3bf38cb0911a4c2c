-- NVFP4 GEMM, one 128 x 256 output tile per CTA: the default of every field.
-- Shared memory bounds it: a stage is 55296 bytes of the 232448, so four fit.
gemm {
  name     = "nvfp4_gemm",
  target   = "sm_100f",                           -- sm_100 and sm_103 parts
  a        = { type = "e2m1", scale = "ue4m3", block = 16, major = "k" },
  b        = { type = "e2m1", scale = "ue4m3", block = 16, major = "k" },
  d        = { type = "bf16", major = "n" },
  tile     = { m = 128, n = 256, k = 256 },       -- elements
  stages   = "auto",                              -- as many as fit
  warps    = { load = 1, mma = 1, epilogue = 4 },
  epilogue = "identity",                          -- D = alpha * A * B^T
  template = "gemm_tcgen05",
}
