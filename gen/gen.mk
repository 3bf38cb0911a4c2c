# gen.mk - configs and templates are compiled into the generator.

EMBEDDED       = $(sort $(wildcard configs/*.lua gen/epilogues.lua templates/*.ptxt templates/lib/*.ptxt))
GEN_EXTRA_OBJS = $(B)/gen/embed_data.o

# The directories too: a file that was removed must go from the table.
$(B)/gen/embed_data.c: gen/embed.sh $(EMBEDDED) configs templates templates/lib
	@mkdir -p $(@D)
	$(Q)gen/embed.sh $(EMBEDDED) > $@

$(B)/gen/embed_data.o: $(B)/gen/embed_data.c gen/embed.h
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<
