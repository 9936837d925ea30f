// Growing bytes for keys and rows. Memory is kept between uses, so that a row costs no allocation.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace millpond {

class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { free(bytes_); }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  unsigned char *data() { return bytes_; }
  const unsigned char *data() const { return bytes_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }
  void truncate(size_t size) { size_ = size; }

  // Returns the place of `more` bytes after the end. They count after advance().
  unsigned char *room(size_t more) {
    if (size_ + more > capacity_) grow(size_ + more);
    return bytes_ + size_;
  }
  void advance(size_t bytes) { size_ += bytes; }

  void push(unsigned char byte) {
    *room(1) = byte;
    size_++;
  }
  void append(const void *from, size_t bytes) {
    if (bytes == 0) return;
    memcpy(room(bytes), from, bytes);
    size_ += bytes;
  }
  void assign(const void *from, size_t bytes) {
    clear();
    append(from, bytes);
  }
  bool equals(const void *other, size_t bytes) const {
    return bytes == size_ && (bytes == 0 || memcmp(bytes_, other, bytes) == 0);
  }

 private:
  // Aborts where memory is exhausted: the server does the same for blocks of this size.
  void grow(size_t needed) {
    size_t capacity = capacity_ < 128 ? 128 : capacity_ * 2;
    while (capacity < needed) capacity *= 2;
    unsigned char *bytes = static_cast<unsigned char *>(realloc(bytes_, capacity));
    if (bytes == nullptr) {
      fprintf(stderr, "Millpond: no memory for %zu bytes\n", capacity);
      abort();
    }
    bytes_ = bytes;
    capacity_ = capacity;
  }

  unsigned char *bytes_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace millpond
