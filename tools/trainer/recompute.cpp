// See recompute.h.  Backward builds the part's graph from a detached input and runs backward through it, inside the
// backward that called it: gradients of the part's parameters arrive as they always do, hooks included.
#include "tools/trainer/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "tools/trainer/precision.h"

namespace rondo::trainer {
namespace {

using torch::autograd::variable_list;

struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            std::shared_ptr<Part> part, Precision precision) {
    context->save_for_backward({input});
    at::Tensor output = (*part)(input, true);
    context->saved_data["precision"] = static_cast<std::int64_t>(precision);
    context->saved_data["part"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(std::move(part)));
    return output;
  }

  static variable_list backward(torch::autograd::AutogradContext* context, const variable_list& gradients) {
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data["part"].toCapsule());
    const auto precision = static_cast<Precision>(context->saved_data["precision"].toInt());
    const at::Tensor input = context->get_saved_variables()[0].detach().set_requires_grad(true);
    at::Tensor output;
    {
      const at::AutoGradMode gradients_on(true);
      const Autocast autocast(input.device().type(), precision);
      output = (*kept->part)(input, false);
    }
    torch::autograd::backward({output}, {gradients[0]});
    return {input.grad(), {}, {}};
  }

 private:
  /// Autograd keeps what derives from this.
  struct Kept : torch::CustomClassHolder {
    explicit Kept(std::shared_ptr<Part> kept) : part(std::move(kept)) {}
    std::shared_ptr<Part> part;  // shared by the graph's node and by who runs it
  };
};

}  // namespace

at::Tensor recomputed(const at::Tensor& input, Part part) {
  return Recomputed::apply(input, std::make_shared<Part>(std::move(part)), Autocast::current(input.device().type()));
}

}  // namespace rondo::trainer
