// The tables information_schema.MILLPOND_METRICS and MILLPOND_FSYNCS.
#pragma once

namespace millpond {

// Describe the tables to the server.
int start_metrics_table(void *place);
int start_fsyncs_table(void *place);

}  // namespace millpond
