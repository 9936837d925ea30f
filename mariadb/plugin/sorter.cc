// Sorts entries of a tree by their keys.

#include "sorter.h"

#include <algorithm>

#include <errno.h>
#include <unistd.h>

namespace millpond {

namespace {

// The lengths of key and value stand before them.
constexpr size_t LENGTHS = 2 * sizeof(uint32_t);
// At least so many bytes of each run are read at once.
constexpr size_t READ_MIN = 64 * 1024;

int order_of(millpond_bytes a, millpond_bytes b) {
  size_t both = a.len < b.len ? a.len : b.len;
  int order = both ? memcmp(a.ptr, b.ptr, both) : 0;
  if (order != 0) return order;
  return a.len < b.len ? -1 : a.len > b.len;
}

uint64_t prefix_of(millpond_bytes key) {
  unsigned char first[8] = {0};
  memcpy(first, key.ptr, key.len < 8 ? key.len : 8);
  return mi_uint8korr(first);
}

uint32_t length_at(const unsigned char *at) {
  uint32_t length;
  memcpy(&length, at, sizeof length);
  return length;
}

int write_all(int file, const unsigned char *from, size_t bytes, uint64_t at) {
  while (bytes) {
    ssize_t written = pwrite(file, from, bytes, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    from += written;
    bytes -= static_cast<size_t>(written);
    at += static_cast<uint64_t>(written);
  }
  return 0;
}

}  // namespace

Sorter::~Sorter() {
  if (file_ >= 0) ::close(file_);
}

millpond_bytes Sorter::key_at(size_t at) const {
  return bytes_of(&bytes_[at] + LENGTHS, length_at(&bytes_[at]));
}

millpond_bytes Sorter::value_at(size_t at) const {
  const unsigned char *lengths = &bytes_[at];
  return bytes_of(lengths + LENGTHS + length_at(lengths), length_at(lengths + sizeof(uint32_t)));
}

bool Sorter::add(millpond_bytes key, millpond_bytes value) {
  const size_t needed = LENGTHS + key.len + value.len;
  const size_t used = bytes_.size() + items_.size() * sizeof(Item);
  if (!items_.empty() && used + needed + sizeof(Item) > memory_) return false;
  if (ascending_ && !items_.empty()) ascending_ = order_of(key_at(items_.back().at), key) < 0;
  const size_t at = bytes_.size();
  const uint32_t lengths[2] = {static_cast<uint32_t>(key.len), static_cast<uint32_t>(value.len)};
  bytes_.resize(at + needed);
  memcpy(&bytes_[at], lengths, LENGTHS);
  memcpy(&bytes_[at] + LENGTHS, key.ptr, key.len);
  if (value.len) memcpy(&bytes_[at] + LENGTHS + key.len, value.ptr, value.len);
  items_.push_back(Item{prefix_of(key), at});
  return true;
}

void Sorter::clear() {
  bytes_.clear();
  items_.clear();
  shown_ = 0;
}

void Sorter::sort_memory() {
  if (ascending_) return;
  std::sort(items_.begin(), items_.end(), [this](const Item &a, const Item &b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    return order_of(key_at(a.at), key_at(b.at)) < 0;
  });
}

int Sorter::spill() {
  // Runs may overlap, so reading has to merge them.
  ascending_ = false;
  sort_memory();
  if (file_ < 0) {
    file_ = mysql_tmpfile("millpond");
    if (file_ < 0) return errno ? errno : EIO;
  }
  Run run{};
  run.from = file_bytes_;
  std::vector<unsigned char> out;
  out.reserve(1 << 20);
  for (size_t i = 0; i < items_.size(); i++) {
    const size_t at = items_[i].at;
    const size_t bytes = LENGTHS + key_at(at).len + value_at(at).len;
    out.insert(out.end(), &bytes_[at], &bytes_[at] + bytes);
    if (out.size() + LENGTHS < (1 << 20) && i + 1 < items_.size()) continue;
    if (int error = write_all(file_, out.data(), out.size(), file_bytes_)) return error;
    file_bytes_ += out.size();
    out.clear();
  }
  run.end = file_bytes_;
  runs_.push_back(run);
  clear();
  return 0;
}

int Sorter::sort() {
  if (runs_.empty()) {
    sort_memory();
    shown_ = 0;
    return 0;
  }
  if (!items_.empty()) {
    if (int error = spill()) return error;
  }
  std::vector<unsigned char>().swap(bytes_);
  std::vector<Item>().swap(items_);
  read_bytes_ = std::max(READ_MIN, memory_ / runs_.size());
  for (Run &run : runs_) {
    if (int error = advance(run)) return error;
    heap_.push_back(&run);
  }
  std::make_heap(heap_.begin(), heap_.end(), Later());
  return 0;
}

bool Sorter::Later::operator()(const Run *a, const Run *b) const { return order_of(a->key, b->key) > 0; }

// Makes at least `needed` bytes of a run readable from `run.at` on.
int Sorter::fill(Run &run, size_t needed) {
  size_t left = run.read.size() - run.at;
  if (left >= needed) return 0;
  memmove(run.read.data(), run.read.data() + run.at, left);
  run.at = 0;
  size_t more = static_cast<size_t>(std::min<uint64_t>(run.end - run.from, std::max(needed - left, read_bytes_)));
  run.read.resize(left + more);
  while (left < run.read.size()) {
    ssize_t got = pread(file_, &run.read[left], run.read.size() - left, static_cast<off_t>(run.from));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EIO;
    left += static_cast<size_t>(got);
    run.from += static_cast<uint64_t>(got);
  }
  return left < needed ? EIO : 0;
}

// Goes to the next entry of a run. At its end the key has no pointer.
int Sorter::advance(Run &run) {
  run.key = no_bytes();
  if (run.from == run.end && run.at == run.read.size()) return 0;
  if (int error = fill(run, LENGTHS)) return error;
  const size_t key = length_at(&run.read[run.at]);
  const size_t value = length_at(&run.read[run.at] + sizeof(uint32_t));
  if (int error = fill(run, LENGTHS + key + value)) return error;
  const unsigned char *at = &run.read[run.at] + LENGTHS;
  run.key = bytes_of(at, key);
  run.value = bytes_of(at + key, value);
  run.at += LENGTHS + key + value;
  return 0;
}

int Sorter::next(millpond_bytes *key, millpond_bytes *value) {
  if (runs_.empty()) {
    *key = no_bytes();
    if (shown_ == items_.size()) return 0;
    *key = key_at(items_[shown_].at);
    *value = value_at(items_[shown_].at);
    shown_++;
    return 0;
  }
  // The run whose entry was shown last stands at the end of the heap.
  if (shown_) {
    Run *last = heap_.back();
    if (int error = advance(*last)) return error;
    if (last->key.ptr) {
      std::push_heap(heap_.begin(), heap_.end(), Later());
    } else {
      heap_.pop_back();
    }
  }
  *key = no_bytes();
  if (heap_.empty()) return 0;
  std::pop_heap(heap_.begin(), heap_.end(), Later());
  *key = heap_.back()->key;
  *value = heap_.back()->value;
  shown_ = 1;
  return 0;
}

}  // namespace millpond
