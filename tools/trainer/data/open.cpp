// A table of kinds, by name; see open.h.
#include "tools/trainer/data/open.h"

#include "tools/trainer/data/cifar.h"
#include "tools/trainer/data/fashion_mnist.h"
#include "tools/trainer/data/image_folder.h"
#include "tools/trainer/data/packed.h"
#include "tools/trainer/data/synthetic.h"

namespace rondo::data {
namespace {

constexpr int small_image = 64;

struct Kind {
  const char* name;
  std::unique_ptr<Dataset> (*open)(const Source& source);
};

const std::string& path_of(const Source& source) {
  if (source.path.empty()) throw DataError("say where the set '" + source.kind + "' is (--data-dir)");
  return source.path;
}

using Opened = std::unique_ptr<Dataset>;

constexpr Kind table[] = {
    {"fashion-mnist",
     [](const Source& source) -> Opened {
       return open_fashion_mnist(source.path.empty() ? fashion_mnist_folder : source.path, source.split);
     }},
    {"cifar10", [](const Source& source) -> Opened { return open_cifar10(path_of(source), source.split); }},
    {"folder", [](const Source& source) -> Opened { return open_image_folder(path_of(source), source.split); }},
    {"packed", [](const Source& source) -> Opened { return open_packed(path_of(source), source.split); }},
    {"synthetic",
     [](const Source& source) -> Opened {
       const Shape shape{source.image, source.image, 3};
       return make_synthetic({source.synthetic_size, shape, source.synthetic_classes, source.seed, source.split});
     }},
};

}  // namespace

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : table) names.emplace_back(kind.name);
  return names;
}

std::unique_ptr<Dataset> open_dataset(const Source& source) {
  std::string names;
  for (const Kind& kind : table) {
    if (source.kind == kind.name) return kind.open(source);
    names.append(names.empty() ? "" : ", ").append(kind.name);
  }
  throw DataError("there is no data set '" + source.kind + "'; there are: " + names);
}

Augmentation usual_augmentation(const Dataset& dataset, Split split, int image) {
  Augmentation wanted{.height = image, .width = image};
  const Shape shape = dataset.shape();
  if (dataset.name() == "synthetic") return wanted;
  const bool small = shape.height > 0 && shape.height < small_image;
  if (split == Split::training) {
    wanted.crop = small ? Crop::padded : Crop::random_resized;
    wanted.padding = image / 8;
    wanted.flip = true;
  } else if (!small) {
    wanted.crop = Crop::centre;
    wanted.short_side = image * 8 / 7;
  }
  return wanted;
}

}  // namespace rondo::data
