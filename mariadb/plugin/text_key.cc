// Strings of a collation as bytes that memcmp orders like the collation.

#include "text_key.h"

namespace millpond {

namespace {

enum Marker : uchar { BELOW = 1, END = 2, ABOVE = 3 };

// Collations whose sort keys are not in the order of their comparison, by their numbers.
constexpr uint LATIN2_CZECH_CS = 2, CP1250_CZECH_CS = 34;
constexpr uint BIG5_CHINESE_CI = 1, BIG5_CHINESE_NOPAD_CI = 1025;
constexpr uint TIS620_THAI_NOPAD_CI = 1042;

// How many bytes the weights of one level of `bytes` bytes of text can take.
size_t most_weight_bytes(CHARSET_INFO *charset, size_t bytes) {
  size_t most = charset->strnxfrmlen(bytes);
  return (most > bytes * 4 ? most : bytes * 4) + 16;
}

}  // namespace

bool TextOrder::init(CHARSET_INFO *charset, bool fixed) {
  charset_ = charset;
  binary_ = charset == &my_charset_bin;
  const bool no_pad = charset->state & MY_CS_NOPAD;
  levels_ = 0;
  // These compare strings without their trailing spaces, and then as if nothing followed.
  strips_ = charset->number == LATIN2_CZECH_CS || charset->number == CP1250_CZECH_CS;
  // The sort keys have strokes, which the comparison does not know.
  by_code_ = charset->number == BIG5_CHINESE_CI || charset->number == BIG5_CHINESE_NOPAD_CI;
  // Weights are compared as C strings, except those of CHAR columns.
  stops_ = charset->number == TIS620_THAI_NOPAD_CI && !fixed;
  if (charset->number == LATIN2_CZECH_CS) {
    // The sort key has all four levels, with separators that are less than each weight.
    level_[levels_++] = WeightLevel{0, 1, false, {0}};
    return true;
  }
  if (binary_) {
    level_[levels_++] = WeightLevel{0, 1, false, {0}};
    return true;
  }
  uchar space[8];
  charset->cset->fill(charset, reinterpret_cast<char *>(space), charset->mbminlen, ' ');
  uint present = charset->levels_for_order ? charset->levels_for_order : 1;
  bool one = present == 1;
  for (uint i = 0; i < MY_STRXFRM_NLEVELS; i++) {
    if (!(present & (1u << i))) continue;
    WeightLevel &level = level_[levels_++];
    level.flag = one ? 0 : MY_STRXFRM_LEVEL1 << i;
    uchar weights[64];
    size_t width = charset->strnxfrm(weights, sizeof weights, 1, space, charset->mbminlen, level.flag);
    if (width == 0 || width > sizeof level.pivot) return false;
    level.width = static_cast<uint>(width);
    memcpy(level.pivot, weights, width);
    // After the first level the server's comparison of NO PAD collations pads too. Strings of CHAR
    // columns have their spaces, so it has nothing to pad there.
    level.pads = !strips_ && (!no_pad || (levels_ > 1 && !fixed));
    if (!level.pads) memset(level.pivot, 0, width);
  }
  return true;
}

// Puts the weights of one level into `scratch`, and returns their bytes.
size_t TextOrder::weights_of(const WeightLevel &level, const uchar *text, size_t bytes,
                             Buffer &scratch) const {
  const size_t most = most_weight_bytes(charset_, bytes);
  scratch.clear();
  uchar *weights = scratch.room(most);
  if (!by_code_) {
    return charset_->strnxfrm(weights, most, static_cast<uint>(most), text, bytes, level.flag);
  }
  size_t length = 0;
  for (size_t at = 0; at < bytes;) {
    const char *from = reinterpret_cast<const char *>(text);
    const bool two = my_ismbchar(charset_, from + at, from + bytes) > 1;
    weights[length++] = two ? text[at] : charset_->sort_order[text[at]];
    if (two) weights[length++] = text[at + 1];
    at += two ? 2 : 1;
  }
  return length;
}

void TextOrder::append(const uchar *text, size_t bytes, Buffer &out, Buffer &scratch) const {
  if (binary_) {
    append_level(level_[0], text, bytes, out);
    return;
  }
  while (strips_ && bytes > 0 && text[bytes - 1] == ' ') bytes--;
  for (uint i = 0; i < levels_; i++) {
    size_t length = weights_of(level_[i], text, bytes, scratch);
    if (stops_) length = strnlen(reinterpret_cast<const char *>(scratch.data()), length);
    append_level(level_[i], scratch.data(), length, out);
  }
}

void TextOrder::append_level(const WeightLevel &level, const uchar *weights, size_t bytes,
                             Buffer &out) const {
  const uint width = level.width;
  auto is_pivot = [&](size_t at) { return memcmp(weights + at, level.pivot, width) == 0; };
  size_t end = bytes - bytes % width;
  while (level.pads && end >= width && is_pivot(end - width)) end -= width;
  for (size_t at = 0; at < end;) {
    size_t plain = at;
    while (plain < end && !is_pivot(plain)) plain += width;
    out.append(weights + at, plain - at);
    at = plain;
    size_t next = at;
    while (next < end && is_pivot(next)) next += width;
    if (next == at) continue;
    Marker marker = next < end && memcmp(weights + next, level.pivot, width) < 0 ? BELOW : ABOVE;
    for (; at < next; at += width) {
      out.append(level.pivot, width);
      out.push(marker);
    }
  }
  out.append(level.pivot, width);
  out.push(END);
}

size_t TextOrder::encoded_bytes(const uchar *key, size_t bytes, uchar flip) const {
  size_t at = 0;
  for (uint i = 0; i < levels_; i++) {
    const uint width = level_[i].width;
    for (bool ends = false; !ends;) {
      if (at + width > bytes) return 0;
      bool pivot = true;
      for (uint b = 0; b < width; b++) pivot = pivot && (key[at + b] ^ flip) == level_[i].pivot[b];
      at += width;
      if (!pivot) continue;
      if (at >= bytes) return 0;
      ends = (key[at++] ^ flip) == END;
    }
  }
  return at;
}

}  // namespace millpond
