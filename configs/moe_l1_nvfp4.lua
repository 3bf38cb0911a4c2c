-- First GEMM of an expert: gate and up in one, SwiGLU, and NVFP4 for the second GEMM.
-- B holds the rows of gate and up in groups of eight by turns, so N is twice the
-- intermediate size; D is packed E2M1 with UE4M3 scales in the 128x4 layout, N / 2 columns.
gemm {
  name     = "moe_l1_nvfp4",
  tile     = { m = 128, n = 256, k = 256 },       -- a row of D in a tile is 64 bytes
  epilogue = function(e)
    local gate, up = e.interleaved(8, { order = "gate_up" })
    return e.nvfp4(e.silu(gate) * up, { global = e.param "d_global" })
  end,
}
