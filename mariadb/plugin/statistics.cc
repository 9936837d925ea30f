// Statistics of one table for the server's optimizer.

#include "statistics.h"
#include "table.h"

#include <algorithm>
#include <cmath>
#include <mysql_version.h>

namespace millpond {

namespace {

// Leaf pages of each index that are looked at.
constexpr uint16_t LEAVES = 48;
// With fewer steps in the leaves the gaps between them say more.
constexpr ulonglong FEW_STEPS = 16;

// Counts the steps from one value to the next in the keys of an index, for each number of leading
// columns. As the keys are sorted, equal values are neighbours.
class StepCounter {
 public:
  StepCounter(const Table &table, const KEY &key, uint index);

  // Counts a key. `follows`: there is no other one between it and the one before.
  void add(const uchar *key, size_t bytes, bool follows);

  // Returns how many rows have the same columns, for each number of leading ones. `rows` is the
  // estimate of all, for an index that was not seen whole.
  std::vector<double> rows_per_key(double rows) const;

 private:
  struct Counts {
    ulonglong steps = 0;      // between neighbours
    ulonglong gap_steps = 0;  // between the end of a leaf and the beginning of the next one seen
  };

  double distinct(const Counts &counts, double rows) const;

  const KeyCodec &codec_;
  const KeyCodec *primary_;
  // For each number of leading columns, the place of the last one in the entry: a column of the
  // index, or one of the primary key after them. MAX_KEY: the columns name one row.
  std::vector<uint> last_part_;
  std::vector<Counts> counts_;
  std::vector<size_t> ends_;  // of the parts of the key before
  Buffer before_;
  ulonglong pairs_ = 0, gaps_ = 0, keys_ = 0;
};

StepCounter::StepCounter(const Table &table, const KEY &key, uint index)
    : codec_(table.index(index).codec), primary_(nullptr), counts_(key.ext_key_parts) {
  const bool is_primary = index == table.primary();
  if (table.has_primary() && !is_primary && !table.index(index).unique) {
    primary_ = &table.index(table.primary()).codec;
  }
  for (uint p = 0; p < key.ext_key_parts; p++) {
    uint place = p < codec_.parts() ? p : MAX_KEY;
    for (uint q = 0; place == MAX_KEY && primary_ && q < primary_->parts(); q++) {
      if (primary_->part(q).field + 1u == key.key_part[p].fieldnr) place = codec_.parts() + q;
    }
    last_part_.push_back(place);
  }
}

void StepCounter::add(const uchar *key, size_t bytes, bool follows) {
  const size_t both = std::min(bytes, before_.size());
  size_t same = std::mismatch(key, key + both, before_.data()).first - key;
  if (keys_++ > 0) {
    (follows ? pairs_ : gaps_)++;
    for (size_t p = 0; p < counts_.size(); p++) {
      // A column ends where its bytes say it, so a part is the same if all its bytes are.
      bool step = last_part_[p] == MAX_KEY || last_part_[p] >= ends_.size() || same < ends_[last_part_[p]];
      if (step) (follows ? counts_[p].steps : counts_[p].gap_steps)++;
    }
  }
  before_.assign(key, bytes);
  ends_.clear();
  size_t at = 0;
  for (uint p = 0; p < codec_.parts() + (primary_ ? primary_->parts() : 0); p++) {
    at = p < codec_.parts() ? codec_.part_end(p, key, bytes, at)
                            : primary_->part_end(p - codec_.parts(), key, bytes, at);
    if (at == 0) return;  // A damaged key differs from all others.
    ends_.push_back(at);
  }
}

// Returns how many different values there are.
double StepCounter::distinct(const Counts &counts, double rows) const {
  if (keys_ == 0) return 0;
  double seen = 1.0 + static_cast<double>(counts.steps + counts.gap_steps);
  if (gaps_ == 0) return seen;
  double by_steps = pairs_ ? 1 + static_cast<double>(counts.steps) * (rows - 1) / static_cast<double>(pairs_) : 0;
  // If steps are rare, some gaps have none. Their share tells how many an average gap has, as long
  // as the steps lie in no pattern (Poisson).
  double by_gaps = 0;
  if (counts.steps < FEW_STEPS && counts.gap_steps < gaps_) {
    double without = 1 - static_cast<double>(counts.gap_steps) / static_cast<double>(gaps_);
    by_gaps = 1 + static_cast<double>(gaps_) * -std::log(without);
    by_steps = 0;
  }
  return std::max(seen, std::max(by_steps, by_gaps));
}

std::vector<double> StepCounter::rows_per_key(double rows) const {
  std::vector<double> per_key;
  const bool whole = gaps_ == 0;
  if (whole) rows = static_cast<double>(keys_);
  for (size_t p = 0; p < counts_.size(); p++) {
    double values = last_part_[p] == MAX_KEY ? rows : distinct(counts_[p], rows);
    double same = values > 0 ? rows / values : rows;
    // As InnoDB, where nothing is estimated. A sample errs both ways, and is rounded.
    per_key.push_back(std::max(whole ? std::floor(same) : same, 1.0));
  }
  return per_key;
}

void count_key(void *counter, millpond_bytes key, int follows) {
  static_cast<StepCounter *>(counter)->add(key.ptr, key.len, follows != 0);
}

}  // namespace

int Statistics::renew(Table &table, const TABLE *form, bool always) {
  if (!always && !stale()) return 0;
  std::unique_lock<std::mutex> alone(renewing_, std::defer_lock);
  if (always || version_.load() == 0) {
    alone.lock();
  } else if (!alone.try_lock()) {
    return 0;  // Another handler does it; the present figures will do.
  }
  if (!always && !stale()) return 0;
  changes_.store(0, std::memory_order_relaxed);
  std::vector<RowsPerKey> indexes;
  ulonglong bytes = 0, most_rows = 0;
  for (uint i = 0; i < table.indexes(); i++) {
    millpond_table_stats sizes{};
    StepCounter counter(table, form->key_info[i], i);
    int rc = millpond_table_sizes(database, table.tree(i), &sizes);
    if (rc == MILLPOND_RC_OK) rc = millpond_sample_keys(database, table.tree(i), LEAVES, count_key, &counter);
    if (rc != MILLPOND_RC_OK) return rc;
    indexes.push_back(counter.rows_per_key(static_cast<double>(sizes.rows)));
    most_rows = std::max<ulonglong>(most_rows, sizes.rows);
    if (i != table.primary()) bytes += sizes.pages * sizes.page_bytes;
  }
  {
    std::lock_guard<std::mutex> guard(mutex_);
    indexes_.swap(indexes);
  }
  index_bytes_.store(bytes, std::memory_order_relaxed);
  limit_.store(16 + most_rows / 10, std::memory_order_relaxed);
  version_.fetch_add(1, std::memory_order_release);
  table.forget_sizes();
  return MILLPOND_RC_OK;
}

void Statistics::show(TABLE *form, ulonglong *seen) const {
  ulonglong version = version_.load(std::memory_order_acquire);
  if (version == *seen) return;
  // Before 11.0 the optimizer rates reads by an index too high. InnoDB then names half of the rows
  // for each key; so do we, for the same plans.
  const double share = MYSQL_VERSION_ID < 110000 ? 0.5 : 1;
  std::lock_guard<std::mutex> guard(mutex_);
  for (uint i = 0; i < indexes_.size() && i < form->s->keys; i++) {
    KEY &key = form->key_info[i];
    for (uint p = 0; p < key.ext_key_parts && p < indexes_[i].size(); p++) {
      double rows = std::round(indexes_[i][p]) * share;
      key.rec_per_key[p] = rows < 1 ? 1 : static_cast<ulong>(rows);
    }
  }
  *seen = version;
}

}  // namespace millpond
