# The program with one method more, which is one file and one line of the array, and one key of a trial and one field of
# a record more, which are one row each, with the values of others; and the suites that say something of every method: what tests/check_new_method runs.
NEW_METHOD := $(BUILD)/tests/new_method
NEW_KEY    := {MEMBER("made_up", BOOL, tf32), .meaning = "made up, too", .words = "made up"},
NEW_FIELD  := {.name = "made_up_bytes", .offset = offsetof(struct record, lower_bound_bytes_per_token), .type = FIELD_SIZE, \
    .compared = COMPARED_COUNT, .unit = "bytes", .meaning = "made up, as well"},
$(NEW_METHOD)/methods.c: methods/methods.c
	@mkdir -p $(@D)
	@sed 's/^    X(full) /    X(made_up) \\\n&/' $< > $@
$(NEW_METHOD)/trial_keys.c: harness/spec/trial_keys.c tests/new_method/new_method.mk
	@mkdir -p $(@D)
	@sed 's/^    {KEY("limits", OBJECT)/    $(NEW_KEY)\n&/' $< > $@
$(NEW_METHOD)/record_fields.c: harness/record/record_fields.c tests/new_method/new_method.mk
	@mkdir -p $(@D)
	@sed 's/^    {FIELD(record, lower_bound_bytes)/    $(NEW_FIELD)\n&/' $< > $@
NEW_OBJECTS := $(addprefix $(NEW_METHOD)/,methods.o trial_keys.o record_fields.o)
$(NEW_OBJECTS): %.o: %.c $(BUILD)/flags
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(NEW_METHOD)/longbp: $(BUILD)/harness/main.o $(NEW_OBJECTS) $(NEW_METHOD)/made_up.o $(LIBRARY)
	$(call say,LINK,$@)
	@ln -sfn $(abspath experiments) $(@D)/experiments
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
NEW_SUITES := $(addprefix $(NEW_METHOD)/,test_completion test_flops test_max_context test_replicas)
$(NEW_SUITES): $(NEW_METHOD)/%: $(BUILD)/tests/%.o $(NEW_OBJECTS) $(NEW_METHOD)/made_up.o \
    $(BUILD)/tests/fixture.o $(BUILD)/tests/chosen_tests.o $(LIBRARY)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)
$(if $(SANITIZE),,test-programs) run/tests/check_new_method: $(NEW_METHOD)/longbp $(NEW_SUITES)
