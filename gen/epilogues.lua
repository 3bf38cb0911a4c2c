-- The epilogues that have a name: gen --epilogue NAME, or epilogue = "NAME" in a config.
-- They are written in the language of docs/epilogues.md, so each is an example of it.
--
-- e.acc is alpha * A * B^T.  e.d(x) stores x as the config's d.type.

epilogue("identity", "acc", function(e)
  return e.d(e.acc)
end)

epilogue("bias", "acc + bias[n]", function(e)
  return e.d(e.acc + e.bias)
end)

epilogue("relu", "max(acc, 0)", function(e)
  return e.d(e.relu(e.acc))
end)

epilogue("relu2", "max(acc, 0)^2", function(e)
  return e.d(e.relu2(e.acc))
end)

epilogue("gelu_erf", "acc/2 (1 + erf(acc / sqrt(2)))", function(e)
  return e.d(e.gelu_erf(e.acc))
end)

epilogue("gelu_tanh", "acc/2 (1 + tanh(sqrt(2/pi) (acc + 0.044715 acc^3)))", function(e)
  return e.d(e.gelu_tanh(e.acc))
end)

epilogue("silu", "acc / (1 + exp(-acc))", function(e)
  return e.d(e.silu(e.acc))
end)

epilogue("softcap", "cap * tanh(acc / cap)", function(e)
  return e.d(e.softcap(e.acc, e.param("cap", { default = 30 })))
end)

epilogue("residual", "acc + beta * c[m][n]", function(e)
  return e.d(e.acc + e.param("beta", { default = 1 }) * e.aux "c")
end)

-- Gated: columns of the product are [gate 0..7, up 0..7, gate 8..15, up 8..15, ...], and
-- only what they become is stored, N / 2 columns of it.

local function swiglu(e)
  local gate, up = e.interleaved(8, { order = "gate_up" })
  return e.silu(gate) * up
end

local function geglu(e, gelu)
  local gate, up = e.interleaved(8, { order = "gate_up" })
  return gelu(gate) * up
end

-- gpt-oss: gate from above and up from both sides limited, up moved by beta.
local function swiglu_clamped(e)
  local gate, up = e.interleaved(8, { order = "gate_up" })
  local slope = e.param("slope", { default = 1.702 })
  local beta  = e.param("beta",  { default = 1 })
  local limit = e.param("limit", { default = 7 })
  gate = e.minimum(gate, limit)
  up   = e.clamp(up, -limit, limit)
  return gate * e.sigmoid(slope * gate) * (up + beta)
end

epilogue("swiglu", "silu(gate) * up", function(e)
  return e.d(swiglu(e))
end)

-- The form of older pipelines: N columns, up replaced by silu(gate) * up.
epilogue("swiglu_interleaved", "[gate, silu(gate) * up] in groups of 8", function(e)
  local gate = e.interleaved(8, { order = "gate_up" })
  return e.d(e.interleave(8, gate, swiglu(e)))
end)

epilogue("swiglu_clamped", "g = min(gate, limit): g sigmoid(slope g) (clamp(up, -limit, limit) + beta)", function(e)
  return e.d(swiglu_clamped(e))
end)

epilogue("geglu", "gelu_tanh(gate) * up", function(e)
  return e.d(geglu(e, e.gelu_tanh))
end)

epilogue("geglu_erf", "gelu_erf(gate) * up", function(e)
  return e.d(geglu(e, e.gelu_erf))
end)

-- Quantised: packed codes and their scales, ready to be the A operand of the next GEMM.

epilogue("nvfp4", "E2M1, UE4M3 scales of 16 columns, times d_global", function(e)
  return e.nvfp4(e.acc, { global = e.param "d_global" })
end)

epilogue("mxfp4", "E2M1, UE8M0 scales of 32 columns", function(e)
  return e.mxfp4(e.acc)
end)

epilogue("mxfp8", "E4M3, UE8M0 scales of 32 columns", function(e)
  return e.mxfp8(e.acc)
end)

epilogue("e4m3", "E4M3 of acc / d_scale", function(e)
  return e.e4m3(e.acc, { scale = e.param "d_scale" })
end)

epilogue("swiglu_nvfp4", "silu(gate) * up as NVFP4", function(e)
  return e.nvfp4(swiglu(e), { global = e.param "d_global" })
end)

epilogue("swiglu_clamped_nvfp4", "swiglu_clamped as NVFP4", function(e)
  return e.nvfp4(swiglu_clamped(e), { global = e.param "d_global" })
end)

epilogue("geglu_nvfp4", "gelu_tanh(gate) * up as NVFP4", function(e)
  return e.nvfp4(geglu(e, e.gelu_tanh), { global = e.param "d_global" })
end)

epilogue("swiglu_mxfp4", "silu(gate) * up as MXFP4", function(e)
  return e.mxfp4(swiglu(e))
end)

epilogue("swiglu_mxfp8", "silu(gate) * up as MXFP8", function(e)
  return e.mxfp8(swiglu(e))
end)

-- Two outputs: what was computed, and its largest size for the next global scale.
epilogue("swiglu_amax", "silu(gate) * up, and its amax", function(e)
  local h = swiglu(e)
  return e.d(h), e.amax(h)
end)
