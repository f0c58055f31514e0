/* oracle_attend.h - the operations over states with positions, for graph_oracle.c. */
#ifndef SUPPORT_ORACLE_ATTEND_H
#define SUPPORT_ORACLE_ATTEND_H

#include "support/graph_oracle.h"

/* kv_store, whose rows must lie where they belong; attend; and select, to whose lists the bound of
 * what a list begins with is UNKNOWN where it is open. */
void oracle_over_state(graph_oracle *o, const graph_value *v, double *y, double *ye);

#endif
