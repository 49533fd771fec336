// SPDX-License-Identifier: Apache-2.0
// What other hosts found wrong, to rank 0: the lowest rank of each other host sends its warnings and failures as JSON.
#include "daemon/doctor/doctor.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static char *wrong_print(const struct doctor *d) {
    json_t *all = json_array();
    for (size_t i = 0; i < d->n; i++)
        if (d->findings[i].level != DOCTOR_OK)
            json_array_append_new(all,
                                  json_pack("{s:s, s:i, s:i, s:s, s:s?}", "subject", d->findings[i].subject, "level",
                                            (int)d->findings[i].level, "status", (int)d->findings[i].status, "found",
                                            d->findings[i].found, "fix", d->findings[i].fix));
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

static void wrong_add(struct doctor *d, const char *host, const json_t *one) {
    const char *name = json_string_value(json_object_get(one, "subject"));
    const char *found = json_string_value(json_object_get(one, "found"));
    const char *fix = json_string_value(json_object_get(one, "fix"));
    int level = (int)json_integer_value(json_object_get(one, "level"));
    const char *subject = name ? doctor_subject(name) : NULL;
    if (subject && found)
        doctor_add(d, (struct finding){.subject = subject,
                                       .host = strdup(host),
                                       .level = level == DOCTOR_FAIL ? DOCTOR_FAIL : DOCTOR_WARN,
                                       .status = (enum status)json_integer_value(json_object_get(one, "status")),
                                       .found = strdup(found),
                                       .fix = fix ? strdup(fix) : NULL});
}

// To rank 0: the host's name, the size, the text.
static enum status wrong_send(const struct doctor *d) {
    char *text = wrong_print(d);
    uint64_t size = text ? strlen(text) : 0;
    enum status status = comm_send(d->comm, 0, d->comm->host, sizeof d->comm->host);
    if (status == STATUS_OK)
        status = comm_send(d->comm, 0, &size, sizeof size);
    if (status == STATUS_OK && size)
        status = comm_send(d->comm, 0, text, size);
    free(text);
    return status;
}

static enum status wrong_receive(struct doctor *d, int peer) {
    char host[sizeof d->comm->host];
    uint64_t size;
    TRY(comm_receive(d->comm, peer, host, sizeof host));
    TRY(comm_receive(d->comm, peer, &size, sizeof size));
    char *text = size < TEXT_MAX ? calloc(1, size + 1) : NULL;
    if (!text)
        return status_set(STATUS_SYSTEM, "doctor: no memory");
    enum status status = size ? comm_receive(d->comm, peer, text, size) : STATUS_OK;
    json_t *all = status == STATUS_OK ? json_loads(text, 0, NULL) : NULL, *one;
    size_t i;
    host[sizeof host - 1] = '\0';
    json_array_foreach(all, i, one) {
        wrong_add(d, host, one);
    }
    json_decref(all);
    free(text);
    return status;
}

// One rank of each other host speaks.
enum status doctor_gather(struct doctor *d) {
    struct comm *comm = d->comm;
    uint32_t mine = comm->rank != 0 && comm->local_rank == 0, *speaks = calloc((size_t)comm->world, sizeof *speaks);
    enum status status =
        speaks ? comm_all_gather(comm, &mine, speaks, sizeof mine) : status_set(STATUS_SYSTEM, "doctor: no memory");
    if (status == STATUS_OK && mine)
        status = wrong_send(d);
    for (int rank = 1; status == STATUS_OK && comm->rank == 0 && rank < comm->world; rank++)
        if (speaks[rank])
            status = wrong_receive(d, rank);
    free(speaks);
    return status;
}
