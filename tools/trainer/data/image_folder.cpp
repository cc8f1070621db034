// A sorted list of files; see image_folder.h.
#include "tools/trainer/data/image_folder.h"

#include <algorithm>
#include <filesystem>

#include "tools/trainer/data/jpeg.h"

namespace rondo::data {
namespace {

namespace fs = std::filesystem;

struct File {
  std::uint32_t label = 0;
  std::string name;  // below its class's folder
};

class ImageFolder final : public Dataset {
 public:
  ImageFolder(std::string name, fs::path folder, std::vector<std::string> classes, std::vector<File> files)
      : name_(std::move(name)), folder_(std::move(folder)), classes_(std::move(classes)), files_(std::move(files)) {}
  std::size_t size() const override { return files_.size(); }
  int classes() const override { return static_cast<int>(classes_.size()); }
  Shape shape() const override { return {0, 0, 3}; }
  std::int64_t label(std::size_t index) const override { return files_[index].label; }
  Normalisation normalisation() const override {
    return {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};  // of ImageNet, as its models everywhere use
  }
  std::string name() const override { return name_; }
  std::unique_ptr<Reader> reader() const override;
  std::string path(std::size_t index) const {
    return (folder_ / classes_[files_[index].label] / files_[index].name).string();
  }

 private:
  std::string name_;
  fs::path folder_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

class FolderReader final : public Reader {
 public:
  explicit FolderReader(const ImageFolder& folder) : folder_(folder) {}
  Shape open(std::size_t index) override { return decoder_.open(folder_.path(index)); }
  Image pixels(const Shape& least) override { return decoder_.pixels(least); }

 private:
  const ImageFolder& folder_;
  JpegDecoder decoder_;
};

std::unique_ptr<Reader> ImageFolder::reader() const { return std::make_unique<FolderReader>(*this); }

bool is_jpeg(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  return ending == ".jpg" || ending == ".jpeg";
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<File> files_in(const fs::path& folder, const std::vector<std::string>& classes) {
  std::vector<File> files;
  for (std::uint32_t label = 0; label < classes.size(); ++label) {
    const fs::path of_class = folder / classes[label];
    const std::size_t first = files.size();
    if (!fs::exists(of_class)) continue;  // a test set may lack a class
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(of_class)) {
      if (entry.is_regular_file() && is_jpeg(entry.path())) {
        files.push_back({label, entry.path().lexically_relative(of_class).string()});
      }
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end(),
              [](const File& a, const File& b) { return a.name < b.name; });
  }
  return files;
}

}  // namespace

std::unique_ptr<Dataset> open_image_folder(const std::string& folder, Split split) {
  const fs::path train = fs::path(folder) / "train";
  fs::path wanted = train;
  if (split == Split::test)
    wanted = fs::exists(fs::path(folder) / "val") ? fs::path(folder) / "val" : fs::path(folder) / "test";
  try {
    if (!fs::is_directory(wanted)) {
      throw DataError("there is no folder " + wanted.string() +
                      ": images lie in FOLDER/train/CLASS and FOLDER/val/CLASS");
    }
    std::vector<std::string> classes = folders_in(fs::is_directory(train) ? train : wanted);
    for (const std::string& name : folders_in(wanted)) {
      if (!std::binary_search(classes.begin(), classes.end(), name)) {
        throw DataError(wanted.string() + " has a class '" + name + "' that " + train.string() + " lacks");
      }
    }
    std::vector<File> files = files_in(wanted, classes);
    if (files.empty()) throw DataError("there are no JPEG files in the folders of " + wanted.string());
    return std::make_unique<ImageFolder>(wanted.string(), wanted, std::move(classes), std::move(files));
  } catch (const fs::filesystem_error& trouble) {
    throw DataError("cannot list " + wanted.string() + ": " + trouble.code().message());
  }
}

}  // namespace rondo::data
