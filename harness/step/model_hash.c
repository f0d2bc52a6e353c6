#include "harness/step/model_hash.h"
#include "harness/folder/adapter.h"
#include "harness/folder/folder.h"
#include <xxhash.h>

uint64_t model_hash(const struct trial *trial)
{
    enum { MODEL, ADAPTER, REFERENCE, REFERENCE_ADAPTER, PARTS };
    uint64_t hashes[PARTS] = {0};
    bool weights = !trial->planned, fine = true;
    const char *reference = trial->planned ? NULL : trial->reference.folder;
    struct status why = {0};
    if (!trial->model_folder && !trial->adapter_folder && !reference)
        return 0;
    if (trial->model_folder)
        fine = folder_hash_model(trial->model_folder, weights, &hashes[MODEL], &why);
    if (trial->adapter_folder)
        fine = fine && folder_hash_adapter(trial->adapter_folder, weights, &hashes[ADAPTER], &why);
    if (reference)
        fine = fine && folder_hash_model(reference, weights, &hashes[REFERENCE], &why);
    if (reference && adapter_is_in(reference))
        fine = fine && folder_hash_adapter(reference, weights, &hashes[REFERENCE_ADAPTER], &why);
    return fine ? XXH3_64bits(hashes, sizeof hashes) : 0;
}
