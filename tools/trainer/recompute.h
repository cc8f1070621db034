// Activation checkpointing: a part of a model whose intermediate values are not kept for backward but computed again
// there, from the part's input (Chen et al. 2016).  Costs one more forward of the part, saves its memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace rondo::trainer {

/// A part of a model; `first` is false when it is computed again, and must then give the same bits, and change nothing.
using Part = std::function<at::Tensor(const at::Tensor& input, bool first)>;

/// part(input, true).  The part must live until backward, and `input` must need a gradient.
at::Tensor recomputed(const at::Tensor& input, Part part);

}  // namespace rondo::trainer
