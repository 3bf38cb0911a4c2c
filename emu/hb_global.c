#include "emu/hb.h"
#include <stdlib.h>
struct hb_memory {
    int x;
};
struct hb_memory *hb_memory_new(void)
{
    return NULL;
}
void hb_memory_free(struct hb_memory *m)
{
    (void)m;
}
void hb_flags_reset(struct hb *h)
{
    (void)h;
}
void hb_flags_free(struct hb *h)
{
    (void)h;
}
void hb_others_free(struct hb_others *o)
{
    (void)o;
}
void hb_others_join(struct hb_others **o, const struct hb_others *other)
{
    (void)o;
    (void)other;
}
