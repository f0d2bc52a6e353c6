# The program with one method more, which is one file and one line of the array: what tests/check_new_method runs.
NEW_METHOD := $(BUILD)/tests/new_method
$(NEW_METHOD)/methods.c: methods/methods.c
	@mkdir -p $(@D)
	@sed 's/^    X(full) /    X(made_up) \\\n&/' $< > $@
$(NEW_METHOD)/methods.o: $(NEW_METHOD)/methods.c
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(NEW_METHOD)/longbp: $(BUILD)/harness/main.o $(NEW_METHOD)/methods.o $(NEW_METHOD)/made_up.o \
  $(filter-out $(BUILD)/methods/methods.o,$(OBJECTS))
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
test-programs run/tests/check_new_method: $(NEW_METHOD)/longbp
