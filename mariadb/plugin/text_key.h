// Strings of a collation as bytes that memcmp orders like the collation.
#pragma once

#include <my_global.h>
#include <m_ctype.h>

#include "buffer.h"

namespace millpond {

// One level of a collation's weights. Every weight has `width` bytes.
struct WeightLevel {
  uint flag;
  uint width;
  // A shorter string compares as if weights of spaces followed it.
  bool pads;
  // If it pads, the weight of a space; else zeros, the least weight.
  uchar pivot[8];
};

// Encodes a string as its weights, level by level.
//
// A shorter string has to compare as if pivots without end followed it. So each pivot is followed
// by a marker that says how the string goes on after this run of pivots: with a weight below the
// pivot, not at all, or with a weight above it. An encoded string ends with a pivot and the marker
// of the end. No encoded string is a prefix of another, and trailing spaces take no room.
class TextOrder {
 public:
  // Returns false if the collation gives no weights that can be used. `fixed`: the strings are of a
  // CHAR column, and have its spaces at the end.
  bool init(CHARSET_INFO *charset, bool fixed);

  // Appends the encoded string. `scratch` is overwritten.
  void append(const uchar *text, size_t bytes, Buffer &out, Buffer &scratch) const;

  // Returns how many bytes an encoded string takes of those at `key`, or 0 if it does not end there.
  // `flip` is 0xff if the bytes are inverted, else 0.
  size_t encoded_bytes(const uchar *key, size_t bytes, uchar flip) const;

  CHARSET_INFO *charset() const { return charset_; }

 private:
  void append_level(const WeightLevel &level, const uchar *weights, size_t bytes, Buffer &out) const;

  size_t weights_of(const WeightLevel &level, const uchar *text, size_t bytes, Buffer &scratch) const;

  CHARSET_INFO *charset_ = nullptr;
  bool binary_ = false;
  bool strips_ = false;   // Trailing spaces count for nothing, and are not padded with.
  bool by_code_ = false;  // Characters of two bytes are ordered by their bytes.
  bool stops_ = false;    // Weights count up to the first zero.
  uint levels_ = 0;
  WeightLevel level_[MY_STRXFRM_NLEVELS];
};

}  // namespace millpond
