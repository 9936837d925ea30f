// The engine's figures, with their names.

#include "figures.h"

namespace millpond {

namespace {

int collect(void *context, millpond_bytes name, double value, uint32_t is_counter, millpond_bytes help) {
  static_cast<std::vector<Figure> *>(context)->push_back({text_of(name), value, is_counter != 0, text_of(help)});
  return 0;
}

int collect_syncs(void *context, const millpond_fsync *row) {
  static_cast<std::vector<Syncs> *>(context)->push_back({text_of(row->file), text_of(row->reason), text_of(row->help),
                                                         row->count, row->waiters, row->us_total, row->p50_us,
                                                         row->p95_us, row->p99_us, row->max_us});
  return 0;
}

}  // namespace

std::vector<Figure> all_figures() {
  std::vector<Figure> figures;
  millpond_metrics(database, collect, &figures);
  return figures;
}

std::vector<Syncs> all_syncs() {
  std::vector<Syncs> syncs;
  millpond_fsyncs(database, collect_syncs, &syncs);
  return syncs;
}

}  // namespace millpond
