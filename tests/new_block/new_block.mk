# Suites with one kind of mixer and one of MLP more, each one file and one row, which come first and are thus those of
# every configuration: what tests/check_new_block runs.
NEW_BLOCK := $(BUILD)/tests/new_block
$(NEW_BLOCK)/block_kinds.c: kernels/layers/block_kinds.c tests/new_block/new_block.mk
	@mkdir -p $(@D)
	@sed 's/X(attention)/X(running_sum) &/; s/X(dense)/X(gated) &/' $< > $@
$(NEW_BLOCK)/block_kinds.o: %.o: %.c $(BUILD)/flags
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
NEW_KINDS := $(addprefix $(NEW_BLOCK)/,block_kinds.o running_sum.o gated.o) $(BUILD)/tests/fixture.o $(BUILD)/tests/chosen_tests.o
NEW_BLOCK_SUITES := $(addprefix $(NEW_BLOCK)/,test_methods test_spaco test_plan test_memo test_ranks test_replicas)
$(NEW_BLOCK)/test_new_block: $(NEW_BLOCK)/test_new_block.o
$(NEW_BLOCK_SUITES): $(NEW_BLOCK)/%: $(BUILD)/tests/%.o
$(NEW_BLOCK)/test_new_block $(NEW_BLOCK_SUITES): $(NEW_KINDS) $(LIBRARY)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBRARY) -lcmocka $(LDLIBS)
$(if $(SANITIZE),,test-programs) run/tests/check_new_block: $(NEW_BLOCK)/test_new_block $(NEW_BLOCK_SUITES)
