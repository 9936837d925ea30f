// The tables information_schema.MILLPOND_METRICS and MILLPOND_FSYNCS: every figure of the engine, and
// the syncs by file and reason.

#include "figures_tables.h"
#include "figures.h"
#include "info_row.h"

namespace millpond {

namespace {

constexpr uint DOUBLE_DIGITS = 24;

ST_FIELD_INFO metrics_columns[] = {
    Show::Column("NAME", Show::Varchar(64), NOT_NULL),
    Show::Column("VALUE", Show::Double(DOUBLE_DIGITS), NOT_NULL),
    Show::Column("KIND", Show::Varchar(7), NOT_NULL),
    Show::Column("HELP", Show::Varchar(512), NULLABLE),
    Show::CEnd(),
};

int fill_metrics(THD *thd, TABLE_LIST *tables, COND *) {
  if (lacks_process_privilege(thd)) return 1;
  InfoRow row(thd, tables->table);
  for (const Figure &figure : all_figures()) {
    row.text(figure.name).real(figure.value).text(figure.counter ? "counter" : "gauge").text_or_null(figure.help);
    if (row.store()) return 1;
  }
  return 0;
}

ST_FIELD_INFO fsyncs_columns[] = {
    Show::Column("FILE", Show::Varchar(16), NOT_NULL),
    Show::Column("REASON", Show::Varchar(32), NOT_NULL),
    Show::Column("COUNT", Show::ULonglong(), NOT_NULL),
    Show::Column("WAITERS", Show::ULonglong(), NOT_NULL),
    Show::Column("US_TOTAL", Show::ULonglong(), NOT_NULL),
    Show::Column("US_P50", Show::ULonglong(), NOT_NULL),
    Show::Column("US_P95", Show::ULonglong(), NOT_NULL),
    Show::Column("US_P99", Show::ULonglong(), NOT_NULL),
    Show::Column("US_MAX", Show::ULonglong(), NOT_NULL),
    Show::Column("HELP", Show::Varchar(256), NOT_NULL),
    Show::CEnd(),
};

int fill_fsyncs(THD *thd, TABLE_LIST *tables, COND *) {
  if (lacks_process_privilege(thd)) return 1;
  InfoRow row(thd, tables->table);
  for (const Syncs &syncs : all_syncs()) {
    row.text(syncs.file).text(syncs.reason).number(syncs.count).number(syncs.waiters).number(syncs.total);
    row.number(syncs.p50).number(syncs.p95).number(syncs.p99).number(syncs.longest).text(syncs.help);
    if (row.store()) return 1;
  }
  return 0;
}

}  // namespace

int start_metrics_table(void *place) { return start_info_table(place, metrics_columns, fill_metrics); }
int start_fsyncs_table(void *place) { return start_info_table(place, fsyncs_columns, fill_fsyncs); }

}  // namespace millpond
