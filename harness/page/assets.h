// Assets: the page's template, style and script, files of this folder that are part of the program.
#pragma once

extern const char page_template[], page_style[], page_script[]; // each ends in a zero
