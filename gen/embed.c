#include "gen/embed.h"

#include <string.h>

const struct embedded *embedded_find(const char *path)
{
    for (int i = 0; i < embedded_count; i++)
        if (strcmp(embedded_files[i].path, path) == 0)
            return &embedded_files[i];
    return NULL;
}
