// Strings of a collation as bytes that memcmp orders like the collation.

#include "text_key.h"

namespace millpond {

namespace {

enum Marker : uchar { BELOW = 1, END = 2, ABOVE = 3 };

// How many bytes the weights of one level of `bytes` bytes of text can take.
size_t most_weight_bytes(CHARSET_INFO *charset, size_t bytes) {
  size_t most = charset->strnxfrmlen(bytes);
  return (most > bytes * 4 ? most : bytes * 4) + 16;
}

}  // namespace

bool TextOrder::init(CHARSET_INFO *charset) {
  charset_ = charset;
  binary_ = charset == &my_charset_bin;
  pads_ = !binary_ && !(charset->state & MY_CS_NOPAD);
  levels_ = 0;
  if (binary_) {
    level_[levels_++] = WeightLevel{0, 1, {0}};
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
    if (!pads_) memset(level.pivot, 0, width);
  }
  return true;
}

void TextOrder::append(const uchar *text, size_t bytes, Buffer &out, Buffer &scratch) const {
  if (binary_) {
    append_level(level_[0], text, bytes, out);
    return;
  }
  size_t most = most_weight_bytes(charset_, bytes);
  for (uint i = 0; i < levels_; i++) {
    scratch.clear();
    uchar *weights = scratch.room(most);
    size_t length = charset_->strnxfrm(weights, most, static_cast<uint>(most), text, bytes, level_[i].flag);
    append_level(level_[i], weights, length, out);
  }
}

void TextOrder::append_level(const WeightLevel &level, const uchar *weights, size_t bytes,
                             Buffer &out) const {
  const uint width = level.width;
  auto is_pivot = [&](size_t at) { return memcmp(weights + at, level.pivot, width) == 0; };
  size_t end = bytes - bytes % width;
  while (pads_ && end >= width && is_pivot(end - width)) end -= width;
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
